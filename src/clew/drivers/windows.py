"""Windows of texts that are longer than a model's token limit, for embedders, rerankers and verifiers.

A text is embedded in windows that are pooled. A reranker scores windows, and the best one counts: one passage that
answers is an answer, whatever surrounds it (MaxP: Dai and Callan, "Deeper Text Understanding for IR with Contextual
Neural Language Modeling", 2019). A long question accompanies every window, so it is shortened: the point of a long
message stands at its start or at its end, so both are kept and the middle is dropped.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clew.core.errors import DriverFailed
from clew.core.types import Matrix


def split_windows(length: int, size: int, overlap: int) -> list[slice]:
    """Split `length` into the fewest windows of at most `size`, spread evenly; neighbours share at least `overlap`."""
    if length <= size:
        return [slice(0, length)]
    shared = min(overlap, size // 2)
    count = math.ceil((length - shared) / (size - shared))
    last = length - size
    return [slice(at * last // (count - 1), at * last // (count - 1) + size) for at in range(count)]


def keep_both_ends(length: int, max_length: int) -> list[slice]:
    """Keep the start and the end, together `max_length` long, of what is longer; else all of it."""
    if length <= max_length:
        return [slice(0, length)]
    return [slice(0, max_length - max_length // 2), slice(length - max_length // 2, length)]


def max_score_per_text(scores: Sequence[float], owners: Sequence[int], count: int) -> list[float]:
    """Return the greatest window score of each of the `count` texts; `owners` says which text each score belongs to."""
    best = [-math.inf] * count
    for owner, score in zip(owners, scores, strict=True):
        best[owner] = max(best[owner], score)
    return best


def logistic(value: float) -> float:
    """Return 1 / (1 + e^-value), without overflow."""
    return 0.5 * (1.0 + math.tanh(0.5 * value))


def normalize(rows: ArrayLike, *, source: str) -> Matrix:
    """Scale the rows to unit length, in float32; DriverFailed, naming the source, if one is zero or not finite."""
    wide = np.asarray(rows, dtype=np.float64)  # a sum of squares that overflows or vanishes in float32 does not here
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise DriverFailed(f"{source} gave a vector that is zero or not a number; trying again will not help")
    normalized: Matrix = (wide / lengths).astype(np.float32)
    return normalized


def join_windows(rows: Matrix, weights: Sequence[int], owners: Sequence[int], count: int, *, source: str) -> Matrix:
    """Return one unit vector per text: that of its only window, or the pooled ones of several."""
    if len(owners) > count:
        rows = pool_windows(normalize(rows, source=source), weights, owners, count)
    return normalize(rows, source=source)


def pool_windows(rows: Matrix, weights: Sequence[int], owners: Sequence[int], count: int) -> Matrix:
    """Pool windows into one row per text: the sum of their rows, weighted by their lengths; not normalised.

    `owners` says for each row which of the `count` texts it belongs to.
    """
    weighted = np.asarray(rows, dtype=np.float64) * np.asarray(weights, dtype=np.float64)[:, None]
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, np.asarray(owners, dtype=np.intp), weighted)
    return sums.astype(np.float32)
