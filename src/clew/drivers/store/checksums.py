"""Checksums of rows: every primary (not derived) row has one, compared whenever the row is read.

SQLite and Lance compute them here (xxh3, an integer), PostgreSQL in a generated column (md5, bytes). All hash the same
text of the columns, so that one function checks any of them.
"""

from collections.abc import Sequence
from hashlib import md5
from typing import Any

from xxhash import xxh3_64_intdigest

from clew.core.errors import CollectionDamaged, DriverFailed

UNCHECKED = -1  # for a row of an earlier version, in a folder that cannot be upgraded
ADVICE = "run `clew doctor`, which names all that is damaged, and `clew doctor --repair`"
HALF_CHARACTER = "a text holds half of a character pair (an unpaired surrogate), which cannot be stored"
COMPARED = b""  # for a redacted row: it was checked before, or by the server
_OFFSET = 1 << 63


def hash_values(*values: Any) -> int:
    """Compute the checksum of a row's columns."""
    try:
        return _hash_bytes(_join(values))
    except UnicodeEncodeError as error:
        raise DriverFailed(HALF_CHARACTER) from error


def hash_signal(columns: Sequence[Any]) -> int:
    """Compute the checksum of a signal: row, id, facets, seconds, length, terms, counts, vector."""
    row, chunk_id, facets, seconds, length, terms, counts, vector = columns
    head = f"{row}\x1f{chunk_id}\x1f{facets}\x1f{seconds}\x1f{length}\x1f{len(terms)}\x1f{len(counts)}\x1f"
    return _hash_bytes(b"".join((head.encode(), terms, counts, vector)))


def matches(stored: Any, *values: Any) -> bool:
    """Return whether a stored checksum matches the columns."""
    if stored in (UNCHECKED, COMPARED):
        return True
    try:
        data = _join(values)
    except UnicodeEncodeError:
        return False
    return bool(stored == (_hash_bytes(data) if isinstance(stored, int) else md5(data, usedforsecurity=False).digest()))


def check(name: str, stored: Any, *values: Any) -> None:
    """Raise CollectionDamaged unless the stored checksum matches the columns."""
    if not matches(stored, *values):
        raise damaged_error(name)


def check_signal(columns: Sequence[Any], stored: Any) -> None:
    """Raise CollectionDamaged unless the stored checksum matches the columns of a signal."""
    try:
        if stored == hash_signal(columns):
            return
    except TypeError:  # a number or a text instead of bytes
        pass
    raise damaged_error(f"the vector or the terms of the chunk {columns[1]!r}")


def damaged_error(what: str) -> CollectionDamaged:
    """Make the error for stored data that differs from the written data."""
    return CollectionDamaged(f"{what} is damaged: what is stored is not what was written; {ADVICE}")


def _join(values: Sequence[Any]) -> bytes:
    try:  # the usual case: texts and integers
        texts = ["" if each is None else str(each) if type(each) is int else each for each in values]
        return "\x1f".join(texts).encode()
    except TypeError:
        return b"\x1f".join(
            [each if isinstance(each, bytes) else b"" if each is None else str(each).encode() for each in values]
        )


def _hash_bytes(data: bytes) -> int:
    """Hash bytes to a signed 64-bit integer, never UNCHECKED."""
    made = xxh3_64_intdigest(data) - _OFFSET
    return made if made != UNCHECKED else 0
