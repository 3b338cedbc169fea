"""The two stores on the same chunks: each over its raw floor, and one over the other.

What the floors do, and what they leave out, is described in `floors`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import fmean, quantiles
from time import perf_counter

from benchmarks import Measurement, Setup, Skipped, p50, time_interleaved
from benchmarks.corpus import load_scifact, load_texts
from benchmarks.floors import PutInput, ServerFloor, ShardFloor, SqliteFloor
from clew import Filter, drivers
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.text import Terms, extract_terms
from clew.core.types import Chunk, Document, Matrix
from clew.drivers.store import postgres
from clew.drivers.store.postgres import pool
from clew.drivers.store.postgres.backend import PostgresBackend
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.sqlite.backend import SqliteBackend
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.store import Store
from studies.server import START_OWN, NoServer, open_server

SMALL_SIZE, LARGE_SIZE = 20_000, 100_000  # chunks, the latter with --long
CHUNKS_PER_DOCUMENT = 10  # of a document
QUERIES, RECALLED, K = 500, 200, 10
WARM_UP_ROUNDS = 20  # searches of each kind before timing
BUCKETS = 50  # a filter on one admits 2 %
ANN_CONFIG = StoreConfig(exact_below=1000)


def measure_stores(setup: Setup) -> Sequence[Measurement]:
    """Put, approximate search, its recall without and with a filter, and BM25, in one run."""
    size = LARGE_SIZE if setup.include_slow else SMALL_SIZE
    texts = [each.text for each in load_texts(setup, size)]
    queries = [each.text for each in load_scifact(setup)[1][:QUERIES]]
    model = drivers.make_embedder(EmbedderConfig(name="wordllama"))
    pages = list(make_inputs(texts, model.embed(texts, role="passage")))
    vectors = model.embed(queries, role="query")
    words = [extract_terms(text, is_query=True) for text in queries]
    with ExitStack() as stack:
        try:
            url = stack.enter_context(open_server(START_OWN))
        except NoServer as error:
            raise Skipped(str(error)) from error
        embedded = open_sqlite(setup.work / "one", embedder=model.name, dim=model.dim, config=ANN_CONFIG)
        stack.callback(embedded.close)
        server = postgres.open_store(url, collection="bench", embedder=model.name, dim=model.dim, config=ANN_CONFIG)
        stack.callback(server.close)
        sqlite = SqliteFloor(setup.work / "raw.db")
        stack.callback(sqlite.close)
        connection = stack.enter_context(pool.connect(url, "bench"))
        assert isinstance(server._backend, PostgresBackend)
        assert isinstance(embedded._backend, SqliteBackend)
        known = server._backend._collection
        sql = ServerFloor(connection, number=known.number, vector=known.vector_oid, dim=model.dim, k=K)
        sql.make_tables()
        lines = _measure_put(embedded, server, pages, sqlite, sql)
        for store in (embedded, server):
            store.flush()
            store.search_vectors(vectors[0], K)
        index = embedded._backend.index._shard
        assert index
        document_counts = Counter(
            word for page in pages for each in page.terms for word in pack_terms(each).hashes.tolist()
        )
        shard = ShardFloor(index._shard, embedded._backend._database._connection, document_counts, size)
        lines += _measure_ann(embedded, server, vectors, shard, sql)
        return [*lines, *_measure_bm25(embedded, server, words, shard, sql)]


def make_inputs(texts: Sequence[str], vectors: Matrix) -> Iterator[PutInput]:
    """Documents of ten chunks each, two per page, in equal buckets."""
    for at in range(0, len(texts), CHUNKS_PER_DOCUMENT):
        batch = texts[at : at + CHUNKS_PER_DOCUMENT]
        name, meta = f"d{at}", {"bucket": (at // CHUNKS_PER_DOCUMENT) % BUCKETS}
        chunks = [
            Chunk(f"{name}/{n}", name, n, len(batch), text, 0, len(text), meta={"page": n // 2})
            for n, text in enumerate(batch)
        ]
        document = Document(name, "\n".join(batch), uri=name, meta=meta)
        yield PutInput(
            document, chunks, vectors[at : at + CHUNKS_PER_DOCUMENT], [extract_terms(text) for text in batch]
        )


def _measure_put(
    embedded: Store, server: Store, pages: Sequence[PutInput], sqlite: SqliteFloor, sql: ServerFloor
) -> list[Measurement]:
    def put(store: Store, at: int) -> None:
        page = pages[at]
        store.put(page.document, page.chunks, page.vectors, page.terms)

    times = _time_alternating(
        partial(put, embedded),
        lambda at: sqlite.put(pages[at], at),
        partial(put, server),
        lambda at: sql.put(pages[at], at),
        rounds=len(pages),
    )
    one, one_raw, two, two_raw = (sum(each) for each in times)
    note = f"{sum(len(page.chunks) for page in pages):,} chunks, {CHUNKS_PER_DOCUMENT} a document"
    return [
        Measurement("put, embedded / raw SQLite", one / one_raw, "≤ 1.2", note),
        Measurement("put, PostgreSQL / raw SQL", two / two_raw, "≤ 1.2"),
        Measurement("put, PostgreSQL / embedded", two / one),
    ]


def _measure_ann(
    embedded: Store, server: Store, vectors: Matrix, shard: ShardFloor, sql: ServerFloor
) -> list[Measurement]:
    times = _time_alternating(
        lambda at: embedded.search_vectors(vectors[at], K),
        lambda at: shard.search_vectors(vectors[at], K),
        lambda at: server.search_vectors(vectors[at], K),
        lambda at: sql.search_vectors(vectors[at]),
        rounds=len(vectors),
        warm_up=WARM_UP_ROUNDS,
    )
    lines = _make_ratios("approximate search", times)
    for name, store in (("embedded", embedded), ("PostgreSQL", server)):
        batch = vectors[:RECALLED]
        lines.append(
            Measurement(f"recall@{K} of its approximate search, {name}", _measure_recall(store, batch, None), "≥ 0.98")
        )
        lines.append(Measurement(f"… under a filter of 2 %, {name}", _measure_recall(store, batch, BUCKETS), "≥ 0.98"))
    return lines


def _measure_recall(store: Store, vectors: Matrix, buckets: int | None) -> float:
    shares = []
    for at, vector in enumerate(vectors):
        where = Filter(meta={"bucket": at % buckets}) if buckets else Filter()
        exact = {hit.chunk.id for hit in store.search_vectors(vector, K, where, mode="exact")}
        shares.append(len(exact & {hit.chunk.id for hit in store.search_vectors(vector, K, where)}) / len(exact))
    return fmean(shares)


def _measure_bm25(
    embedded: Store, server: Store, words: Sequence[Terms], shard: ShardFloor, sql: ServerFloor
) -> list[Measurement]:
    times = _time_alternating(
        lambda at: embedded.search_terms(words[at], K),
        lambda at: shard.search_terms(words[at], K),
        lambda at: server.search_terms(words[at], K),
        lambda at: sql.search_terms(words[at]),
        rounds=len(words),
        warm_up=WARM_UP_ROUNDS,
    )
    return _make_ratios("BM25", times)


def _time_alternating(*calls: Callable[[int], object], rounds: int, warm_up: int = 0) -> list[list[float]]:
    """The times of each call over the rounds, after warming up.

    The second call finds in the CPU caches what the first has read, so the order alternates.
    """
    time_interleaved(*calls, rounds=warm_up)
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(rounds):
        for at in range(len(calls)) if round_ % 2 else reversed(range(len(calls))):
            started = perf_counter()
            calls[at](round_)
            times[at].append(perf_counter() - started)
    return times


def _make_ratios(what: str, times: Sequence[Sequence[float]]) -> list[Measurement]:
    lines = []
    measures: Sequence[tuple[str, Callable[[Sequence[float]], float]]] = (("p50", p50), ("p95", _p95))
    for name, of in measures:
        one, one_raw, two, two_raw = (of(each) for each in times)
        lines += [
            Measurement(f"{what}, {name}, embedded / raw query of the shard and rows", one / one_raw, "≤ 1.2"),
            Measurement(f"{what}, {name}, PostgreSQL / raw SQL", two / two_raw, "≤ 1.2"),
            Measurement(f"{what}, {name}, PostgreSQL / embedded", two / one),
        ]
    return lines


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20)[-1]
