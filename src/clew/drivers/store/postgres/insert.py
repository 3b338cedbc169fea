"""Inserts: the chunks of a document with their signals and postings, or a whole new document, in one statement each.

The parameters are columns, which PostgreSQL unnests into rows and numbers, so no round trip is needed before. Runs
inside a transaction that the caller has begun.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from psycopg import Connection
from psycopg.types.numeric import Int8

from clew.core.stored import Hashes
from clew.core.time import to_iso
from clew.core.types import Chunk, Document
from clew.drivers.store import codec, pieces
from clew.drivers.store.entries import Entry, facets_to_json
from clew.drivers.store.pieces import Piece
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.connect.pool import fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection

BATCH = 1000  # chunks per statement, some megabytes

_RECORD_FIELDS = (
    *("uri", "title", "kind", "summary", "meta", "hash", "stamp", "chars", "chunks", "facets"),
    *("access", "summary_by", "created", "updated"),
)
NEW_REVISION = "nextval('chunk_rows')"  # never that of another state of the document
RECORD_NAMES = f"{', '.join(_RECORD_FIELDS)}, pieces, revision"
RECORD_VALUES = (
    ", ".join(f"%({name})s{'::bigint[]' if name == 'facets' else ''}" for name in _RECORD_FIELDS)
    + f", 1, {NEW_REVISION}"
)

_PIECE_TYPES = {"n": "int", "text": "text", "sections": "text", "chars": "bigint", "chunks": "int"}
_PIECE_VALUES = ", ".join(f"%(piece_{name})s::{_PIECE_TYPES.get(name, 'text')}[]" for name in Piece._fields)
_PIECES = (
    "SELECT {doc}, u.n, %(number)s, u.text, u.sections, u.chars, u.chunks, u.message, u.parent, u.awaits FROM {of}"
    f" unnest({_PIECE_VALUES})"
    f" AS u({', '.join(Piece._fields)})"
)
_INTO_PIECES = "INSERT INTO pieces(doc, n, collection, text, sections, chars, chunks, message, parent, awaits)"
_WRITE_PIECES = (
    f"{_INTO_PIECES} {_PIECES.format(doc='%(doc)s', of='')} ON CONFLICT (doc, n) DO UPDATE SET"
    f" {', '.join(f'{name} = excluded.{name}' for name in Piece._fields[1:])}"
)

CHUNK_FIELDS = ("piece", "idx", "start", "stop", "headings", "context", "at", "meta", "channel", "text")
CHUNK_NAMES = ", ".join(CHUNK_FIELDS)
CHUNK_VALUES = ", ".join(
    f"%(of_{name})s::{ {'piece': 'int', 'idx': 'int', 'start': 'bigint', 'stop': 'bigint'}.get(name, 'text') }[]"
    for name in CHUNK_FIELDS
)

# `rows` are the numbers of the new chunks. A chunk's words are its facets, then its terms: one slice of all words.
_NUMBERED = (
    "r AS MATERIALIZED (SELECT {doc} AS doc,"
    " ARRAY(SELECT nextval('chunk_rows') FROM generate_series(1, %(count)s)) AS rows{of})"
)
_CHUNKS = f"""
n AS MATERIALIZED (
  SELECT r.doc, r.rows[u.place] AS row, u.* FROM r CROSS JOIN unnest(%(ids)s::text[], %(prints)s::bigint[],
    %(lengths)s::int[], %(firsts)s::int[], %(heads)s::int[], %(lasts)s::int[], %(seconds)s::float8[],
    %(vectors)s::vector[], {CHUNK_VALUES}) WITH ORDINALITY
    AS u(id, print, length, first, head, last, seconds, vector, {CHUNK_NAMES}, place)),
c AS (
  INSERT INTO chunks(row, doc, collection, id, print, length, words, {CHUNK_NAMES})
  SELECT n.row, n.doc, %(number)s, n.id, n.print, n.length, (%(words)s::bigint[])[n.first:n.last],
    {", ".join(f"n.{name}" for name in CHUNK_FIELDS)} FROM n RETURNING row),
s AS (
  INSERT INTO signals(row, collection, seconds, facets, vector, half)
  SELECT n.row, %(number)s, n.seconds, (%(words)s::bigint[])[n.first:n.head],
    CASE WHEN NOT %(is_half)s::bool THEN n.vector END, CASE WHEN %(is_half)s::bool THEN n.vector::halfvec END
  FROM n RETURNING row),
p AS (
  INSERT INTO postings(word, chunk, collection, count, length)
  SELECT u.word, r.rows[u.owner], %(number)s, u.count, u.length
  FROM r CROSS JOIN unnest(%(posted)s::bigint[], %(owners)s::int[], %(counts)s::int[], %(long)s::int[])
    AS u(word, owner, count, length) RETURNING chunk)
