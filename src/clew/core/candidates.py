"""Candidates: what both rankings of a query found, in columns, so that only the hits that are shown become objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Hit


class Depth(NamedTuple):
    """How many a ranking finds, and how many of them are candidates."""

    found: int
    kept: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """The chunks that a query found by its vector or by its terms, each once: the nearest first, in their order.

    `by_words` are the BM25 scores of those that were found by terms, by their place, best first. The other columns
    have the cosine of each, and its `TermMatch`.
    """

    hits: Sequence[Hit]  # not scored
    nearest: int  # the first so many were found by the vector
    by_words: Mapping[int, float]
    cosines: NDArray[np.float64]
    shares: NDArray[np.float64]
    strengths: NDArray[np.float64]
