"""Arrays and vectors in PostgreSQL's own binary form: a document's worth of rows is sent as a few columns.

They are written by `INSERT … SELECT unnest(…)`, because COPY is refused on tables with row-level security.
"""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection, DataError
from psycopg.adapt import Dumper
from psycopg.pq import Format
from xxhash import xxh3_64_intdigest

from clew.core.types import Matrix, Vector

BIGINT, INT, TEXT, FLOAT = 20, 23, 25, 701  # the types' numbers, the same on every server
_LONG, _SHORT = (np.dtype([("size", ">i4"), ("body", body)]) for body in (">i8", ">i4"))
_NULL = struct.pack(">i", -1)
FACET = 1  # seeds the hashes of facets, so that no word is ever taken for one


class Raw(bytes):
    """A parameter that is already in binary form; the statement says its type by a cast."""


class RawDumper(Dumper):
    """Sends Raw as it is."""

    format = Format.BINARY

    def dump(self, obj: Raw) -> bytes:
        """The bytes themselves."""
        return obj


def register(connection: Connection) -> None:
    """Lets a connection send Raw."""
    connection.adapters.register_dumper(Raw, RawDumper)


def bigints(numbers: NDArray[np.integer] | Sequence[int]) -> Raw:
    """A bigint[]."""
    return _array(numbers, _LONG, BIGINT)


def ints(numbers: NDArray[np.integer] | Sequence[int]) -> Raw:
    """An int[]."""
    return _array(numbers, _SHORT, INT)


def floats(given: Sequence[float | None]) -> Raw:
    """A float8[]."""
    parts = [_NULL if each is None else struct.pack(">id", 8, each) for each in given]
    return Raw(_head(FLOAT, len(given), nulls=None in given) + b"".join(parts))


def texts(given: Sequence[str | None]) -> Raw:
    """A text[], for a server that is told in UTF-8."""
    parts = list[bytes]()
    for each in given:
        if each is None:
            parts.append(_NULL)
            continue
        if "\0" in each:
            raise DataError("a text cannot hold a NUL character")
        data = each.encode()
        parts += (len(data).to_bytes(4), data)
    return Raw(_head(TEXT, len(given), nulls=None in given) + b"".join(parts))


def vector(given: Vector) -> Raw:
    """A vector."""
    return Raw(struct.pack(">hh", len(given), 0) + given.astype(">f4").tobytes())


def vectors(given: Matrix, oid: int) -> Raw:
    """A vector[], given the number that the type has in this database."""
    return Raw(_head(oid, len(given)) + _vectors(given).tobytes())


def read_vector(sent: bytes) -> Vector:
    """The vector that a server sent in binary form."""
    return np.frombuffer(sent, ">f4", offset=4).astype(np.float32)


def read_vectors(sent: Sequence[bytes], dim: int) -> Matrix:
    """Vectors that a server sent, as rows."""
    rows = np.frombuffer(b"".join(sent), ">f4").reshape(len(sent), dim + 1)  # before each, its width
    return rows[:, 1:].astype(np.float32)


def facet_hash(facet: str) -> int:
    """The number that stands for a facet."""
    digest = xxh3_64_intdigest(facet.encode("utf-8", "surrogatepass"), seed=FACET)
    return digest - (1 << 64) if digest >> 63 else digest


def _array(numbers: NDArray[np.integer] | Sequence[int], form: np.dtype[np.void], oid: int) -> Raw:
    rows = np.empty(len(numbers), form)
    rows["size"], rows["body"] = form.itemsize - 4, numbers
    return Raw(_head(oid, len(numbers)) + rows.tobytes())


def _head(oid: int, many: int, *, nulls: bool = False) -> bytes:
    """The head of an array of one dimension that begins at 1; an empty one has no dimension."""
    return struct.pack(">5i", 1, nulls, oid, many, 1) if many else struct.pack(">3i", 0, 0, oid)


def _vectors(given: Matrix) -> NDArray[np.void]:
    body = np.dtype([("dim", ">i2"), ("unused", ">i2"), ("values", ">f4", (given.shape[1],))])
    rows = np.zeros(len(given), [("size", ">i4"), ("body", body)])
    rows["size"], rows["body"]["dim"], rows["body"]["values"] = body.itemsize, given.shape[1], given
    return rows