"""
_INSERT_CHUNKS = f"WITH {_NUMBERED.format(doc='%(doc)s::bigint', of='')}, {_CHUNKS} SELECT 1"
# The counts are updated after the inserts, so that the collection's row is locked no longer than needed.
_INSERT_DOCUMENT = f"""
WITH d AS (
  INSERT INTO documents(collection, id, {RECORD_NAMES})
  SELECT %(number)s, %(id)s, {RECORD_VALUES} FROM collections WHERE number = %(number)s AND embedder = %(embedder)s
  ON CONFLICT (collection, id) DO NOTHING RETURNING row),
t AS ({_INTO_PIECES} {_PIECES.format(doc="d.row", of="d CROSS JOIN")} RETURNING doc),
b AS (
  INSERT INTO blocks(doc, block, collection, chars, chunks)
  SELECT d.row, u.n >> {codec.BLOCK_BITS}, %(number)s, sum(u.chars), sum(u.chunks) FROM d CROSS JOIN
    unnest(%(piece_n)s::int[], %(piece_chars)s::bigint[], %(piece_chunks)s::int[], %(piece_message)s::text[])
    AS u(n, chars, chunks, message) WHERE u.message IS NOT NULL GROUP BY 1, 2 RETURNING doc),
{_NUMBERED.format(doc="d.row", of=" FROM d")}, {_CHUNKS}
UPDATE collections o
SET change = change + 1, documents = documents + 1, chunks = chunks + %(count)s, length = length + %(total)s
FROM d WHERE o.number = %(number)s AND (SELECT count(*) FROM t) + (SELECT count(*) FROM b) + (SELECT count(*) FROM c)
  + (SELECT count(*) FROM s) + (SELECT count(*) FROM p) > 0 RETURNING 1
