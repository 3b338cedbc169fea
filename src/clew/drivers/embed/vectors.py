"""What every embedder does to its rows and its texts, so that each does it alike."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from clew.core.errors import DriverFailed
from clew.core.types import Matrix


def unit(rows: ArrayLike, *, of: str) -> Matrix:
    """The rows at length one, in float32; DriverFailed in the name of `of` where a row has no direction."""
    wide = np.asarray(rows, dtype=np.float64)  # a sum of squares that overflows or vanishes in float32 does not here
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise DriverFailed(f"{of} gave a vector that is zero or not a number; trying again will not help")
    rows_of_one: Matrix = (wide / lengths).astype(np.float32)
    return rows_of_one


def pooled(rows: Matrix, weights: Sequence[int], owners: Sequence[int], count: int) -> Matrix:
    """One row an owner: the mean of the rows of its pieces, each weighted by its length; not yet of unit length."""
    weighted = np.asarray(rows, dtype=np.float64) * np.asarray(weights, dtype=np.float64)[:, None]
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, np.asarray(owners, dtype=np.intp), weighted)
    return sums.astype(np.float32)


def encodable(text: str) -> str:
    """The text with lone surrogates replaced: neither a tokeniser nor JSON can carry them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
