"""Windows of texts that are longer than a model's token limit, for embedders, rerankers and verifiers.

An embedder pools the vectors of the windows. A reranker takes the best window's score: one passage that answers is an
answer, whatever surrounds it (MaxP: Dai and Callan, "Deeper Text Understanding for IR with Contextual Neural Language
Modeling", 2019). A long question is shortened, since it accompanies every window: its middle is dropped, because the
point of a long message is usually at its start or end.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clew.core.errors import DriverFailed
from clew.core.types import Matrix


def split_windows(length: int, size: int, overlap: int) -> list[slice]:
    """Split `length` into the fewest, evenly spread windows of at most `size` that overlap by at least `overlap`."""
    if length <= size:
        return [slice(0, length)]
    shared = min(overlap, size // 2)
    count = math.ceil((length - shared) / (size - shared))
    last = length - size
    return [slice(at * last // (count - 1), at * last // (count - 1) + size) for at in range(count)]


def keep_both_ends(length: int, max_length: int) -> list[slice]:
    """Return slices of the start and end, together `max_length` long, if `length` is more; else one slice of all."""
    if length <= max_length:
        return [slice(0, length)]
    return [slice(0, max_length - max_length // 2), slice(length - max_length // 2, length)]


def max_score_per_text(scores: Sequence[float], owners: Sequence[int], count: int) -> list[float]:
    """Return the greatest window score of each of the `count` texts; `owners` has the text of each score."""
    best = [-math.inf] * count
    for owner, score in zip(owners, scores, strict=True):
        best[owner] = max(best[owner], score)
    return best


def logistic(value: float) -> float:
    """Return 1 / (1 + e^-value), without overflow."""
    return 0.5 * (1.0 + math.tanh(0.5 * value))


def normalize(rows: ArrayLike, *, source: str) -> Matrix:
    """Scale the rows to unit length, in float32; DriverFailed, naming the source, if one is zero or not finite."""
    wide = np.asarray(rows, dtype=np.float64)  # in float32 a sum of squares may overflow or underflow
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise DriverFailed(f"{source} gave a vector that is zero or not a number; trying again will not help")
    normalized: Matrix = (wide / lengths).astype(np.float32)
    return normalized


def join_windows(rows: Matrix, weights: Sequence[int], owners: Sequence[int], count: int, *, source: str) -> Matrix:
    """Return one unit vector per text, pooling the windows of long texts."""
    if len(owners) > count:
        rows = pool_windows(normalize(rows, source=source), weights, owners, count)
    return normalize(rows, source=source)


def pool_windows(rows: Matrix, weights: Sequence[int], owners: Sequence[int], count: int) -> Matrix:
    """Pool windows into one row per text: the sum weighted by `weights` (lengths), not normalised.

    `owners` has for each row the number of its text, below `count`.
    """
    weighted = np.asarray(rows, dtype=np.float64) * np.asarray(weights, dtype=np.float64)[:, None]
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, np.asarray(owners, dtype=np.intp), weighted)
    return sums.astype(np.float32)