"""


def insert_document(
    connection: Connection, collection: OpenCollection, document: Document, entries: Sequence[Entry]
) -> bool:
    """Inserts a document that does not exist, with its chunks and counts; False if nothing was written."""
    if len(entries) > BATCH:
        return False
    split = pieces.split_document(document, [each.chunk for each in entries])
    params = {
        **make_document_params(document, len(entries)),
        **_make_entry_params(collection, entries, split.places),
        **_make_piece_params(split.pieces),
        "id": document.id,
        "embedder": collection.embedder,
        "total": Int8(sum(each.length for each in entries)),
    }
    return bool(fetch_rows(connection, _INSERT_DOCUMENT, params, prepare=True))


def insert_chunks(
    connection: Connection,
    collection: OpenCollection,
    doc: int,
    entries: Sequence[Entry],
    places: Sequence[pieces.Placed],
) -> None:
    """Inserts chunks of an existing document."""
    for start in range(0, len(entries), BATCH):
        batch = slice(start, start + BATCH)
        params = {**_make_entry_params(collection, entries[batch], places[batch]), "doc": Int8(doc)}
        connection.execute(_INSERT_CHUNKS, params, prepare=True)


def write_pieces(connection: Connection, number: int, doc: int, given: Sequence[Piece]) -> None:
    """Writes pieces of a document, in place of those with their numbers."""
    if not given:
        return
    connection.execute(_WRITE_PIECES, {**_make_piece_params(given), "doc": Int8(doc), "number": Int8(number)})
    refresh_blocks(connection, number, doc, [each.n for each in given if each.message is not None])


def refresh_blocks(connection: Connection, number: int, doc: int, numbers: Sequence[int]) -> None:
    """Adds up again the blocks of messages that these numbers are in."""
    blocks = pieces.find_blocks(numbers)
    if blocks:
        connection.execute(
            "INSERT INTO blocks(doc, block, collection, chars, chunks) SELECT %s, u.block, %s,"
            " coalesce(sum(p.chars), 0), coalesce(sum(p.chunks), 0) FROM unnest(%s::int[]) AS u(block)"
            " LEFT JOIN pieces p"
            f" ON p.doc = %s AND p.n >= (u.block << {codec.BLOCK_BITS}) AND p.n < ((u.block + 1) << {codec.BLOCK_BITS})"
            " AND p.message IS NOT NULL GROUP BY u.block"
            " ON CONFLICT (doc, block) DO UPDATE SET chars = excluded.chars, chunks = excluded.chunks",
            (doc, number, blocks, doc),
        )


def _make_piece_params(given: Sequence[Piece]) -> dict[str, Any]:
    """Pieces as parameters, one per column."""
    encode: dict[str, Callable[[Sequence[Any]], Any]] = {
        "int": binary.encode_ints,
        "bigint": binary.encode_bigints,
        "text": binary.encode_texts,
    }
    columns = zip(Piece._fields, zip(*given, strict=True), strict=True)
    return {f"piece_{name}": encode[_PIECE_TYPES.get(name, "text")](list(values)) for name, values in columns}


def make_document_params(document: Document, chunks: int, created: str | None = None) -> dict[str, Any]:
    """The columns of a document as parameters; `created` is the time that is kept, if it was written before."""
    first, last = codec.times_to_text(document, created)
    return {
        "uri": document.uri,
        "title": document.title,
        "kind": document.kind,
        "summary": document.summary,
        "meta": codec.meta_to_json(document.meta),
        "hash": document.hash,
        "stamp": document.stamp,
        "chars": Int8(len(document.text)),
        "chunks": Int8(chunks),
        "facets": binary.encode_bigints(hash_facets(facets_to_json(document))),
        "access": codec.access_to_json(document.access),
        "summary_by": document.summary_by,
        "created": first,
        "updated": last,
    }


def make_chunk_params(chunks: Sequence[Chunk], places: Sequence[pieces.Placed]) -> dict[str, Any]:
    """What a reader is shown of chunks as parameters, one per column."""
    channels = [chunk.meta.get("channel") for chunk in chunks]
    return {
        "of_piece": binary.encode_optional_ints([place.piece for place in places]),
        "of_idx": binary.encode_ints([place.number for place in places]),
        "of_start": binary.encode_bigints([place.start for place in places]),
        "of_stop": binary.encode_bigints([place.end for place in places]),
        "of_headings": binary.encode_texts([codec.headings_to_json(chunk.headings) for chunk in chunks]),
        "of_context": binary.encode_texts([chunk.context for chunk in chunks]),
        "of_at": binary.encode_texts([to_iso(chunk.at) for chunk in chunks]),
        "of_meta": binary.encode_texts([codec.meta_to_json(chunk.meta) for chunk in chunks]),
        "of_channel": binary.encode_texts([channel if isinstance(channel, str) else None for channel in channels]),
        "of_text": binary.encode_texts([chunk.text for chunk in chunks]),
    }


def _make_entry_params(
    collection: OpenCollection, entries: Sequence[Entry], places: Sequence[pieces.Placed]
) -> Mapping[str, Any]:
    """Everything that is written of new chunks as parameters, one per column."""
    facets = [hash_facets(each.facets) for each in entries]
    terms = [np.frombuffer(each.terms, np.int64) for each in entries]
    counts = [np.frombuffer(each.counts, np.uint16) for each in entries]
    none = np.empty(0, np.int64)
    words = np.concatenate([none, *(part for pair in zip(facets, terms, strict=True) for part in pair)])
    zeros = [np.zeros(len(each), np.int64) for each in facets]  # the count of a facet
    times = np.concatenate([none, *(part for pair in zip(zeros, counts, strict=True) for part in pair)])
    heads = np.array([len(each) for each in facets], np.int64)
    sizes = heads + np.array([len(each) for each in terms], np.int64)
    starts = np.cumsum(sizes) - sizes
    owners, lengths = np.repeat(np.arange(len(entries)), sizes), np.array([each.length for each in entries], np.int64)
    by_word = np.argsort(words, kind="stable")  # neighbours in the index are written together
    width = len(entries[0].vector) // 4 if entries else 0
    vectors = np.frombuffer(b"".join(each.vector for each in entries), np.float32).reshape(len(entries), width)
    return {
        **make_chunk_params([each.chunk for each in entries], places),
        "number": Int8(collection.number),  # always int8: a statement is prepared for the types of its parameters
        "count": Int8(len(entries)),
        "ids": binary.encode_texts([each.chunk.id for each in entries]),
        "prints": binary.encode_bigints([each.fingerprint for each in entries]),
        "lengths": binary.encode_ints(lengths),
        "firsts": binary.encode_ints(starts + 1),  # PostgreSQL counts from 1
        "heads": binary.encode_ints(starts + heads),
        "lasts": binary.encode_ints(starts + sizes),
        "seconds": binary.encode_floats([each.seconds for each in entries]),
        "vectors": binary.encode_vectors(vectors, collection.vector_oid),
        "is_half": collection.is_half,
        "words": binary.encode_bigints(words),
        "posted": binary.encode_bigints(words[by_word]),
        "owners": binary.encode_ints(owners[by_word] + 1),
        "counts": binary.encode_ints(times[by_word]),
        "long": binary.encode_ints(lengths[owners][by_word]),
    }


@lru_cache(1024)  # the chunks of a document mostly have the same
def hash_facets(facets: str) -> Hashes:
    """The numbers of facets, given as a JSON list, in its order."""
    return np.array([binary.hash_facet(facet) for facet in json.loads(facets)], np.int64)
