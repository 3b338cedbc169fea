"""BM25, the lexical score: how much the words that a chunk shares with a query say about it.

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
    """The weight of a word that `having` of `chunks` chunks have: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log1p((max(chunks, having) - having + 0.5) / (having + 0.5))


def norms(lengths: Floats, average: float) -> Floats:
    """What a chunk's length adds below the line: k1 · (1 - b + b · length / average)."""
    return K1 * (1.0 - B + B * lengths / max(average, 1e-9))


def saturated(counts: NDArray[np.float32], norm: Floats) -> Floats:
    """How much a word's count in a chunk says, from 0 to 1: count / (count + norm)."""
    return counts / (counts + norm)
