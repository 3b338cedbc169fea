"""Whole documents out of a collection, a few at a time. Runs inside a transaction that the caller has begun."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from psycopg import Connection

from clew.core.stored import Packed, StoredDocument
from clew.drivers.store import codec as nouns
from clew.drivers.store.embedded.stored import LOOKED_AT, document, few
from clew.drivers.store.postgres import codec, read
from clew.drivers.store.postgres.connect.pool import Row, rows
from clew.drivers.store.postgres.connect.setup import Opened

_DOCUMENTS = f"""
SELECT d.row, u.vector, (SELECT array_agg(p.text ORDER BY n) FROM pieces p WHERE p.doc = d.row),
  (SELECT array_agg(p.sections ORDER BY n) FROM pieces p WHERE p.doc = d.row),
  {", ".join(f"d.{name}" for name in nouns.RECORD_COLUMNS.split(", "))}
FROM documents d LEFT JOIN summaries u ON u.row = d.row WHERE d.row = ANY(%s::bigint[]) ORDER BY d.row
"""
# Facets stand among the postings too, with a count of 0.
_CHUNKS = f"""
SELECT c.doc, c.length, s.vector, t.words, t.counts, {nouns.CHUNK_COLUMNS}
FROM chunks c JOIN documents d ON d.row = c.doc JOIN signals s ON s.row = c.row
  JOIN LATERAL (
    SELECT array_agg(p.word ORDER BY p.word) AS words, array_agg(p.count ORDER BY p.word) AS counts
    FROM unnest(c.words) AS w(word)
      JOIN postings p ON p.word = w.word AND p.collection = c.collection AND p.chunk = c.row
    WHERE p.count > 0) t ON true
WHERE c.doc = ANY(%s::bigint[]) ORDER BY c.doc, c.idx
"""


def next_few(
    connection: Connection, known: Opened, after: int, doc_ids: Sequence[str] | None, dim: int
) -> tuple[int, list[StoredDocument]]:
    """The next documents after a row, of all or of those named, and the row of the last; none: there are no more."""
    named = "" if doc_ids is None else " AND id = ANY(%s)"
    given = () if doc_ids is None else (list(doc_ids),)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        read.still_ours(connection, known)
        sizes = rows(
            connection,
            f"SELECT row, chunks, chars FROM documents WHERE collection = %s AND row > %s{named}"
            f" ORDER BY row LIMIT {LOOKED_AT}",
            (known.number, after, *given),
        )
        docs = few(sizes)
        if not docs:
            return after, []
        found = rows(connection, _DOCUMENTS, (codec.bigints(docs),))
        parts = rows(connection, _CHUNKS, (codec.bigints(docs),))
    chunks = {row: list(group) for row, group in groupby(parts, itemgetter(0))}
    return docs[-1], [_whole(each, chunks.get(each[0], []), dim) for each in found]


def _whole(found: Row, chunks: Sequence[Row], dim: int) -> StoredDocument:
    _, vector, texts, sections, *record = found
    return StoredDocument(
        document(nouns.record(record), texts, sections),
        tuple(nouns.chunk(columns[5:]) for columns in chunks),
        codec.read_vectors([columns[2] for columns in chunks], dim),
        tuple(
            Packed(np.array(words or [], np.int64), np.array(counts or [], np.uint16), length)
            for _, length, _, words, counts, *_ in chunks
        ),
        None if vector is None else codec.read_vector(vector),
    )
