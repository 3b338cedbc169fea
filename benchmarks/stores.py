"""The three stores on the same chunks in one table: searches cold and warm, each over raw calls of what it is built on.

Cold is a search and the opening before it; the floor opens the shard and its database, the dataset, or one connection.
What the floors do is described in `floors` and `lance_floor`.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

import qdrant_edge as edge

from benchmarks import Measurement, Setup, Skipped, p50, time_interleaved
from benchmarks.corpus import load_scifact, load_texts
from benchmarks.floors import PutInput, ServerFloor, ShardFloor
from benchmarks.lance_floor import LanceFloor
from benchmarks.postgres import ANN_CONFIG, LARGE_SIZE, SMALL_SIZE, K, make_inputs
from clew import drivers
from clew.core.settings import EmbedderConfig
from clew.core.stored import NewDocument
from clew.core.text import Terms, extract_terms
from clew.core.types import Matrix, Vector
from clew.drivers.store import postgres
from clew.drivers.store.lance import open_store as open_lance
from clew.drivers.store.postgres import pool
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.sqlite.backend import SqliteBackend
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.store import Store
from studies.server import START_OWN, NoServer, open_server

BATCH = 200  # documents of one commit
ROUNDS, COLD_ROUNDS, WARM_UP_ROUNDS = 60, 5, 5
NAME = "bench"
KINDS = ("search", "BM25")


@dataclass(frozen=True, slots=True)
class RawCalls:
    """The two searches by hand, and what ends them."""

    search_vectors: Callable[[Vector], object]
    search_terms: Callable[[Terms], object]
    close: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Contender:
    """A store, and the floor of it over the same files or tables."""

    open: Callable[[], Store]
    open_raw: Callable[[], RawCalls]


def measure_three_stores(setup: Setup) -> Iterator[Measurement | str]:
    """Approximate search and BM25 of each store over its floor, cold and warm; then all of it as a table."""
    size = setup.chunks or (LARGE_SIZE if setup.include_slow else SMALL_SIZE)
    texts = [each.text for each in load_texts(setup, size)]
    queries = [each.text for each in load_scifact(setup)[1][:ROUNDS]]
    model = drivers.make_embedder(EmbedderConfig(name="wordllama"))
    pages = list(make_inputs(texts, model.embed(texts, role="passage")))
    vectors = model.embed(queries, role="query")
    words = [extract_terms(text, is_query=True) for text in queries]
    try:
        with open_server(START_OWN) as url:
            contenders = make_contenders(setup.work, url, pages, model.name, model.dim)
            yield from compare_stores(contenders, pages, vectors, words)
    except NoServer as error:
        raise Skipped(str(error)) from error


def make_contenders(work: Path, url: str, pages: Sequence[PutInput], embedder: str, dim: int) -> dict[str, Contender]:
    """The three stores by name, as yet empty."""
    lengths = [sum(terms.values()) for page in pages for terms in page.terms]
    lake, folder = work / "lake", work / "one"
    counts = Counter(word for page in pages for each in page.terms for word in pack_terms(each).hashes.tolist())

    def open_shard() -> RawCalls:
        (shard,) = (folder / "index").glob("shard-*/shard")
        raw, database = edge.EdgeShard.load(str(shard)), sqlite3.connect(folder / "clew.db")
        floor = ShardFloor(raw, database, counts, len(lengths))

        def close() -> None:
            raw.close()
            database.close()

        return RawCalls(
            lambda vector: floor.search_vectors(vector, K), lambda terms: floor.search_terms(terms, K), close
        )

    def open_dataset() -> RawCalls:
        uri = str(lake / NAME / "content.lance")
        floor = LanceFloor(uri, len(lengths), sum(lengths) / len(lengths))
        return RawCalls(floor.search_vectors, floor.search_terms, lambda: None)

    def open_connection() -> RawCalls:
        connection = pool.connect(url, NAME)
        number, vector_oid = pool.fetch_rows(
            connection, "SELECT number, 'vector'::regtype::oid::int8 FROM collections WHERE name = %s", (NAME,)
        )[0]
        floor = ServerFloor(connection, number=number, vector=vector_oid, dim=dim, k=K)
        return RawCalls(floor.search_vectors, floor.search_terms, connection.close)

    def open_lake() -> Store:
        return open_lance(f"lance://{lake}", collection=NAME, embedder=embedder, dim=dim, config=ANN_CONFIG)

    def open_tables() -> Store:
        return postgres.open_store(url, collection=NAME, embedder=embedder, dim=dim, config=ANN_CONFIG)

    return {
        "embedded": Contender(lambda: open_sqlite(folder, embedder=embedder, dim=dim, config=ANN_CONFIG), open_shard),
        "Lance": Contender(open_lake, open_dataset),
        "PostgreSQL": Contender(open_tables, open_connection),
    }


def compare_stores(
    contenders: dict[str, Contender], pages: Sequence[PutInput], vectors: Matrix, words: Sequence[Terms]
) -> Iterator[Measurement | str]:
    """Fills the stores and measures them."""
    table: dict[str, list[float]] = {}
    for name, contender in contenders.items():
        _fill(contender.open(), pages, vectors[0])
        table[name] = []
        for kind, ratio in zip(KINDS, _compare_cold(contender, vectors, words), strict=True):
            yield Measurement(f"cold {kind}, {name} / raw calls", ratio, "≤ 1.2" if name == "Lance" else "")
            table[name].append(ratio)
    with ExitStack() as stack:
        stores = {name: contender.open() for name, contender in contenders.items()}
        for store in stores.values():
            stack.callback(store.close)
        medians = _time_warm(stores, vectors, words)
        # A shard has one opener: the floor of the folder shares that of the store, the others open their own.
        for name, store in stores.items():
            raw = (
                _share_shard(store, pages)
                if isinstance(getattr(store, "_backend", None), SqliteBackend)
                else contenders[name].open_raw()
            )
            stack.callback(raw.close)
            for kind, ratio, processor in zip(KINDS, *_compare_warm(store, raw, vectors, words), strict=True):
                goal = "≤ 1.2" if name == "Lance" else ""
                yield Measurement(f"warm {kind}, {name} / raw calls", ratio, goal)
                if name != "PostgreSQL":  # most of its time is that of another process
                    yield Measurement("… by processor time", processor, goal)
                table[name].append(ratio)
        yield from _format_table(table, medians, sum(len(page.chunks) for page in pages))


def _fill(store: Store, pages: Sequence[PutInput], vector: Vector) -> None:
    for start in range(0, len(pages), BATCH):
        batch = pages[start : start + BATCH]
        store.put_many([NewDocument(page.document, page.chunks, page.vectors, page.terms) for page in batch])
    store.flush()
    store.search_vectors(vector, K)
    store.close()


def _compare_cold(contender: Contender, vectors: Matrix, words: Sequence[Terms]) -> list[float]:
    """The first search after opening over the same by hand, by vector and by words."""

    def search(opened: Callable[[], Store], by_words: bool, at: int) -> None:
        store = opened()
        _ = store.search_terms(words[at], K) if by_words else store.search_vectors(vectors[at], K)
        store.close()

    def search_raw(by_words: bool, at: int) -> None:
        raw = contender.open_raw()
        _ = raw.search_terms(words[at]) if by_words else raw.search_vectors(vectors[at])
        raw.close()

    calls = [
        call
        for by_words in (False, True)
        for call in (partial(search, contender.open, by_words), partial(search_raw, by_words))
    ]
    near, near_raw, lexical, lexical_raw = map(p50, time_interleaved(*calls, rounds=COLD_ROUNDS))
    return [near / near_raw, lexical / lexical_raw]


def _share_shard(store: Store, pages: Sequence[PutInput]) -> RawCalls:
    assert isinstance(store, Store)
    assert isinstance(store._backend, SqliteBackend)
    index = store._backend.index._shard
    assert index
    counts = Counter(word for page in pages for each in page.terms for word in pack_terms(each).hashes.tolist())
    floor = ShardFloor(
        index._shard, store._backend._database._connection, counts, sum(len(page.chunks) for page in pages)
    )
    return RawCalls(
        lambda vector: floor.search_vectors(vector, K), lambda terms: floor.search_terms(terms, K), lambda: None
    )


def _compare_warm(
    store: Store, raw: RawCalls, vectors: Matrix, words: Sequence[Terms]
) -> tuple[list[float], list[float]]:
    """Ratios of the medians by the clock, and of the sums of processor time, by vector and by words."""
    calls: Sequence[Callable[[int], object]] = (
        lambda at: store.search_vectors(vectors[at], K),
        lambda at: raw.search_vectors(vectors[at]),
        lambda at: store.search_terms(words[at], K),
        lambda at: raw.search_terms(words[at]),
    )
    time_interleaved(*calls, rounds=WARM_UP_ROUNDS)
    near, near_raw, lexical, lexical_raw = map(p50, time_interleaved(*calls, rounds=len(vectors)))
    processor = [0.0] * len(calls)
    for at in range(len(vectors)):
        for place, call in enumerate(calls):
            started = process_time()
            call(at)
            processor[place] += process_time() - started
    return [near / near_raw, lexical / lexical_raw], [processor[0] / processor[1], processor[2] / processor[3]]


def _time_warm(stores: dict[str, Store], vectors: Matrix, words: Sequence[Terms]) -> list[float]:
    """The medians of each store, warm, by vector and by words, in milliseconds."""
    calls: list[Callable[[int], object]] = []
    for store in stores.values():
        calls += [partial(_search_vectors, store, vectors), partial(_search_terms, store, words)]
    time_interleaved(*calls, rounds=WARM_UP_ROUNDS)
    return [1000 * p50(each) for each in time_interleaved(*calls, rounds=len(vectors))]


def _search_vectors(store: Store, vectors: Matrix, at: int) -> object:
    return store.search_vectors(vectors[at], K)


def _search_terms(store: Store, words: Sequence[Terms], at: int) -> object:
    return store.search_terms(words[at], K)


def _format_table(table: dict[str, list[float]], medians: Sequence[float], size: int) -> Iterator[str]:
    """Rows of markdown: the ratios to raw calls, and the medians of the warm searches over those of the first store."""
    heads = ("search, cold", "BM25, cold", "search, warm", "BM25, warm", "search / embedded", "BM25 / embedded")
    yield f"| {size:,} chunks, over raw calls | {' | '.join(heads)} |"
    yield f"|---|{'---|' * len(heads)}"
    for place, (name, ratios) in enumerate(table.items()):
        beside = [medians[2 * place + kind] / medians[kind] for kind in range(len(KINDS))]
        yield f"| {name} | {' | '.join(f'{value:.2f}' for value in [*ratios, *beside])} |"
