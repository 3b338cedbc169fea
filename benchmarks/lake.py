"""Search in Lance over calls of Lance by hand, cold and warm, and beside the two other stores.

The floor makes the calls that the same hits need: the index or the terms, the rows of the hits, those of their
documents. The leanest one asks the index for ten rows with their text, and re-ranks nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from time import process_time
from typing import Any

import lance
import numpy as np

from benchmarks import Measurement, Setup, Skipped, p50, time_interleaved
from benchmarks.corpus import load_scifact, load_texts
from benchmarks.postgres import ANN_CONFIG, LARGE_SIZE, SMALL_SIZE, K, make_inputs
from clew import drivers
from clew.core.protocols import Store
from clew.core.settings import EmbedderConfig
from clew.core.stored import NewDocument
from clew.core.text import Terms, extract_terms
from clew.core.types import Matrix, Vector
from clew.drivers.store import bm25
from clew.drivers.store.embedded.store import EmbeddedStore
from clew.drivers.store.lance import LanceStore
from clew.drivers.store.lance import rows as shown
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT
from clew.drivers.store.postgres import PostgresStore
from clew.drivers.store.term_ids import pack_terms
from studies.server import START_OWN, NoServer, open_server

BATCH = 200  # documents of one commit
ROUNDS, COLD_ROUNDS = 60, 5
CANDIDATES, PROBES = 200, 50  # as the store asks for


class LanceFloor:
    """Searches in the dataset of a collection by hand."""

    def __init__(self, uri: str, chunks: int, average: float) -> None:
        self._dataset = lance.dataset(uri)
        self._chunks, self._average = chunks, average  # known, as the store's head has them

    def search_vectors(self, vector: Vector) -> list[dict[str, Any]]:
        """The ten nearest of the candidates, with their rows and those of their documents."""
        table = self._ask_index(vector, ["row", "vector"], CANDIDATES)
        vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, len(vector))
        best = np.argsort(-(vectors @ vector), kind="stable")[:K]
        return self._read_rows(table["row"].to_numpy()[best].tolist())

    def search_leanest(self, vector: Vector) -> list[dict[str, Any]]:
        """The ten nearest by the index, with their text."""
        found: list[dict[str, Any]] = self._ask_index(vector, ["id", "text"], K).to_pylist()
        return found

    def _ask_index(self, vector: Vector, columns: list[str], k: int) -> Any:
        nearest = {"column": "vector", "q": vector, "k": k, "nprobes": PROBES, "refine_factor": 2}
        return self._dataset.to_table(columns=columns, filter=f"kind = {CHUNK}", prefilter=True, nearest=nearest)

    def search_terms(self, terms: Terms) -> list[dict[str, Any]]:
        """The ten of greatest BM25 score of all chunks that have any of the terms."""
        query = pack_terms(terms)
        listed = ", ".join(map(str, query.hashes.tolist()))
        sql = f"kind = {CHUNK} AND array_has_any(terms, [{listed}])"
        table = self._dataset.to_table(columns=["row", "length", "terms", "counts"], filter=sql).combine_chunks()
        owned = table["terms"].combine_chunks()
        owners = np.repeat(np.arange(table.num_rows), owned.value_lengths().to_numpy())
        hashes, counts = owned.flatten().to_numpy(), table["counts"].combine_chunks().flatten().to_numpy()
        norms = bm25.length_norm(table["length"].to_numpy().astype(np.float64), self._average)
        scores = np.zeros(table.num_rows)
        for each, times in zip(query.hashes, query.counts.tolist(), strict=True):
            at = np.flatnonzero(hashes == each)
            places = owners[at]
            scores[places] += times * bm25.idf(self._chunks, len(at)) * bm25.saturate(counts[at], norms[places])
        return self._read_rows(table["row"].to_numpy()[np.argsort(-scores, kind="stable")[:K]].tolist())

    def _read_rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._find(CHUNK, numbers, shown.CHUNK_COLUMNS)
        self._find(DOCUMENT, sorted({row["doc"] for row in found}), shown.DOCUMENT_COLUMNS)
        return found

    def _find(self, kind: int, numbers: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        sql = f"kind = {kind} AND row IN ({', '.join(map(str, numbers))})"
        names = list(dict.fromkeys(["row", *columns]))
        found: list[dict[str, Any]] = self._dataset.to_table(columns=names, filter=sql).to_pylist()
        return found


def measure_lake(setup: Setup) -> Iterator[Measurement | str]:
    """Approximate search and BM25 of Lance over its floor, cold and warm, and the three stores in one table."""
    size = LARGE_SIZE if setup.include_slow else SMALL_SIZE
    texts = [each.text for each in load_texts(setup, size)]
    queries = [each.text for each in load_scifact(setup)[1][:ROUNDS]]
    model = drivers.make_embedder(EmbedderConfig(name="wordllama"))
    pages = [
        NewDocument(page.document, page.chunks, page.vectors, page.terms)
        for page in make_inputs(texts, model.embed(texts, role="passage"))
    ]
    vectors = model.embed(queries, role="query")
    words = [extract_terms(text, is_query=True) for text in queries]
    place = setup.work / "lake"

    def open_lake() -> LanceStore:
        return LanceStore(f"lance://{place}", collection="bench", embedder=model.name, dim=model.dim, config=ANN_CONFIG)

    with ExitStack() as stack:
        try:
            url = stack.enter_context(open_server(START_OWN))
        except NoServer as error:
            raise Skipped(str(error)) from error
        stores: dict[str, Store] = {
            "Lance": open_lake(),
            "embedded": EmbeddedStore(setup.work / "one", embedder=model.name, dim=model.dim, config=ANN_CONFIG),
            "PostgreSQL": PostgresStore(url, collection="b", embedder=model.name, dim=model.dim, config=ANN_CONFIG),
        }
        for store in stores.values():
            stack.callback(store.close)
            for start in range(0, len(pages), BATCH):
                store.put_many(pages[start : start + BATCH])
            store.flush()
        uri = str(place / "bench" / "content.lance")
        average = sum(sum(terms.values()) for page in pages for terms in page.terms) / size
        open_floor = partial(LanceFloor, uri, size, average)
        yield from _measure_cold(open_lake, open_floor, vectors[0], words[0])
        yield from _measure_warm(stores["Lance"], open_floor(), vectors, words)
        yield from _make_table(stores, vectors, words, size)


def _measure_cold(
    open_lake: Callable[[], LanceStore], open_floor: Callable[[], LanceFloor], vector: Vector, terms: Terms
) -> Iterator[Measurement]:
    """The first search after opening, over opening the dataset and the same search by hand."""

    def search(_: int) -> None:
        store = open_lake()
        store.search_vectors(vector, K)
        store.close()

    def search_by_words(_: int) -> None:
        store = open_lake()
        store.search_terms(terms, K)
        store.close()

    calls = (
        search,
        lambda _: open_floor().search_vectors(vector),
        search_by_words,
        lambda _: open_floor().search_terms(terms),
    )
    one, one_raw, two, two_raw = map(p50, time_interleaved(*calls, rounds=COLD_ROUNDS))
    yield Measurement("cold approximate search, Lance / raw calls", one / one_raw, "≤ 1.2")
    yield Measurement("cold BM25, Lance / raw calls", two / two_raw, "≤ 1.2")


def _measure_warm(store: Store, floor: LanceFloor, vectors: Matrix, words: Sequence[Terms]) -> Iterator[Measurement]:
    """Medians by the clock, and the sums of processor time."""
    calls: Sequence[Callable[[int], object]] = (
        lambda at: store.search_vectors(vectors[at], K),
        lambda at: floor.search_vectors(vectors[at]),
        lambda at: floor.search_leanest(vectors[at]),
        lambda at: store.search_terms(words[at], K),
        lambda at: floor.search_terms(words[at]),
    )
    time_interleaved(*calls, rounds=5)
    near, raw, leanest, lexical, lexical_raw = map(p50, time_interleaved(*calls, rounds=len(vectors)))
    processor = [0.0] * len(calls)
    for at in range(len(vectors)):
        for place, call in enumerate(calls):
            started = process_time()
            call(at)
            processor[place] += process_time() - started
    yield Measurement("warm approximate search, Lance / raw calls", near / raw, "≤ 1.2")
    yield Measurement("… by processor time", processor[0] / processor[1], "≤ 1.2")
    yield Measurement("… / the leanest call", near / leanest)
    yield Measurement("warm BM25, Lance / raw calls", lexical / lexical_raw, "≤ 1.2")
    yield Measurement("… by processor time", processor[3] / processor[4], "≤ 1.2")


def _make_table(stores: dict[str, Store], vectors: Matrix, words: Sequence[Terms], size: int) -> Iterator[str]:
    """The medians of each store, warm, in milliseconds."""
    calls: list[Callable[[int], object]] = []
    for store in stores.values():
        calls += [partial(_search_vectors, store, vectors), partial(_search_terms, store, words)]
    times = [1000 * p50(each) for each in time_interleaved(*calls, rounds=len(vectors))]
    yield f"{f'{size:,} chunks, ms at p50':<30} {'search':>10} {'BM25':>10}"
    for place, name in enumerate(stores):
        yield f"{name:<30} {times[2 * place]:>10.2f} {times[2 * place + 1]:>10.2f}"


def _search_vectors(store: Store, vectors: Matrix, at: int) -> object:
    return store.search_vectors(vectors[at], K)


def _search_terms(store: Store, words: Sequence[Terms], at: int) -> object:
    return store.search_terms(words[at], K)
