"""Candidates: what the rankings of a query found, in columns, so that only the hits that are shown are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.filter import Filter
from clew.core.types import Hit


class Gone(LookupError):
    """A chunk that was found was removed before it was read."""


class Ranking(NamedTuple):
    """A ranking to make: how many chunks by the vector and how many by the terms, of those that a filter admits."""

    where: Filter
    near: int
    matching: int


class ThreadPlace(NamedTuple):
    """Where a message is: the number of its thread, its own in the thread, its id, and the one it answers, if any."""

    thread: int
    number: int
    message: str
    reply_to: str
    text: str


class Placed(NamedTuple):
    """A chunk in a ranking, by its id, and its score there."""

    id: str
    score: float


ReadHits = Callable[[Sequence[int]], list[Hit]]  # those at some places
ReadThreads = Callable[[Sequence[int]], list[ThreadPlace]]  # of the messages at some places


@dataclass(frozen=True, slots=True)
class Candidates:
    """The chunks that the rankings of one query found, or that were asked for by their ids, each once.

    near, matching: The places of the chunks that each ranking found by the vector, and by the terms, best first.
    by_words: The BM25 scores of those that were found by the terms, by place.
    cosines: nan where a vector is still to be made.
    shares, strengths: The `TermMatch` of each.
    read_hits, read_threads: Read what is at some places, in their order, not scored; Gone if one is removed meanwhile.
    """

    ids: Sequence[str]
    is_message: NDArray[np.bool_]  # or a part of one
    near: Sequence[Sequence[int]]
    matching: Sequence[Sequence[int]]
    by_words: Mapping[int, float]
    cosines: NDArray[np.float64]
    shares: NDArray[np.float64]
    strengths: NDArray[np.float64]
    read_hits: ReadHits
    read_threads: ReadThreads
