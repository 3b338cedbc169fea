"""What embedders do to their rows: normalising to unit length, and pooling the windows of a long text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clew.core.errors import DriverFailed
from clew.core.types import Matrix


def normalize(rows: ArrayLike, *, source: str) -> Matrix:
    """The rows at unit length, in float32; DriverFailed, naming the source, if a row is zero or not finite."""
    wide = np.asarray(rows, dtype=np.float64)  # a sum of squares that overflows or vanishes in float32 does not here
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise DriverFailed(f"{source} gave a vector that is zero or not a number; trying again will not help")
    normalized: Matrix = (wide / lengths).astype(np.float32)
    return normalized


def pool_windows(rows: Matrix, weights: Sequence[int], owners: Sequence[int], count: int) -> Matrix:
    """One row per text: the sum of the rows of its windows, weighted by their lengths; not normalised.

    `owners` says for each row which of the `count` texts it belongs to.
    """
    weighted = np.asarray(rows, dtype=np.float64) * np.asarray(weights, dtype=np.float64)[:, None]
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, np.asarray(owners, dtype=np.intp), weighted)
    return sums.astype(np.float32)
