"""Vectors as SQLite stores them: four bytes a number, or one in a collection whose embedder has int8 vectors.

Which of the two a vector is, its length says.
"""

import sqlite3
from collections.abc import Sequence

import numpy as np

from clew.core.quantize import dequantize, has_int8_vectors, quantize
from clew.core.types import Matrix, Vector
from clew.drivers.store.checksums import damaged_error


def stores_int8(db: sqlite3.Connection) -> bool:
    """Whether the vectors in use are stored as int8."""
    return has_int8_vectors(db.execute("SELECT embedder FROM meta").fetchone()[0])


def pack_vectors(vectors: Matrix, *, is_int8: bool) -> list[bytes]:
    """The rows as bytes."""
    matrix = np.ascontiguousarray(vectors, np.float32)
    return [row.tobytes() for row in (quantize(matrix) if is_int8 else matrix)]


def pack_vector(vector: Vector, *, is_int8: bool) -> bytes:
    """A vector as bytes."""
    return pack_vectors(vector[None], is_int8=is_int8)[0]


def pack_bytes(vectors: Sequence[bytes], *, is_int8: bool) -> Sequence[bytes]:
    """Vectors of four bytes a number as they are stored."""
    if not is_int8 or not vectors:
        return vectors
    return pack_vectors(np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), -1), is_int8=True)


def unpack_vectors(stored: Sequence[bytes], dim: int) -> Matrix:
    """Stored vectors of this width as a matrix; CollectionDamaged if one has another."""
    data = b"".join(stored)
    if stored and len(data) == len(stored) * dim:
        return dequantize(np.frombuffer(data, np.int8).reshape(len(stored), dim))
    if len(data) != 4 * len(stored) * dim:
        raise damaged_error("a vector")
    return np.frombuffer(data, np.float32).reshape(len(stored), dim)


def unpack_vector(stored: bytes, dim: int) -> Vector:
    """A stored vector of this width."""
    vector: Vector = unpack_vectors([stored], dim)[0]
    return vector
