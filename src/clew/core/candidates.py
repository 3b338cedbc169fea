"""Candidates: what both rankings of a query found, in columns, so that only the hits that are shown are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Hit

ReadHits = Callable[[Sequence[int]], list[Hit]]  # those at some places; LookupError if one is gone


class Depth(NamedTuple):
    """How many a ranking finds, and how many of them are candidates."""

    found: int
    kept: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """The chunks that a query found by its vector or by its terms, each once: the nearest first, in their order.

    `by_words` are the BM25 scores of those that were found by terms, by their place, best first. The other columns
    have the cosine of each, and its `TermMatch`. `read_hits` reads those at some places, in their order and not scored;
    LookupError if one is gone meanwhile.
    """

    ids: Sequence[str]
    has_messages: bool  # whether any is a message, or a part of one
    nearest: int  # the first so many were found by the vector
    by_words: Mapping[int, float]
    cosines: NDArray[np.float64]
    shares: NDArray[np.float64]
    strengths: NDArray[np.float64]
    read_hits: ReadHits


class CandidateTexts(Sequence[str]):
    """The texts of candidates; those that were not read with their hits are read when they are asked for."""

    def __init__(self, found: Candidates) -> None:
        self._found = found
        self._known: dict[int, str] = {}

    def read_hits(self, places: Sequence[int]) -> list[Hit]:
        """The hits at some places, in their order and not scored, all read at once; LookupError if one is gone."""
        hits = self._found.read_hits(places)
        self._known.update({place: hit.chunk.text.strip() for place, hit in zip(places, hits, strict=True)})
        return hits

    def __len__(self) -> int:
        return len(self._found.ids)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        if place not in self._known:
            self.read_hits([place])
        return self._known[place]
