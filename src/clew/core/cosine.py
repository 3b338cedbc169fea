"""The cosine of vectors, the same number wherever it is computed: in any store, and for any hit of any search."""

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Matrix, Vector

COSINE_DIGITS = 6  # vectors are stored in single precision


def compute_cosines(vectors: Matrix, vector: Vector) -> NDArray[np.float64]:
    """The cosine of each unit row with a unit vector, in double precision and rounded, within -1 and 1.

    In single precision the product of a row depends on its place among the others, which differs between stores.
    """
    exact: NDArray[np.float64] = vectors.astype(np.float64) @ vector.astype(np.float64)
    return np.minimum(np.maximum(exact.round(COSINE_DIGITS), -1.0), 1.0)
