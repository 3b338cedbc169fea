"""Vectors as SQLite stores them: four bytes a number, or two where these express it exactly.

Which of the two a vector is, its length says. `store.vectors` rounds vectors so that two bytes do.
"""

import sqlite3
from collections.abc import Sequence

import numpy as np

from clew.core.types import Matrix, Vector
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.checksums import damaged_error


def stores_half(db: sqlite3.Connection, dim: int) -> bool:
    """Whether the first vector is stored in two bytes a number."""
    found = db.execute("SELECT length(vector) FROM signals WHERE length(vector) > 0 LIMIT 1").fetchone()
    return found is not None and found[0] == 2 * dim


def pack_vectors(vectors: Matrix) -> list[bytes]:
    """The rows as bytes."""
    matrix = np.ascontiguousarray(vectors, np.float32)
    half = matrix.astype(np.float16)
    fits = (half == matrix).all(axis=1)
    return [short.tobytes() if fit else row.tobytes() for row, short, fit in zip(matrix, half, fits, strict=True)]


def unpack_vectors(stored: Sequence[bytes], dim: int) -> Matrix:
    """Stored vectors of this width as a matrix, nan for an empty one; CollectionDamaged if one has another width."""
    data, count = b"".join(stored), len(stored)
    if len(data) == 4 * count * dim and all(len(each) == 4 * dim for each in stored):
        return np.frombuffer(data, np.float32).reshape(count, dim)
    forms = {4 * dim: np.float32, 2 * dim: np.float16}
    if any(each and len(each) not in forms for each in stored):
        raise damaged_error("a vector")
    missing = np.full(dim, np.nan, np.float32)
    return np.stack([np.frombuffer(each, forms[len(each)]).astype(np.float32) if each else missing for each in stored])


def find_width(stored: bytes) -> int:
    """The width at which a stored vector has unit length; 0 if there is none."""
    for form in (np.float32, np.float16):
        if len(stored) % np.dtype(form).itemsize == 0:
            numbers = np.frombuffer(stored, form).astype(np.float64)
            if abs(float(numbers @ numbers) - 1.0) < 2 * UNIT_TOLERANCE:
                return len(numbers)
    return 0


def unpack_vector(stored: bytes, dim: int) -> Vector:
    """A stored vector of this width."""
    if len(stored) not in (4 * dim, 2 * dim):
        raise damaged_error("a vector")
    return np.frombuffer(stored, np.float32 if len(stored) == 4 * dim else np.float16).astype(np.float32, copy=False)
