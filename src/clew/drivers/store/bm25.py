"""BM25, the lexical score of a chunk for the words of a query.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), in the form of Lucene: the
inverse document frequency is always positive, and the constant factor (k1 + 1), which changes no order, is left out.
All of it is computed from the collection as it is now, so a score never depends on how the collection came to be.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

K1 = 1.2
B = 0.75


def idf(chunks: int, having: int) -> float:
    """The weight of a word that occurs in `having` of `chunks` chunks: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log1p((max(chunks, having) - having + 0.5) / (having + 0.5))


def length_norm(lengths: Floats, average: float) -> Floats:
    """The length normalisation in the denominator: k1 · (1 - b + b · length / average)."""
    return K1 * (1.0 - B + B * lengths / max(average, 1e-9))


def saturate(counts: NDArray[np.float32], norm: Floats) -> Floats:
    """Term frequency saturation, from 0 to 1: count / (count + norm)."""
    return counts / (counts + norm)
