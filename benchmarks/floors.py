"""Raw floors of the two stores: the same results by hand-written calls to what a store is built on, and nothing else.

- `put` writes a document, its text, its chunks with all fields of a Chunk, their vectors and their terms in one
  transaction: into tables of its own with the keys by which rows are found again, in one round trip to a server. Left
  out are foreign keys, locks, filter columns, change numbers, and change detection.
- `search_vectors` returns the ten chunks of greatest cosine with all fields of a Chunk. With the embedded shard, whose
  vectors have full precision, it is one query and one statement for the rows. With PostgreSQL, whose graph has half
  precision, it is one statement over the tables of the store: the candidates of the graph, as many and as broadly
  searched as by the store, reordered by the full vectors, and the rows of the ten best.
- `search_terms` returns the ten chunks of greatest BM25 score with all fields of a Chunk. Document frequencies are
  looked up in a dictionary for the shard, and counted in the one statement for PostgreSQL.

PostgreSQL statements are prepared and planned once, on a connection of their own. Rows stay as the driver returns them.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import qdrant_edge as edge

from clew.core.text import Terms
from clew.core.types import Chunk, Document, Matrix, Vector
from clew.drivers.store import bm25
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.search import HALF_SPARE
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.sqlite.shard import BREADTH, DENSE, LOW_BITS, TERMS

Rows = list[tuple[Any, ...]]
CHUNK_COLUMNS = (
    "c.id, d.id, d.chunks, c.text, c.headings, c.context, c.at, c.meta, c.row, c.doc, c.piece, c.idx, c.start, c.stop,"
    " c.sum"
)

_SQLITE_SCHEMA = (
    "CREATE TABLE documents(row INTEGER PRIMARY KEY, id TEXT UNIQUE, uri TEXT, title TEXT, kind TEXT, summary TEXT,"
    " meta TEXT, hash TEXT, stamp TEXT, text TEXT, sections TEXT)",
    "CREATE INDEX documents_uri ON documents(uri, id)",
    "CREATE TABLE chunks(row INTEGER PRIMARY KEY, id TEXT UNIQUE, doc INTEGER, idx INTEGER, start INTEGER,"
    " stop INTEGER, headings TEXT, context TEXT, at TEXT, meta TEXT, text TEXT)",
    "CREATE INDEX chunks_doc ON chunks(doc, idx)",
    "CREATE TABLE signals(row INTEGER PRIMARY KEY, length INTEGER, terms BLOB, counts BLOB, vector BLOB)",
)
_POSTGRES_SCHEMA = (
    "CREATE TABLE raw_documents(row bigint PRIMARY KEY, id text UNIQUE, uri text, title text, kind text, summary text,"
    " meta text, hash text, stamp text, text text, sections text)",
    "CREATE TABLE raw_chunks(row bigint PRIMARY KEY, id text UNIQUE, doc bigint, idx int, start bigint, stop bigint,"
    " headings text, context text, at text, meta text, text text, vector vector) WITH (toast_tuple_target = 8160)",
    "CREATE INDEX raw_chunks_doc ON raw_chunks(doc, idx)",
    "CREATE TABLE raw_postings(word bigint, chunk bigint, count int, length int,"
    " PRIMARY KEY (word, chunk) INCLUDE (count, length))",
)


@dataclass(frozen=True, slots=True)
class PutInput:
    """The input of one `put`: a document with its chunks, vectors and terms."""

    document: Document
    chunks: list[Chunk]
    vectors: Matrix
    terms: list[Terms]


class SqliteFloor:
    """A SQLite database to write to."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        # As in the store.
        for pragma in ("page_size = 8192", "journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 4000"):
            self._db.execute(f"PRAGMA {pragma}")
        for statement in _SQLITE_SCHEMA:
            self._db.execute(statement)

    def put(self, given: PutInput, at: int) -> None:
        """Writes the document with the number `at`."""
        packed = [pack_terms(each) for each in given.terms]
        numbered = list(enumerate(zip(given.chunks, packed, given.vectors, strict=True), at * len(given.chunks)))
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(
            "INSERT INTO documents VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]')", (at, *_document_columns(given.document))
        )
        self._db.executemany(
            "INSERT INTO chunks VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(row, chunk.id, at, *_chunk_columns(chunk)) for row, (chunk, _, _) in numbered],
        )
        self._db.executemany(
            "INSERT INTO signals VALUES(?, ?, ?, ?, ?)",
            [
                (row, words.length, words.hashes.tobytes(), words.counts.tobytes(), vector.tobytes())
                for row, (_, words, vector) in numbered
            ],
        )
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Closes the database."""
        self._db.close()


@dataclass(frozen=True, slots=True)
class ShardFloor:
    """The shard and the database of a filled store, and the document frequency of each term."""

    shard: edge.EdgeShard
    db: sqlite3.Connection
    document_counts: Mapping[int, int]
    chunks: int

    def search_vectors(self, vector: Vector, k: int) -> Rows:
        """The rows of the k nearest chunks."""
        query = edge.Query.Nearest(vector.tolist(), using=DENSE)
        params = edge.SearchParams(hnsw_ef=BREADTH)
        return self._fetch_rows(self.shard.query(edge.QueryRequest(limit=k, query=query, params=params)))

    def search_terms(self, terms: Terms, k: int) -> Rows:
        """The rows of the k chunks of greatest BM25 score."""
        packed = pack_terms(terms)
        weights = [
            times * bm25.idf(self.chunks, self.document_counts.get(word, 0))
            for word, times in zip(packed.hashes.tolist(), packed.counts.tolist(), strict=True)
        ]
        query = edge.Query.Nearest(edge.SparseVector((packed.hashes & LOW_BITS).tolist(), weights), using=TERMS)
        return self._fetch_rows(self.shard.query(edge.QueryRequest(limit=k, query=query)))

    def _fetch_rows(self, points: Sequence[edge.ScoredPoint]) -> Rows:
        rows = ", ".join(str(point.id) for point in points)
        sql = f"SELECT {CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc WHERE c.row IN ({rows})"
        return self.db.execute(sql).fetchall()


class ServerFloor:
    """Hand-written SQL; searches read the tables of a filled store, of the collection with that number."""

    def __init__(self, connection: psycopg.Connection, *, number: int, vector: int, dim: int, k: int) -> None:
        self._connection, self._vector = connection, vector
        half = f"halfvec({dim})"
        for name, value in (
            ("plan_cache_mode", "force_generic_plan"),
            ("hnsw.ef_search", str(BREADTH)),
            ("enable_sort", "off"),  # so that the graph is used, whatever the planner estimates
        ):
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        self._vector_sql = (
            f"WITH n AS MATERIALIZED (SELECT s.row, s.vector FROM signals s WHERE s.collection = {number}"
            f" ORDER BY s.vector::{half} <-> %(query)s::vector::{half} LIMIT {2 * k + HALF_SPARE}),"
            f" m AS (SELECT n.row, n.vector <=> %(query)s::vector AS distance FROM n ORDER BY distance LIMIT {k})"
            f" SELECT m.distance, {CHUNK_COLUMNS} FROM m JOIN chunks c ON c.row = m.row"
            " JOIN documents d ON d.row = c.doc"
        )
        slope = f"{bm25.K1 * bm25.B}::float8 * c.chunks / c.length"
        self._term_sql = (
            f"WITH w AS MATERIALIZED (SELECT a.word, {slope} AS slope,"
            " a.times * ln(1 + (c.chunks - h.many + 0.5::float8) / (h.many + 0.5::float8)) AS weight"
            " FROM unnest(%s::bigint[], %s::int[]) AS a(word, times) JOIN LATERAL (SELECT count(*) AS many"
            f" FROM postings p WHERE p.word = a.word AND p.collection = {number}) h ON true"
            f" JOIN collections c ON c.number = {number}),"
            " n AS (SELECT p.chunk, sum(w.weight * p.count / (p.count +"
            f" {bm25.K1 * (1 - bm25.B)}::float8 + w.slope * p.length)) AS score FROM w JOIN postings p"
            f" ON p.word = w.word AND p.collection = {number} GROUP BY p.chunk ORDER BY score DESC LIMIT {k})"
            f" SELECT n.score, {CHUNK_COLUMNS} FROM n JOIN chunks c ON c.row = n.chunk"
            " JOIN documents d ON d.row = c.doc ORDER BY n.score DESC"
        )

    def make_tables(self) -> None:
        """Makes the tables to write to."""
        for statement in _POSTGRES_SCHEMA:
            self._connection.execute(statement)

    def put(self, given: PutInput, at: int) -> None:
        """Writes the document with the number `at`."""
        packed, chunks, execute = [pack_terms(each) for each in given.terms], given.chunks, self._connection.execute
        rows = np.arange(at * len(chunks), (at + 1) * len(chunks))
        sizes = [len(each.hashes) for each in packed]
        words = np.concatenate([each.hashes for each in packed])
        by_word = np.argsort(words)  # in the order of the index
        columns = list(zip(*(_chunk_columns(chunk) for chunk in chunks), strict=True))
        with self._connection.pipeline():
            execute("BEGIN")
            execute(
                "INSERT INTO raw_documents VALUES(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, '[]')",
                (at, *_document_columns(given.document)),
                prepare=True,
            )
            execute(
                "INSERT INTO raw_chunks SELECT u.row, u.id, %s, u.idx, u.start, u.stop, u.headings, u.context, u.at,"
                " u.meta, u.text, u.vector FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::bigint[], %s::bigint[],"
                " %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::vector[])"
                " AS u(row, id, idx, start, stop, headings, context, at, meta, text, vector)",
                (
                    at,
                    binary.encode_bigints(rows),
                    binary.encode_texts([chunk.id for chunk in chunks]),
                    binary.encode_ints(columns[0]),
                    binary.encode_bigints(columns[1]),
                    binary.encode_bigints(columns[2]),
                    *(binary.encode_texts(column) for column in columns[3:]),
                    binary.encode_vectors(given.vectors, self._vector),
                ),
                prepare=True,
            )
            execute(
                "INSERT INTO raw_postings SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::int[])",
                (
                    binary.encode_bigints(words[by_word]),
                    binary.encode_bigints(np.repeat(rows, sizes)[by_word]),
                    binary.encode_ints(np.concatenate([each.counts for each in packed])[by_word]),
                    binary.encode_ints(np.repeat([each.length for each in packed], sizes)[by_word]),
                ),
                prepare=True,
            )
            execute("COMMIT")

    def search_vectors(self, vector: Vector) -> Rows:
        """The rows of the k nearest chunks, with their distances."""
        return self._fetch_rows(self._vector_sql, {"query": binary.encode_vector(vector)})

    def search_terms(self, terms: Terms) -> Rows:
        """The rows of the k chunks of greatest BM25 score, with the score."""
        packed = pack_terms(terms)
        return self._fetch_rows(
            self._term_sql, (binary.encode_bigints(packed.hashes), binary.encode_ints(packed.counts))
        )

    def _fetch_rows(self, sql: str, given: Mapping[str, Any] | Sequence[Any]) -> Rows:
        return self._connection.cursor(binary=True).execute(sql, given, prepare=True).fetchall()


def _document_columns(document: Document) -> tuple[str, ...]:
    meta = json.dumps(document.meta)
    names = (document.id, document.uri, document.title, document.kind, document.summary)
    return (*names, meta, document.hash, document.stamp, document.text)


def _chunk_columns(chunk: Chunk) -> tuple[Any, ...]:
    headings, meta = json.dumps(chunk.headings), json.dumps(chunk.meta)
    at = chunk.at.isoformat() if chunk.at else None
    return chunk.index, chunk.start, chunk.end, headings, chunk.context, at, meta, chunk.text
