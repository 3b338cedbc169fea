"""Whole documents out of the truth, a few at a time. Runs inside a transaction that the caller has begun."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from clew.core.stored import Packed, StoredDocument
from clew.core.types import Document, DocumentRecord, Vector
from clew.drivers.store import codec

LOOKED_AT = 256  # documents whose sizes are read at once
CHUNKS, CHARS = 2000, 8_000_000  # that are held at once, but for a document that alone has more


def page(db: sqlite3.Connection, after: int, doc_ids: Sequence[str] | None) -> list[int]:
    """The rows of the next documents after one, of all or of those named; none where there are no more."""
    named = "" if doc_ids is None else " AND id IN (SELECT value FROM json_each(?))"
    given = () if doc_ids is None else (json.dumps(list(doc_ids)),)
    sql = f"SELECT row, chunks, chars FROM documents WHERE row > ?{named} ORDER BY row LIMIT {LOOKED_AT}"
    return few(db.execute(sql, (after, *given)))


def few(sizes: Iterable[Sequence[int]]) -> list[int]:
    """The first rows whose chunks and characters together are few enough to be held at once, and at least one."""
    taken, chunks, chars = list[int](), 0, 0
    for row, more_chunks, more_chars in sizes:
        chunks, chars = chunks + more_chunks, chars + more_chars
        if taken and (chunks > CHUNKS or chars > CHARS):
            break
        taken.append(row)
    return taken


def read(db: sqlite3.Connection, rows: Sequence[int], dim: int) -> list[StoredDocument]:
    """The documents in these rows, in order."""
    wanted = (json.dumps(list(rows)),)
    documents = db.execute(
        f"SELECT row, vector, {codec.RECORD_COLUMNS} FROM documents"
        " WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
        wanted,
    ).fetchall()
    pieces = _by_document(
        db.execute(
            "SELECT doc, text, sections FROM pieces WHERE doc IN (SELECT value FROM json_each(?)) ORDER BY doc, n",
            wanted,
        )
    )
    chunks = _by_document(
        db.execute(
            f"SELECT c.doc, s.length, s.terms, s.counts, s.vector, {codec.CHUNK_COLUMNS}"
            " FROM chunks c JOIN signals s ON s.row = c.row JOIN documents d ON d.row = c.doc"
            " WHERE c.doc IN (SELECT value FROM json_each(?)) ORDER BY c.doc, c.idx",
            wanted,
        )
    )
    found = []
    for row, vector, *record in documents:
        kept = chunks.get(row, [])
        found.append(
            StoredDocument(
                document(codec.record(record), [text for text, _ in pieces[row]], [said for _, said in pieces[row]]),
                tuple(codec.chunk(columns[4:]) for columns in kept),
                np.frombuffer(b"".join(columns[3] for columns in kept), np.float32).reshape(len(kept), dim),
                tuple(_packed(*columns[:3]) for columns in kept),
                _vector(vector),
            )
        )
    return found


def document(known: DocumentRecord, texts: Sequence[str], sections: Sequence[str]) -> Document:
    """The document of a record and the pieces of its text and sections."""
    return Document(
        known.id,
        "".join(texts),
        codec.sections(sections),
        known.kind,
        known.title,
        known.uri,
        known.summary,
        known.meta,
        known.hash,
        known.stamp,
    )


def _by_document(read: Iterable[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    return {row: [columns[1:] for columns in group] for row, group in groupby(read, itemgetter(0))}


def _packed(length: int, terms: bytes, counts: bytes) -> Packed:
    return Packed(np.frombuffer(terms, np.int64), np.frombuffer(counts, np.uint16), length)


def _vector(kept: bytes | None) -> Vector | None:
    return None if kept is None else np.frombuffer(kept, np.float32)
