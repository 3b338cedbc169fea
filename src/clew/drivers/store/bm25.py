"""BM25, the lexical score of a chunk for the words of a query.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), as in Lucene: the inverse
document frequency is always positive, and the constant factor (k1 + 1), which changes no order, is omitted. All counts
are current, so a score does not depend on the collection's history.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.stored import Counts

Floats = NDArray[np.float64]
TermPlaces = Sequence[tuple[NDArray[Any], NDArray[np.float32]]]  # for each term, the places of chunks and its counts

K1 = 1.2
B = 0.75
MIN_CHUNKS = 100  # minimum collection size in the idf
DIGITS = 9  # of a score: further digits depend on the order in which an index adds numbers


def idf(chunks: int, having: int) -> float:
    """Return the inverse document frequency of a word in n = `having` chunks: ln(1 + (N - n + 0.5) / (n + 0.5)).

    N is `chunks`, at least MIN_CHUNKS: among a few pages hardly any word is rare, and each new page would change that.
    """
    return math.log1p((max(chunks, having, MIN_CHUNKS) - having + 0.5) / (having + 0.5))


def length_norm(lengths: Floats, average: float) -> Floats:
    """Return the length normalisation for the denominator: k1 · (1 - b + b · length / average)."""
    return K1 * (1.0 - B + B * lengths / max(average, 1e-9))


def saturate(counts: NDArray[np.float32], norm: Floats) -> Floats:
    """Saturate a term frequency, from 0 to 1: count / (count + norm)."""
    return counts / (counts + norm)


def weigh_terms(times: Counts, having: Iterable[int], chunks: int) -> Floats:
    """Return the weight of each term of a query: its count in the query times its idf."""
    pairs = zip(times.tolist(), having, strict=True)
    return np.array([count * idf(chunks, each) for count, each in pairs], np.float64)


@dataclass(frozen=True, slots=True)
class TermScores:
    """The matches of query terms in chunks: the chunk's place, the term's weight, and its part of the score.

    total: The weight of all terms.
    """

    places: NDArray[Any]
    weights: Floats
    parts: Floats
    total: float

    def sum_by_chunk(self, size: int) -> Floats:
        """Return the BM25 scores of the first `size` places."""
        return np.bincount(self.places, self.parts, minlength=size).astype(np.float64, copy=False)

    def measure(self, size: int, chosen: NDArray[np.intp] | None = None) -> tuple[Floats, Floats]:
        """Return the share and strength of the chunks at the first `size` places, or at the `chosen` ones among them.

        The share is the weight of the chunk's terms, the strength its BM25 score, both divided by the total weight.
        """
        places, weights, parts = self.places, self.weights, self.parts
        if chosen is not None:
            column_of = np.full(size, -1, np.int32)
            column_of[chosen] = np.arange(len(chosen), dtype=np.int32)
            at = np.flatnonzero(column_of[places] >= 0)
            places, weights, parts, size = column_of[places[at]], weights[at], parts[at], len(chosen)
        shares, strengths = (np.bincount(places, each, minlength=size) / self.total for each in (weights, parts))
        return shares.round(DIGITS), strengths.round(DIGITS)


def score_terms(found: TermPlaces, weights: Floats, norms: Floats) -> TermScores:
    """Score the matches of terms, from the terms' weights and the chunks' length normalisations."""
    places = np.concatenate([places for places, _ in found]) if found else np.empty(0, np.int64)
    counts = np.concatenate([counts for _, counts in found]) if found else np.empty(0, np.float32)
    each = np.repeat(weights, [len(places) for places, _ in found])
    return TermScores(places, each, each * saturate(counts, norms[places]), weights.sum() or 1.0)
