"""New rows: the chunks of a document with their signals and postings, and a new document whole, in one statement each.

What a statement is given are columns; PostgreSQL makes rows of them and numbers these itself, so that nothing has to
be asked before. Runs inside a transaction that the caller has begun.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from psycopg import Connection
from psycopg.types.numeric import Int8

from clew.core.facets import facets_of
from clew.core.types import Chunk, Document
from clew.drivers.store import codec as nouns
from clew.drivers.store.embedded.write import NOTHING, Entry
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.connect.pool import rows
from clew.drivers.store.postgres.connect.setup import Opened
from clew.drivers.store.term_ids import Hashes

AT_ONCE = 1000  # chunks of a statement, which is some megabytes

_RECORD = ("uri", "title", "kind", "summary", "meta", "hash", "stamp", "chars", "chunks", "facets")
RECORD_NAMES = f"{', '.join(_RECORD)}, pieces"
RECORD_VALUES = ", ".join(f"%({name})s{'::bigint[]' if name == 'facets' else ''}" for name in _RECORD) + ", 1"

SHOWN = ("idx", "start", "stop", "headings", "context", "at", "meta", "channel", "text")
SHOWN_NAMES = ", ".join(SHOWN)
SHOWN_VALUES = ", ".join(
    f"%(of_{name})s::{ {'idx': 'int', 'start': 'bigint', 'stop': 'bigint'}.get(name, 'text') }[]" for name in SHOWN
)

# `rows` are the numbers of the new chunks. A chunk's words are its facets, then its terms: one span of all words.
_NUMBERED = (
    "r AS MATERIALIZED (SELECT {doc} AS doc,"
    " ARRAY(SELECT nextval('chunk_rows') FROM generate_series(1, %(many)s)) AS rows{of})"
)
_CHUNKS = f"""
n AS MATERIALIZED (
  SELECT r.doc, r.rows[u.place] AS row, u.* FROM r CROSS JOIN unnest(%(ids)s::text[], %(prints)s::bigint[],
    %(lengths)s::int[], %(firsts)s::int[], %(heads)s::int[], %(lasts)s::int[], %(seconds)s::float8[],
    %(vectors)s::vector[], {SHOWN_VALUES}) WITH ORDINALITY
    AS u(id, print, length, first, head, last, seconds, vector, {SHOWN_NAMES}, place)),
c AS (
  INSERT INTO chunks(row, doc, collection, id, print, length, words, {SHOWN_NAMES})
  SELECT n.row, n.doc, %(number)s, n.id, n.print, n.length, (%(words)s::bigint[])[n.first:n.last],
    {", ".join(f"n.{name}" for name in SHOWN)} FROM n RETURNING row),
s AS (
  INSERT INTO signals(row, collection, seconds, facets, vector)
  SELECT n.row, %(number)s, n.seconds, (%(words)s::bigint[])[n.first:n.head], n.vector FROM n RETURNING row),
p AS (
  INSERT INTO postings(word, chunk, collection, count, length)
  SELECT u.word, r.rows[u.owner], %(number)s, u.count, u.length
  FROM r CROSS JOIN unnest(%(posted)s::bigint[], %(owners)s::int[], %(counts)s::int[], %(long)s::int[])
    AS u(word, owner, count, length) RETURNING chunk)
"""
_MORE = f"WITH {_NUMBERED.format(doc='%(doc)s::bigint', of='')}, {_CHUNKS} SELECT 1"
# Who counts waits for the rows, so that others wait for the counts of the collection no longer than they must.
_NEW = f"""
WITH d AS (
  INSERT INTO documents(collection, id, {RECORD_NAMES})
  SELECT %(number)s, %(id)s, {RECORD_VALUES} FROM collections WHERE number = %(number)s AND embedder = %(embedder)s
  ON CONFLICT (collection, id) DO NOTHING RETURNING row),
t AS (
  INSERT INTO pieces(doc, n, collection, text, sections)
  SELECT d.row, 0, %(number)s, %(whole)s, %(sections)s FROM d RETURNING doc),
{_NUMBERED.format(doc="d.row", of=" FROM d")}, {_CHUNKS}
UPDATE collections o
SET change = change + 1, documents = documents + 1, chunks = chunks + %(many)s, length = length + %(total)s
FROM d WHERE o.number = %(number)s AND (SELECT count(*) FROM t) + (SELECT count(*) FROM c)
  + (SELECT count(*) FROM s) + (SELECT count(*) FROM p) > 0 RETURNING 1
