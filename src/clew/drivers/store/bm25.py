"""BM25, the lexical score of a chunk for the words of a query.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), in the form of Lucene: the
inverse document frequency is always positive, and the constant factor (k1 + 1), which changes no order, is left out.
All of it is computed from the collection as it is now, so a score never depends on how the collection came to be.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from clew.core.stored import Counts
from clew.core.types import TermMatch

Floats = NDArray[np.float64]

K1 = 1.2
B = 0.75
DIGITS = 9  # of a score: the last ones depend on the order in which an index adds numbers up


def idf(chunks: int, having: int) -> float:
    """The weight of a word that occurs in `having` of `chunks` chunks: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log1p((max(chunks, having) - having + 0.5) / (having + 0.5))


def length_norm(lengths: Floats, average: float) -> Floats:
    """The length normalisation in the denominator: k1 · (1 - b + b · length / average)."""
    return K1 * (1.0 - B + B * lengths / max(average, 1e-9))


def saturate(counts: NDArray[np.float32], norm: Floats) -> Floats:
    """Term frequency saturation, from 0 to 1: count / (count + norm)."""
    return counts / (counts + norm)


def weigh_terms(times: Counts, having: Iterable[int], chunks: int) -> Floats:
    """The weight of each term of a query: how often it occurs there, times the idf of a word in `having` chunks."""
    pairs = zip(times.tolist(), having, strict=True)
    return np.array([count * idf(chunks, each) for count, each in pairs], np.float64)


def measure_terms(weights: Floats, counts: NDArray[np.float32], norms: Floats) -> tuple[Floats, Floats]:
    """The share and the strength of each chunk; `counts` has a row for each term of a query, a column for each chunk.

    The share is the weight of the terms that a chunk has, the strength its BM25 score, both over the weight of all.
    """
    total, column = weights.sum() or 1.0, weights[:, np.newaxis]
    shares = (column * (counts > 0)).sum(axis=0) / total
    strengths = (column * saturate(counts, norms)).sum(axis=0) / total
    return shares.round(DIGITS), strengths.round(DIGITS)


def match_terms(
    ids: Sequence[str], weights: Floats, counts: NDArray[np.float32], norms: Floats
) -> dict[str, TermMatch]:
    """How well chunks match the terms of a query, by id, with `counts` as in `measure_terms`."""
    shares, strengths = measure_terms(weights, counts, norms)
    return dict(zip(ids, map(TermMatch, shares.tolist(), strengths.tolist()), strict=True))
