"""Arrays and vectors in PostgreSQL's binary format, to send the rows of a document as a few columns.

`INSERT … SELECT unnest(…)` writes them, because PostgreSQL refuses COPY on tables with row-level security.
"""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection, DataError
from psycopg.adapt import Dumper
from psycopg.pq import Format

from clew.core.types import Matrix, Vector

BIGINT, INT, TEXT, FLOAT = 20, 23, 25, 701  # object ids of types, the same on every server
_LONG, _SHORT = (np.dtype([("size", ">i4"), ("body", body)]) for body in (">i8", ">i4"))
_NULL = struct.pack(">i", -1)


class BinaryParam(bytes):
    """A parameter in binary format; the statement casts it to its type."""


class BinaryDumper(Dumper):
    """A dumper that sends a BinaryParam unchanged."""

    format = Format.BINARY

    def dump(self, obj: BinaryParam) -> bytes:
        """Return the bytes themselves."""
        return obj


def register_dumper(connection: Connection) -> None:
    """Enable a connection to send BinaryParam."""
    connection.adapters.register_dumper(BinaryParam, BinaryDumper)


def encode_bigints(numbers: NDArray[np.integer] | Sequence[int]) -> BinaryParam:
    """Encode a bigint[]."""
    return _encode_array(numbers, _LONG, BIGINT)


def encode_ints(numbers: NDArray[np.integer] | Sequence[int]) -> BinaryParam:
    """Encode an int[]."""
    return _encode_array(numbers, _SHORT, INT)


def encode_optional_ints(values: Sequence[int | None]) -> BinaryParam:
    """Encode an int[] with nulls."""
    parts = [_NULL if each is None else struct.pack(">ii", 4, each) for each in values]
    return BinaryParam(_make_array_header(INT, len(values), nulls=None in values) + b"".join(parts))


def encode_floats(values: Sequence[float | None]) -> BinaryParam:
    """Encode a float8[]."""
    parts = [_NULL if each is None else struct.pack(">id", 8, each) for each in values]
    return BinaryParam(_make_array_header(FLOAT, len(values), nulls=None in values) + b"".join(parts))


def encode_texts(values: Sequence[str | None]) -> BinaryParam:
    """Encode a text[], in UTF-8."""
    parts = list[bytes]()
    for each in values:
        if each is None:
            parts.append(_NULL)
            continue
        if "\0" in each:
            raise DataError("a text cannot hold a NUL character")
        data = each.encode()
        parts += (len(data).to_bytes(4), data)
    return BinaryParam(_make_array_header(TEXT, len(values), nulls=None in values) + b"".join(parts))


def encode_vector(vector: Vector) -> BinaryParam:
    """Encode a vector."""
    return BinaryParam(struct.pack(">hh", len(vector), 0) + vector.astype(">f4").tobytes())


def encode_vectors(vectors: Matrix, oid: int) -> BinaryParam:
    """Encode a vector[]; `oid` is the object id of the type vector in this database."""
    return BinaryParam(_make_array_header(oid, len(vectors)) + _make_vector_rows(vectors).tobytes())


def decode_vector(data: bytes) -> Vector:
    """Decode a vector in binary format."""
    return np.frombuffer(data, ">f4", offset=4).astype(np.float32)


def decode_vectors(data: Sequence[bytes], dim: int) -> Matrix:
    """Decode vectors in binary format, as rows."""
    rows = np.frombuffer(b"".join(data), ">f4").reshape(len(data), dim + 1)  # each is preceded by its width
    return rows[:, 1:].astype(np.float32)


def _encode_array(numbers: NDArray[np.integer] | Sequence[int], form: np.dtype[np.void], oid: int) -> BinaryParam:
    rows = np.empty(len(numbers), form)
    rows["size"], rows["body"] = form.itemsize - 4, numbers
    return BinaryParam(_make_array_header(oid, len(numbers)) + rows.tobytes())


def _make_array_header(oid: int, count: int, *, nulls: bool = False) -> bytes:
    """Make the header of a one-dimensional array that begins at 1; an empty one has no dimension."""
    return struct.pack(">5i", 1, nulls, oid, count, 1) if count else struct.pack(">3i", 0, 0, oid)


def _make_vector_rows(vectors: Matrix) -> NDArray[np.void]:
    body = np.dtype([("dim", ">i2"), ("unused", ">i2"), ("values", ">f4", (vectors.shape[1],))])
    rows = np.zeros(len(vectors), [("size", ">i4"), ("body", body)])
    rows["size"], rows["body"]["dim"], rows["body"]["values"] = body.itemsize, vectors.shape[1], vectors
    return rows
