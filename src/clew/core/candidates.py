"""Candidates: the chunks found by the rankings of a query, in columns, so that only the final hits are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.filter import Filter
from clew.core.types import Hit


class Gone(LookupError):
    """A found chunk was removed before it could be read."""


class Ranking(NamedTuple):
    """A requested ranking: a filter, and how many chunks to find by the vector and by the terms."""

    where: Filter
    near: int
    matching: int


class ThreadPlace(NamedTuple):
    """The position of a message: the thread's number, its number in the thread, its id, its parent's id, its text."""

    thread: int
    number: int
    message: str
    reply_to: str
    text: str


class Placed(NamedTuple):
    """The id of a chunk in a ranking, and its score there."""

    id: str
    score: float


ReadHits = Callable[[Sequence[int]], list[Hit]]  # by place in `Candidates`
ReadThreads = Callable[[Sequence[int]], list[ThreadPlace]]  # for the messages at these places


@dataclass(frozen=True, slots=True)
class Candidates:
    """The distinct chunks that the rankings of one query found, or that were requested by id.

    near, matching: For each ranking, the places of the chunks found by the vector and by the terms, best first.
    by_words: The BM25 scores of the chunks found by the terms, by place.
    cosines: nan for a chunk whose vector is pending.
    shares, strengths: The `TermMatch` of each chunk.
    read_hits, read_threads: Read the hits or threads at some places, in order, unscored; Gone if one was removed.
    """

    ids: Sequence[str]
    is_message: NDArray[np.bool_]  # whole or a part of one
    near: Sequence[Sequence[int]]
    matching: Sequence[Sequence[int]]
    by_words: Mapping[int, float]
    cosines: NDArray[np.float64]
    shares: NDArray[np.float64]
    strengths: NDArray[np.float64]
    read_hits: ReadHits
    read_threads: ReadThreads
