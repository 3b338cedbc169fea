"""The two stores side by side on the same chunks: each over raw calls to what it is built on, and one over the other.

The floors do only what cannot be left out. Of putting a document: its text, vectors and terms, one transaction each. Of
searching: one statement with the vector or the weighted words that gives the texts, or one query of the shard and one
statement for the texts of what it found.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

import numpy as np
import psycopg
import qdrant_edge as edge

from clew import Filter, drivers
from clew.core.protocols import Store
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.text import Terms, terms
from clew.core.types import Chunk, Document, Matrix
from clew.drivers.store import bm25, counts
from clew.drivers.store.embedded import EmbeddedStore
from clew.drivers.store.postgres import PostgresStore, codec, pool
from clew.drivers.store.shard import BREADTH, DENSE, LOW, TERMS
from clew.drivers.store.words import pack
from clew.study.bench import Line, Setup, Skipped, interleaved, p50
from clew.study.bench.corpus import many, scifact
from clew.study.server import STARTED, NoServer, served

FEW, MANY = 20_000, 100_000  # chunks, the latter with --long
EACH = 10  # chunks of a document
QUERIES, K = 200, 10
BUCKETS = 50  # one of which a filter of 2 % admits
SMALL = StoreConfig(exact_below=1000)


@dataclass(frozen=True, slots=True)
class Page:
    """A document with all that is put with it."""

    document: Document
    chunks: list[Chunk]
    vectors: Matrix
    terms: list[Terms]


def both_stores(setup: Setup) -> Sequence[Line]:
    """Ingest, approximate search, its recall without and with a filter, and BM25, in one run."""
    size = MANY if setup.long else FEW
    texts = [each.text for each in many(setup, size)]
    asked = [each.text for each in scifact(setup)[1][:QUERIES]]
    model = drivers.embedder(EmbedderConfig(name="wordllama"))
    pages = list(_pages(texts, model.embed(texts, role="passage")))
    vectors = model.embed(asked, role="query")
    words = [terms(text, asked=True) for text in asked]
    with ExitStack() as stack:
        try:
            url = stack.enter_context(served(STARTED))
        except NoServer as error:
            raise Skipped(str(error)) from error
        embedded = EmbeddedStore(setup.work / "one", embedder=model.name, dim=model.dim, config=SMALL)
        stack.callback(embedded.close)
        server = PostgresStore(url, collection="bench", embedder=model.name, dim=model.dim, config=SMALL)
        stack.callback(server.close)
        connection = stack.enter_context(pool.connect(url, "bench"))
        lines = _ingest(embedded, server, pages, setup.work / "raw.db", connection)
        for store in (embedded, server):
            store.flush()
            store.nearest(vectors[0], K)
        lines += _ann(embedded, server, vectors, connection)
        return [*lines, *_words(embedded, server, words, connection)]


def _pages(texts: Sequence[str], vectors: Matrix) -> Any:
    for at in range(0, len(texts), EACH):
        some = texts[at : at + EACH]
        name, meta = f"d{at}", {"bucket": (at // EACH) % BUCKETS}
        chunks = [
            Chunk(f"{name}/{n}", name, n, len(some), text, 0, len(text), meta=meta) for n, text in enumerate(some)
        ]
        document = Document(name, "\n".join(some), uri=name, meta=meta)
        yield Page(document, chunks, vectors[at : at + EACH], [terms(text) for text in some])


def _ingest(
    embedded: EmbeddedStore, server: PostgresStore, pages: Sequence[Page], file: Path, raw: psycopg.Connection
) -> list[Line]:
    database = sqlite3.connect(file, isolation_level=None)
    for pragma in ("page_size = 8192", "journal_mode = WAL", "wal_autocheckpoint = 4000"):  # as the store has them
        database.execute(f"PRAGMA {pragma}")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE raw(text TEXT, terms BLOB, counts BLOB, vector BLOB)")
    raw.execute("CREATE TABLE raw_chunks(row bigint PRIMARY KEY, text text, vector vector)")
    raw.execute("CREATE TABLE raw_postings(word bigint, chunk bigint, count int, PRIMARY KEY (word, chunk))")

    def put(store: Store, at: int) -> None:
        page = pages[at]
        store.put(page.document, page.chunks, page.vectors, page.terms)

    times = interleaved(
        partial(put, embedded),
        lambda at: _raw_sqlite(database, pages[at]),
        partial(put, server),
        lambda at: _raw_sql(raw, pages[at], at, server._known.vector),
        rounds=len(pages),
    )
    database.close()
    one, one_raw, two, two_raw = (sum(each) for each in times)
    note = f"{sum(len(page.chunks) for page in pages):,} chunks, {EACH} a document"
    return [
        Line("put, embedded / raw SQLite", one / one_raw, "≤ 1.2", note),
        Line("put, PostgreSQL / raw SQL", two / two_raw, "≤ 1.2"),
        Line("put, PostgreSQL / embedded", two / one),
    ]


def _raw_sqlite(database: sqlite3.Connection, page: Page) -> None:
    packed = [pack(each) for each in page.terms]
    rows = zip(page.chunks, packed, page.vectors, strict=True)
    database.execute("BEGIN IMMEDIATE")
    database.executemany(
        "INSERT INTO raw VALUES(?, ?, ?, ?)",
        [(chunk.text, p.hashes.tobytes(), p.counts.tobytes(), vector.tobytes()) for chunk, p, vector in rows],
    )
    database.execute("COMMIT")


def _raw_sql(raw: psycopg.Connection, page: Page, at: int, vector: int) -> None:
    packed = [pack(each) for each in page.terms]
    rows = np.arange(at * EACH, at * EACH + len(page.chunks))
    with raw.pipeline(), raw.transaction():
        raw.execute(
            "INSERT INTO raw_chunks SELECT * FROM unnest(%s::bigint[], %s::text[], %s::vector[])",
            (codec.bigints(rows), [chunk.text for chunk in page.chunks], codec.vectors(page.vectors, vector)),
        )
        raw.execute(
            "INSERT INTO raw_postings SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::int[])",
            (
                codec.bigints(np.concatenate([each.hashes for each in packed])),
                codec.bigints(np.repeat(rows, [len(each.hashes) for each in packed])),
                codec.ints(np.concatenate([each.counts for each in packed])),
            ),
        )


def _ann(embedded: EmbeddedStore, server: PostgresStore, vectors: Matrix, connection: psycopg.Connection) -> list[Line]:
    shard = embedded._keeper._shard
    assert shard
    half, number = f"halfvec({vectors.shape[1]})", server._number
    sql = (
        f"SELECT row FROM signals WHERE collection = {number} ORDER BY vector::{half} <-> %s::vector::{half} LIMIT {K}"
    )
    connection.execute("SELECT set_config('hnsw.ef_search', %s, false)", (str(BREADTH),))
    params = edge.SearchParams(hnsw_ef=BREADTH)

    def raw_shard(at: int) -> object:
        asked = edge.Query.Nearest(vectors[at].tolist(), using=DENSE)
        return _texts(embedded, shard._shard.query(edge.QueryRequest(limit=K, query=asked, params=params)))

    times = interleaved(
        lambda at: embedded.nearest(vectors[at], K),
        raw_shard,
        lambda at: server.nearest(vectors[at], K),
        lambda at: pool.rows(connection, sql, (codec.vector(vectors[at]),)),
        rounds=len(vectors),
    )
    lines = _ratios("approximate search", times)
    for name, store in (("embedded", embedded), ("PostgreSQL", server)):
        lines.append(Line(f"recall@{K} of its approximate search, {name}", _recall(store, vectors, None), "≥ 0.98"))
        lines.append(Line(f"… under a filter of 2 %, {name}", _recall(store, vectors, BUCKETS), "≥ 0.98"))
    return lines


def _recall(store: Store, vectors: Matrix, buckets: int | None) -> float:
    shares = []
    for at, vector in enumerate(vectors):
        where = Filter(meta={"bucket": at % buckets}) if buckets else Filter()
        exact = {hit.chunk.id for hit in store.nearest(vector, K, where, mode="exact")}
        shares.append(len(exact & {hit.chunk.id for hit in store.nearest(vector, K, where)}) / len(exact))
    return fmean(shares)


def _words(
    embedded: EmbeddedStore, server: PostgresStore, words: Sequence[Terms], connection: psycopg.Connection
) -> list[Line]:
    shard = embedded._keeper._shard
    assert shard
    state = embedded._truth.state()
    weighed = []
    for asked in words:
        packed = pack(asked)
        idf = [bm25.idf(state.chunks, counts.having(shard._counts, word)) for word in packed.hashes.tolist()]
        weighed.append((packed.hashes, np.array(idf)))
    slope, least = bm25.K1 * bm25.B / state.average, bm25.K1 * (1 - bm25.B)
    sql = (
        "SELECT c.text, n.score FROM (SELECT p.chunk,"
        f" sum(w.weight * p.count / (p.count + {least}::float8 + {slope}::float8 * p.length)) AS score"
        " FROM unnest(%s::bigint[], %s::float8[]) AS w(word, weight) JOIN postings p"
        f" ON p.word = w.word AND p.collection = {server._number} GROUP BY p.chunk ORDER BY score DESC LIMIT {K}) n"
        " JOIN chunks c ON c.row = n.chunk"
    )

    def raw_shard(at: int) -> object:
        hashes, idf = weighed[at]
        sparse = edge.SparseVector([int(word) & LOW for word in hashes], idf.tolist())
        asked = edge.Query.Nearest(sparse, using=TERMS)
        return _texts(embedded, shard._shard.query(edge.QueryRequest(limit=K, query=asked)))

    times = interleaved(
        lambda at: embedded.matching(words[at], K),
        raw_shard,
        lambda at: server.matching(words[at], K),
        lambda at: pool.rows(connection, sql, (codec.bigints(weighed[at][0]), weighed[at][1].tolist())),
        rounds=len(words),
    )
    return _ratios("BM25", times)


def _texts(embedded: EmbeddedStore, points: Sequence[edge.ScoredPoint]) -> list[Any]:
    """What the chunks say that the shard found."""
    rows = ", ".join(str(point.id) for point in points)
    return embedded._truth._db.execute(f"SELECT text FROM chunks WHERE row IN ({rows})").fetchall()


def _ratios(what: str, times: Sequence[Sequence[float]]) -> list[Line]:
    lines = []
    measures: Sequence[tuple[str, Callable[[Sequence[float]], float]]] = (("p50", p50), ("p95", _p95))
    for name, of in measures:
        one, one_raw, two, two_raw = (of(each) for each in times)
        lines += [
            Line(f"{what}, {name}, embedded / raw query of the shard and texts", one / one_raw, "≤ 1.2"),
            Line(f"{what}, {name}, PostgreSQL / raw SQL", two / two_raw, "≤ 1.2"),
            Line(f"{what}, {name}, PostgreSQL / embedded", two / one),
        ]
    return lines


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20)[-1]
