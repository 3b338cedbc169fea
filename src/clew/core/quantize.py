"""int8 vectors: each number of a unit vector as a whole number of -127 to 127, a byte.

The scale need not be kept: the greatest number becomes 127, and the length of the codes brings back a unit vector. So
codes that are read and made again are the same.
"""

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Matrix

INT8_MARK = "#int8"  # ends the name of an embedder whose vectors are stored so
_MAX_CODE = 127

Codes = NDArray[np.int8]


def has_int8_vectors(embedder: str) -> bool:
    """Whether the embedder of this name has int8 vectors."""
    return embedder.endswith(INT8_MARK)


def quantize(vectors: Matrix) -> Codes:
    """The codes of vectors, by row; of what is no vector (zeros), zeros."""
    greatest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    codes: Codes = np.rint(vectors * (_MAX_CODE / np.where(greatest > 0, greatest, 1))).astype(np.int8)
    return codes


def dequantize(codes: Codes) -> Matrix:
    """The unit vectors of codes."""
    wide = codes.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    vectors: Matrix = (wide / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)
    return vectors


def round_to_int8(vectors: Matrix) -> Matrix:
    """The unit vectors that int8 codes can express nearest to these; themselves if they are such."""
    return dequantize(quantize(vectors))
