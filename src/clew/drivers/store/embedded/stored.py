"""Stored documents out of the database, in batches."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from clew.core.stored import PackedTerms, StoredDocument
from clew.drivers.store import codec
from clew.drivers.store.batches import DOCUMENT_PAGE, take_batch
from clew.drivers.store.checksums import check, check_signal, damaged_error
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.signals import COLUMNS
from clew.drivers.store.embedded.vectors import unpack_vector, unpack_vectors

_SIGNALS = ", ".join(f"s.{name}" for name in COLUMNS.split(", "))


def read_stored_documents(database: Database, doc_ids: Sequence[str] | None) -> Iterator[StoredDocument]:
    """All documents, or those named, in the order they were added; one batch is in memory at a time."""
    after = 0
    while True:
        with database.read_transaction() as db:
            rows = _read_next_rows(db, after, doc_ids)
            batch = _read_document_batch(db, rows, database.dim)
        if not rows:
            return
        after = rows[-1]
        yield from batch


def _read_next_rows(db: sqlite3.Connection, after: int, doc_ids: Sequence[str] | None) -> list[int]:
    """The rows of the documents of the next batch; none if there are no more."""
    condition = "" if doc_ids is None else " AND id IN (SELECT value FROM json_each(?))"
    params = () if doc_ids is None else (json.dumps(list(doc_ids)),)
    sql = f"SELECT row, chunks, chars FROM documents WHERE row > ?{condition} ORDER BY row LIMIT {DOCUMENT_PAGE}"
    return take_batch(db.execute(sql, (after, *params)))


def _read_document_batch(db: sqlite3.Connection, rows: Sequence[int], dim: int) -> list[StoredDocument]:
    """The documents in these rows, in order."""
    params = (json.dumps(list(rows)),)
    documents = db.execute(
        f"SELECT d.row, d.facets, d.vector, d.pieces, d.revision, d.found_sum, {codec.RECORD_COLUMNS} FROM documents d"
        " WHERE d.row IN (SELECT value FROM json_each(?)) ORDER BY d.row",
        params,
    ).fetchall()
    pieces = _group_by_document(
        db.execute(
            f"SELECT doc, {codec.PIECE_COLUMNS} FROM pieces"
            " WHERE doc IN (SELECT value FROM json_each(?)) ORDER BY doc, n",
            params,
        )
    )
    chunks = _group_by_document(
        db.execute(
            f"WITH o AS MATERIALIZED ({codec.PIECE_OFFSETS.format('IN (SELECT value FROM json_each(?))')})"
            f" SELECT c.doc, {_SIGNALS}, {codec.LISTED_CHUNK_COLUMNS}"
            " FROM chunks c JOIN signals s ON s.row = c.row JOIN documents d ON d.row = c.doc"
            " LEFT JOIN o ON o.doc = c.doc AND o.n = c.piece"
            " WHERE c.doc IN (SELECT value FROM json_each(?)) ORDER BY c.doc, c.piece, c.idx",
            params * 2,
        )
    )
    batch = []
    for row, facets, vector, count, revision, stored, *record in documents:
        found, width = chunks.get(row, []), len(_SIGNALS.split(", "))
        doc_id = record[0]
        check(f"the summary of the document {doc_id!r}", stored, row, doc_id, facets, vector, count, revision)
        for columns in found:
            check_signal(columns[: width - 1], columns[width - 1])
        parsed = tuple(codec.parse_chunk(columns[width:]) for columns in found)
        document = codec.parse_record(record)
        if len(found) != document.chunks:
            raise damaged_error(f"the list of the chunks of the document {doc_id!r}")
        batch.append(
            StoredDocument(
                codec.build_whole_document(document, pieces.get(row, [])),
                parsed,
                unpack_vectors([columns[7] for columns in found], dim),
                tuple(_parse_terms(*columns[4:7]) for columns in found),
                None if vector is None else unpack_vector(vector, dim),
            )
        )
    return batch


def _group_by_document(read: Iterable[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    return {row: [columns[1:] for columns in group] for row, group in groupby(read, itemgetter(0))}


def _parse_terms(length: int, terms: bytes, counts: bytes) -> PackedTerms:
    return PackedTerms(np.frombuffer(terms, np.int64), np.frombuffer(counts, np.uint16), length)
