"""Checksums of rows: each row of the truth carries one, and it is compared whenever the row is read.

The embedded store computes them here (xxh3, an integer), PostgreSQL by itself (md5, bytes, a generated column); both
over the same text of the columns, so that one function checks either.
"""

from collections.abc import Sequence
from hashlib import md5
from typing import Any

from xxhash import xxh3_64_intdigest

from clew.core.errors import CollectionDamaged

UNCHECKED = -1  # of a row that an earlier version wrote, in a folder that cannot be upgraded
ADVICE = "run `clew doctor`, which names all that is damaged, and `clew doctor --repair`"
COMPARED = b""  # of a row that is not shown as it is stored: the server has compared it, or blanked it
_OFFSET = 1 << 63


def hash_bytes(data: bytes) -> int:
    """The checksum of bytes as a signed 64-bit integer, never UNCHECKED."""
    made = xxh3_64_intdigest(data) - _OFFSET
    return made if made != UNCHECKED else 0


def hash_values(*values: Any) -> int:
    """The checksum of the columns of a row that is written now and then."""
    parts = [each if isinstance(each, bytes) else b"" if each is None else str(each).encode() for each in values]
    return hash_bytes(b"\x1f".join(parts))


def hash_chunk(row: int, doc: int, place: Sequence[int | None], shown: Sequence[str | None], chunk_id: str) -> int:
    """The checksum of a chunk: its place (piece, number, start, end) and headings, context, time, meta and text."""
    piece, number, start, end = place
    headings, context, at, meta, text = shown
    made = _chunk_to_text(row, doc, piece, number, start, end, headings, context, at, meta, text, chunk_id)
    return hash_bytes(made.encode())


def hash_signal(columns: Sequence[Any]) -> int:
    """The checksum of a signal: row, id, facets, seconds, length, terms, counts, vector."""
    row, chunk_id, facets, seconds, length, terms, counts, vector = columns
    head = f"{row}\x1f{chunk_id}\x1f{facets}\x1f{seconds}\x1f{length}\x1f{len(terms)}\x1f{len(counts)}\x1f"
    return hash_bytes(b"".join((head.encode(), terms, counts, vector)))


def hash_piece(doc: int, piece: Sequence[Any]) -> int:
    """The checksum of a piece of a document."""
    return hash_bytes(_piece_to_text(doc, piece).encode())


def check_values(name: str, stored: Any, *values: Any) -> None:
    """CollectionDamaged unless the stored checksum is that of the columns."""
    if stored != UNCHECKED and stored != hash_values(*values):
        raise damaged_error(name)


def check_chunk(columns: Sequence[Any]) -> None:
    """CollectionDamaged unless the checksum of a chunk (the last of CHUNK_COLUMNS) is that of its columns."""
    if not matches_chunk(columns):
        raise damaged_error(f"the chunk {columns[0]!r} of the document {columns[1]!r}")


def matches_chunk(columns: Sequence[Any]) -> bool:
    """Whether the checksum of a chunk (the last of CHUNK_COLUMNS) is that of its columns."""
    chunk_id, _, _, _, text, headings, context, at, meta, row, doc, piece, number, start, end, stored = columns
    made = _chunk_to_text(row, doc, piece, number, start, end, headings, context, at, meta, text, chunk_id)
    return _matches(stored, made) and start is not None  # labels hide its place where that cannot be added up


def check_record(columns: Sequence[Any]) -> None:
    """CollectionDamaged unless the checksum of a document (the last of RECORD_COLUMNS) is that of its columns."""
    if not matches_record(columns[:-1], columns[-1]):
        raise damaged_error(f"the document {columns[0]!r}")


def matches_record(columns: Sequence[Any], stored: Any) -> bool:
    """Whether a checksum is that of RECORD_COLUMNS without the last."""
    return _matches(stored, _record_to_text(columns))


def check_piece(doc_id: str, doc: int, piece: Sequence[Any], stored: Any) -> None:
    """CollectionDamaged unless the checksum of a piece of a document is that of its columns."""
    if not matches_piece(doc, piece, stored):
        raise damaged_error(f"the text of the document {doc_id!r}")


def matches_piece(doc: int, piece: Sequence[Any], stored: Any) -> bool:
    """Whether a checksum is that of a piece of a document."""
    return _matches(stored, _piece_to_text(doc, piece))


def check_signal(columns: Sequence[Any], stored: Any) -> None:
    """CollectionDamaged unless the checksum of a signal is that of its columns."""
    try:
        if stored == UNCHECKED or stored == hash_signal(columns):
            return
    except TypeError:  # a number or a text in place of bytes
        pass
    raise damaged_error(f"the vector or the terms of the chunk {columns[1]!r}")


def hash_record(*columns: Any) -> int:
    """The checksum of RECORD_COLUMNS without the last."""
    return hash_bytes(_record_to_text(columns).encode())


def damaged_error(what: str) -> CollectionDamaged:
    """The error for something stored that is not what was written."""
    return CollectionDamaged(f"{what} is damaged: what is stored is not what was written; {ADVICE}")


def _matches(stored: Any, made: str) -> bool:
    if stored in (UNCHECKED, COMPARED):
        return True
    try:
        data = made.encode()
    except UnicodeEncodeError:
        return False
    if isinstance(stored, int):
        return stored == hash_bytes(data)
    return bool(stored == md5(data, usedforsecurity=False).digest())


def _chunk_to_text(
    row: Any,
    doc: Any,
    piece: Any,
    number: Any,
    start: Any,
    end: Any,
    headings: Any,
    context: Any,
    at: Any,
    meta: Any,
    text: Any,
    chunk_id: Any,
) -> str:
    return (
        f"{row}\x1f{doc}\x1f{'' if piece is None else piece}\x1f{number}\x1f{start}\x1f{end}\x1f{headings}\x1f{context}"
        f"\x1f{at or ''}\x1f{meta}\x1f{text}\x1f{chunk_id}"
    )


def _record_to_text(columns: Sequence[Any]) -> str:
    return "\x1f".join(["" if each is None else str(each) for each in columns])


def _piece_to_text(doc: Any, piece: Sequence[Any]) -> str:
    n, text, sections, chars, chunks, message, parent, awaits = piece
    reply = f"{message or ''}\x1f{parent or ''}\x1f{awaits or ''}"
    return f"{doc}\x1f{n}\x1f{text}\x1f{sections}\x1f{chars}\x1f{chunks}\x1f{reply}"