"""


def new(connection: Connection, known: Opened, document: Document, made: Sequence[Entry]) -> bool:
    """Whether a document that was not there now is, with its chunks, and is counted; else nothing was written."""
    if len(made) > AT_ONCE:
        return False
    given = {
        **record(document, len(made)),
        **_columns(known, made),
        "id": document.id,
        "embedder": known.embedder,
        "whole": document.text,
        "sections": nouns.sections_text(document.sections),
        "total": Int8(sum(each.length for each in made)),
    }
    return bool(rows(connection, _NEW, given, prepare=True))


def more(connection: Connection, known: Opened, doc: int, made: Sequence[Entry]) -> None:
    """Writes chunks of a document that is there."""
    for at in range(0, len(made), AT_ONCE):
        given = {**_columns(known, made[at : at + AT_ONCE]), "doc": Int8(doc)}
        connection.execute(_MORE, given, prepare=True)


def record(document: Document, chunks: int) -> dict[str, Any]:
    """The columns of a document."""
    return {
        "uri": document.uri,
        "title": document.title,
        "kind": document.kind,
        "summary": document.summary,
        "meta": nouns.meta_text(document.meta),
        "hash": document.hash,
        "stamp": document.stamp,
        "chars": Int8(len(document.text)),
        "chunks": Int8(chunks),
        "facets": codec.bigints([codec.facet_hash(word) for word in sorted(facets_of(document, NOTHING))]),
    }


def shown(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """What a reader is shown of chunks, a column each."""
    channels = [chunk.meta.get("channel") for chunk in chunks]
    return {
        "of_idx": codec.ints([chunk.index for chunk in chunks]),
        "of_start": codec.bigints([chunk.start for chunk in chunks]),
        "of_stop": codec.bigints([chunk.end for chunk in chunks]),
        "of_headings": codec.texts([nouns.to_json(chunk.headings) if chunk.headings else "[]" for chunk in chunks]),
        "of_context": codec.texts([chunk.context for chunk in chunks]),
        "of_at": codec.texts([nouns.time_text(chunk.at) for chunk in chunks]),
        "of_meta": codec.texts([nouns.meta_text(chunk.meta) for chunk in chunks]),
        "of_channel": codec.texts([channel if isinstance(channel, str) else None for channel in channels]),
        "of_text": codec.texts([chunk.text for chunk in chunks]),
    }


def _columns(known: Opened, made: Sequence[Entry]) -> Mapping[str, Any]:
    """All that is written of new chunks, a column each."""
    said = [_hashes(each.facets) for each in made]
    terms = [np.frombuffer(each.terms, np.int64) for each in made]
    counts = [np.frombuffer(each.counts, np.uint16) for each in made]
    none = np.empty(0, np.int64)
    words = np.concatenate([none, *(part for pair in zip(said, terms, strict=True) for part in pair)])
    times = np.concatenate(
        [none, *(part for few, many in zip(said, counts, strict=True) for part in (np.zeros(len(few), np.int64), many))]
    )
    heads = np.array([len(few) for few in said], np.int64)
    sizes = heads + np.array([len(many) for many in terms], np.int64)
    starts = np.cumsum(sizes) - sizes
    owners, lengths = np.repeat(np.arange(len(made)), sizes), np.array([each.length for each in made], np.int64)
    by_word = np.argsort(words, kind="stable")  # neighbours in the index are written together
    width = len(made[0].vector) // 4 if made else 0
    vectors = np.frombuffer(b"".join(each.vector for each in made), np.float32).reshape(len(made), width)
    return {
        **shown([each.chunk for each in made]),
        "number": Int8(known.number),  # always as wide: a statement is prepared for the types that it is given
        "many": Int8(len(made)),
        "ids": codec.texts([each.chunk.id for each in made]),
        "prints": codec.bigints([each.print for each in made]),
        "lengths": codec.ints(lengths),
        "firsts": codec.ints(starts + 1),  # PostgreSQL counts from 1
        "heads": codec.ints(starts + heads),
        "lasts": codec.ints(starts + sizes),
        "seconds": codec.floats([each.seconds for each in made]),
        "vectors": codec.vectors(vectors, known.vector),
        "words": codec.bigints(words),
        "posted": codec.bigints(words[by_word]),
        "owners": codec.ints(owners[by_word] + 1),
        "counts": codec.ints(times[by_word]),
        "long": codec.ints(lengths[owners][by_word]),
    }


@lru_cache(1024)  # the chunks of a document mostly have the same
def _hashes(words: str) -> Hashes:
    return np.array([codec.facet_hash(word) for word in json.loads(words)], np.int64)
