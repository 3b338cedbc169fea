"""Stored documents out of a collection, in batches."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from psycopg import Connection

from clew.core.stored import PackedTerms, StoredDocument
from clew.drivers.store import codec
from clew.drivers.store.batches import DOCUMENT_PAGE, take_batch
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.postgres import binary, read
from clew.drivers.store.postgres.connect.pool import Row, fetch_rows, read_one_state
from clew.drivers.store.postgres.connect.setup import OpenCollection

_DOCUMENTS = f"""
SELECT d.row, u.vector, {read.PIECE_ARRAYS}, {codec.RECORD_COLUMNS}
FROM documents d LEFT JOIN summaries u ON u.row = d.row WHERE d.row = ANY(%s::bigint[]) ORDER BY d.row
"""
# Facets are among the postings too, with a count of 0.
_CHUNKS = f"""
WITH o AS MATERIALIZED ({codec.PIECE_OFFSETS.format("= ANY(%s::bigint[])")})
SELECT c.doc, c.length, {read.CHUNK_VECTOR}, t.words, t.counts, {codec.LISTED_CHUNK_COLUMNS}
FROM chunks c JOIN documents d ON d.row = c.doc JOIN signals s ON s.row = c.row
  JOIN LATERAL (
    SELECT array_agg(p.word ORDER BY p.word) AS words, array_agg(p.count ORDER BY p.word) AS counts
    FROM unnest(c.words) AS w(word)
      JOIN postings p ON p.word = w.word AND p.collection = {{number}} AND p.chunk = c.row
    WHERE p.count > 0) t ON true LEFT JOIN o ON o.doc = c.doc AND o.n = c.piece
WHERE c.doc = ANY(%s::bigint[]) ORDER BY c.doc, c.piece, c.idx
"""


def read_stored_batch(
    connection: Connection, collection: OpenCollection, after: int, doc_ids: Sequence[str] | None, dim: int
) -> tuple[int, list[StoredDocument]]:
    """The batch of documents after a row, of all or of those named, and its last row; empty if there are no more."""
    condition = "" if doc_ids is None else " AND id = ANY(%s)"
    params = () if doc_ids is None else (list(doc_ids),)
    with read_one_state(connection):
        read.check_model_unchanged(connection, collection)
        sizes = fetch_rows(
            connection,
            f"SELECT row, chunks, chars FROM documents WHERE collection = %s AND row > %s{condition}"
            f" ORDER BY row LIMIT {DOCUMENT_PAGE}",
            (collection.number, after, *params),
        )
        docs, chunks_sql = take_batch(sizes), _CHUNKS.replace("{number}", str(collection.number))
        if not docs:
            return after, []
        found = fetch_rows(connection, _DOCUMENTS, (binary.encode_bigints(docs),))
        parts = fetch_rows(connection, chunks_sql, (binary.encode_bigints(docs),) * 2)
    chunks = {row: list(group) for row, group in groupby(parts, itemgetter(0))}
    return docs[-1], [_build_stored(columns, chunks.get(columns[0], []), dim) for columns in found]


def _build_stored(columns: Row, chunks: Sequence[Row], dim: int) -> StoredDocument:
    vector, pieces, record = columns[1], columns[2 : 2 + read.PIECE_WIDTH], columns[2 + read.PIECE_WIDTH :]
    document = codec.build_whole_document(codec.parse_record(record), read.zip_pieces(pieces))
    if len(chunks) != record[7]:
        raise damaged_error(f"the list of the chunks of the document {document.id!r}")
    return StoredDocument(
        document,
        tuple(codec.parse_chunk(chunk[5:]) for chunk in chunks),
        binary.decode_vectors([chunk[2] for chunk in chunks], dim),
        tuple(
            PackedTerms(np.array(words or [], np.int64), np.array(counts or [], np.uint16), length)
            for _, length, _, words, counts, *_ in chunks
        ),
        None if vector is None else binary.decode_vector(vector),
    )
