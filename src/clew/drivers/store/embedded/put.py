"""Putting documents: their rows, pieces and chunks, many documents by a few statements.

It runs inside one transaction that the caller has begun.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clew.drivers.store import checksums, codec, pieces
from clew.drivers.store.embedded import write
from clew.drivers.store.embedded.vectors import pack_vector
from clew.drivers.store.entries import DocumentEntries, facets_to_json

_MAX_IDS = 500  # in one statement
_COLUMNS = (
    "uri, title, kind, summary, meta, facets, hash, stamp, chars, chunks, pieces, vector, access, summary_by, created,"
    " updated, revision"
)
_INSERT = (
    f"INSERT INTO documents(row, id, {_COLUMNS}, sum, found_sum) VALUES(?, ?{', ?' * (_COLUMNS.count(',') + 1)}, ?, ?)"
)
_UPDATE = f"UPDATE documents SET {_COLUMNS.replace(',', ' = ?,')} = ? WHERE row = ?"


class _Found(NamedTuple):
    """What is stored of a document that is put again."""

    row: int
    summary: str
    vector: bytes | None
    created: str | None


def put_documents(db: sqlite3.Connection, given: Sequence[DocumentEntries]) -> None:
    """Replaces documents and their chunks as one change; a chunk whose fingerprint has not changed keeps its row."""
    added: list[write.Added] = []
    documents = removed = removed_length = 0
    for batch in _split_at_repeats(given):
        found = _find_documents(db, [each.document.id for each in batch])
        rows = _write_rows(db, batch, found)
        splits = [pieces.split_document(each.document, [entry.chunk for entry in each.entries]) for each in batch]
        write.write_pieces_of_many(db, [(row, split.pieces) for row, split in zip(rows, splits, strict=True)])
        for each, row, split in zip(batch, rows, splits, strict=True):
            old = _read_chunks(db, row) if each.document.id in found else {}
            new, gone, length = write.replace_chunks(db, row, old, each.entries, split.places)
            added += new
            removed, removed_length = removed + gone, removed_length + length
        documents += len(batch) - len(found)
    write.insert_chunks(db, added)
    entries = [entry for _, entry, _ in added]
    write.update_counts(db, documents=documents, added=entries, removed=removed, removed_length=removed_length)


def _split_at_repeats(given: Sequence[DocumentEntries]) -> Iterator[list[DocumentEntries]]:
    """The documents in batches that have none of them twice: the later one replaces the earlier."""
    batch: dict[str, DocumentEntries] = {}
    for each in given:
        if each.document.id in batch:
            yield list(batch.values())
            batch = {}
        batch[each.document.id] = each
    yield list(batch.values())


def _find_documents(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, _Found]:
    """Those of the documents that are stored, by id."""
    found: dict[str, _Found] = {}
    for start in range(0, len(ids), _MAX_IDS):
        some = ids[start : start + _MAX_IDS]
        marks = ", ".join("?" * len(some))
        read = db.execute(f"SELECT id, row, summary, vector, created FROM documents WHERE id IN ({marks})", some)
        found |= {doc_id: _Found(*columns) for doc_id, *columns in read}
    return found


def _write_rows(db: sqlite3.Connection, given: Sequence[DocumentEntries], found: Mapping[str, _Found]) -> list[int]:
    """Upserts the rows of documents, without the pieces of those that were there; the row of each.

    A new row is written with its checksums; those of one that changes are kept by triggers (see `sums`).
    """
    last, revision = db.execute("SELECT (SELECT coalesce(max(row), 0) FROM documents), change + 1 FROM meta").fetchone()
    rows = list[int]()
    inserted: list[tuple[Any, ...]] = []
    for each in given:
        document, old = each.document, found.get(each.document.id)
        columns = _list_columns(each, old, revision)
        if old:
            rows.append(old.row)
            db.execute(_UPDATE, (*columns, old.row))
            db.execute("DELETE FROM pieces WHERE doc = ?", (old.row,))
            db.execute("DELETE FROM blocks WHERE doc = ?", (old.row,))
            continue
        last += 1
        rows.append(last)
        inserted.append((last, document.id, *columns, *_hash_row(last, document.id, columns)))
    db.executemany(_INSERT, inserted)
    return rows


def _list_columns(given: DocumentEntries, old: _Found | None, revision: int) -> tuple[Any, ...]:
    """The values of _COLUMNS."""
    document = given.document
    vector = old.vector if old and document.summary and old.summary == document.summary else None
    if given.summary_vector is not None:
        vector = pack_vector(given.summary_vector)
    return (
        document.uri,
        document.title,
        document.kind,
        document.summary,
        codec.meta_to_json(document.meta),
        facets_to_json(document),
        document.hash,
        document.stamp,
        len(document.text),
        len(given.entries),
        1,
        vector,
        codec.access_to_json(document.access),
        document.summary_by,
        *codec.times_to_text(document, old.created if old else None),
        revision,
    )


def _hash_row(row: int, doc_id: str, columns: Sequence[Any]) -> tuple[int, int]:
    """The checksums of a new row: of its record, and of what it is found by (`sums.FOUND_BY`)."""
    (
        uri,
        title,
        kind,
        summary,
        meta,
        facets,
        digest,
        stamp,
        chars,
        chunks,
        count,
        vector,
        access,
        by,
        *times,
        revision,
    ) = columns
    record = (doc_id, title, uri, kind, digest, stamp, chars, chunks, summary, meta, access, by, *times, row)
    return checksums.hash_values(*record), checksums.hash_values(row, doc_id, facets, vector, count, revision)


def _read_chunks(db: sqlite3.Connection, row: int) -> dict[str, tuple[int, int]]:
    """The row and fingerprint of each chunk of a document, by id."""
    read = db.execute("SELECT id, row, print FROM chunks WHERE doc = ?", (row,))
    return {chunk_id: (chunk, fingerprint) for chunk_id, chunk, fingerprint in read}
