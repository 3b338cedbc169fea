"""The two stores side by side on the same chunks: each over raw calls to what it is built on, and one over the other.

What the raw calls do, and what they leave out, is said in `floors`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import fmean, quantiles
from time import perf_counter

from benchmarks import Line, Setup, Skipped, interleaved, p50
from benchmarks.corpus import many, scifact
from benchmarks.floors import Page, ServerFloor, ShardFloor, SqliteFloor
from clew import Filter, drivers
from clew.core.protocols import Store
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.text import Terms, terms
from clew.core.types import Chunk, Document, Matrix
from clew.drivers.store.embedded.store import EmbeddedStore
from clew.drivers.store.postgres import PostgresStore
from clew.drivers.store.postgres.connect import pool
from clew.drivers.store.term_ids import pack
from studies.server import STARTED, NoServer, served

FEW, MANY = 20_000, 100_000  # chunks, the latter with --long
EACH = 10  # chunks of a document
QUERIES, RECALLED, K = 500, 200, 10
WARM = 20  # searches of each kind before the first that counts
BUCKETS = 50  # one of which a filter of 2 % admits
SMALL = StoreConfig(exact_below=1000)


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
        sqlite = SqliteFloor(setup.work / "raw.db")
        stack.callback(sqlite.close)
        connection = stack.enter_context(pool.connect(url, "bench"))
        known = server._known
        sql = ServerFloor(connection, number=known.number, vector=known.vector, dim=model.dim, k=K)
        lines = _ingest(embedded, server, pages, sqlite, sql)
        for store in (embedded, server):
            store.flush()
            store.search_vectors(vectors[0], K)
        index = embedded._keeper._shard
        assert index
        having = Counter(word for page in pages for each in page.terms for word in pack(each).hashes.tolist())
        shard = ShardFloor(index._shard, embedded._truth._db, having, size)
        lines += _ann(embedded, server, vectors, shard, sql)
        return [*lines, *_words(embedded, server, words, shard, sql)]


def _pages(texts: Sequence[str], vectors: Matrix) -> Iterator[Page]:
    """Documents of a few chunks each, two a page, in equal buckets."""
    for at in range(0, len(texts), EACH):
        some = texts[at : at + EACH]
        name, meta = f"d{at}", {"bucket": (at // EACH) % BUCKETS}
        chunks = [
            Chunk(f"{name}/{n}", name, n, len(some), text, 0, len(text), meta={"page": n // 2})
            for n, text in enumerate(some)
        ]
        document = Document(name, "\n".join(some), uri=name, meta=meta)
        yield Page(document, chunks, vectors[at : at + EACH], [terms(text) for text in some])


def _ingest(
    embedded: EmbeddedStore, server: PostgresStore, pages: Sequence[Page], sqlite: SqliteFloor, sql: ServerFloor
) -> list[Line]:
    def put(store: Store, at: int) -> None:
        page = pages[at]
        store.put(page.document, page.chunks, page.vectors, page.terms)

    times = _timed(
        partial(put, embedded),
        lambda at: sqlite.put(pages[at], at),
        partial(put, server),
        lambda at: sql.put(pages[at], at),
        rounds=len(pages),
    )
    one, one_raw, two, two_raw = (sum(each) for each in times)
    note = f"{sum(len(page.chunks) for page in pages):,} chunks, {EACH} a document"
    return [
        Line("put, embedded / raw SQLite", one / one_raw, "≤ 1.2", note),
        Line("put, PostgreSQL / raw SQL", two / two_raw, "≤ 1.2"),
        Line("put, PostgreSQL / embedded", two / one),
    ]


def _ann(
    embedded: EmbeddedStore, server: PostgresStore, vectors: Matrix, shard: ShardFloor, sql: ServerFloor
) -> list[Line]:
    times = _timed(
        lambda at: embedded.search_vectors(vectors[at], K),
        lambda at: shard.nearest(vectors[at], K),
        lambda at: server.search_vectors(vectors[at], K),
        lambda at: sql.nearest(vectors[at]),
        rounds=len(vectors),
        warm=WARM,
    )
    lines = _ratios("approximate search", times)
    for name, store in (("embedded", embedded), ("PostgreSQL", server)):
        some = vectors[:RECALLED]
        lines.append(Line(f"recall@{K} of its approximate search, {name}", _recall(store, some, None), "≥ 0.98"))
        lines.append(Line(f"… under a filter of 2 %, {name}", _recall(store, some, BUCKETS), "≥ 0.98"))
    return lines


def _recall(store: Store, vectors: Matrix, buckets: int | None) -> float:
    shares = []
    for at, vector in enumerate(vectors):
        where = Filter(meta={"bucket": at % buckets}) if buckets else Filter()
        exact = {hit.chunk.id for hit in store.search_vectors(vector, K, where, mode="exact")}
        shares.append(len(exact & {hit.chunk.id for hit in store.search_vectors(vector, K, where)}) / len(exact))
    return fmean(shares)


def _words(
    embedded: EmbeddedStore, server: PostgresStore, words: Sequence[Terms], shard: ShardFloor, sql: ServerFloor
) -> list[Line]:
    times = _timed(
        lambda at: embedded.search_terms(words[at], K),
        lambda at: shard.matching(words[at], K),
        lambda at: server.search_terms(words[at], K),
        lambda at: sql.matching(words[at]),
        rounds=len(words),
        warm=WARM,
    )
    return _ratios("BM25", times)


def _timed(*calls: Callable[[int], object], rounds: int, warm: int = 0) -> list[list[float]]:
    """The times of each call over the rounds, once all are warm.

    Who comes second finds in the processor's caches what the first has read, so they come first in turn.
    """
    interleaved(*calls, rounds=warm)
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(rounds):
        for at in range(len(calls)) if round_ % 2 else reversed(range(len(calls))):
            started = perf_counter()
            calls[at](round_)
            times[at].append(perf_counter() - started)
    return times


def _ratios(what: str, times: Sequence[Sequence[float]]) -> list[Line]:
    lines = []
    measures: Sequence[tuple[str, Callable[[Sequence[float]], float]]] = (("p50", p50), ("p95", _p95))
    for name, of in measures:
        one, one_raw, two, two_raw = (of(each) for each in times)
        lines += [
            Line(f"{what}, {name}, embedded / raw query of the shard and rows", one / one_raw, "≤ 1.2"),
            Line(f"{what}, {name}, PostgreSQL / raw SQL", two / two_raw, "≤ 1.2"),
            Line(f"{what}, {name}, PostgreSQL / embedded", two / one),
        ]
    return lines


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20)[-1]
