"""Search: hybrid search through the engine over numpy's exact product plus bm25s, on the same vectors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter

import bm25s
import numpy as np

from benchmarks import Measurement, Setup, p50, time_interleaved
from benchmarks.corpus import CorpusText, load_scifact, load_texts
from clew import Engine, Settings, drivers
from clew.core.protocols import Embedder, Role
from clew.core.settings import EmbedderConfig, SearchConfig
from clew.core.text import tokenize_words
from clew.core.types import Document, Matrix, Vector

QUERIES = 200
OPENINGS = 7
NO_CACHE = Settings(search=SearchConfig(cache=0))  # no search is answered from the cache


@dataclass(frozen=True, slots=True)
class PrecomputedEmbedder:
    """An embedder with precomputed vectors, so that everything but the model is measured."""

    model: Embedder
    known: Mapping[str, Vector]
    name: str = "precomputed"
    min_similarity: float = -1.0

    @property
    def dim(self) -> int:
        """The model's."""
        return self.model.dim

    @property
    def max_tokens(self) -> int:
        """The model's."""
        return self.model.max_tokens

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Precomputed vectors if all texts have one, else by the model."""
        if all(text in self.known for text in texts):
            return np.stack([self.known[text] for text in texts])
        return self.model.embed(texts, role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """One token each: every text is one chunk, as in the floor."""
        return [1] * len(texts)


def measure_hybrid_small(setup: Setup) -> Sequence[Measurement]:
    """With the 5,183 documents of SciFact, where the index is exact and in memory."""
    corpus, queries = load_scifact(setup)
    return _measure(setup, corpus, queries[:QUERIES], "≤ 2", ann=False)


def measure_hybrid_large(setup: Setup) -> Sequence[Measurement]:
    """With 100,000 chunks, where the index is approximate."""
    return _measure(setup, load_texts(setup, 100_000), load_scifact(setup)[1][:QUERIES], "≤ 0.5", ann=True)


def _measure(
    setup: Setup, corpus: Sequence[CorpusText], queries: Sequence[CorpusText], goal: str, *, ann: bool
) -> list[Measurement]:
    model = drivers.make_embedder(EmbedderConfig(name="wordllama"))
    matrix = model.embed([each.text.strip() for each in corpus], role="passage")
    query_vectors = model.embed([each.text for each in queries], role="query")
    stored = dict(zip((each.text.strip() for each in corpus), matrix, strict=True))
    precomputed = PrecomputedEmbedder(
        model, {**stored, **dict(zip((each.text for each in queries), query_vectors, strict=True))}
    )
    floor = _make_floor([each.text for each in corpus], matrix)
    folder = setup.work / "given.clew"
    lines = []
    with Engine.open(folder, embedder=precomputed, settings=NO_CACHE) as engine:
        engine.add_documents(Document(each.id, each.text) for each in corpus)
        chunks = engine.status().chunks
        ratio = _measure_ratio(engine, queries, lambda i: floor(queries[i].text, query_vectors[i]))
        lines.append(Measurement(f"hybrid search / numpy + bm25s, {chunks:,} chunks, vector precomputed", ratio, goal))
        if ann:
            name = f"recall@10 of its approximate search, {chunks:,} chunks"
            lines.append(Measurement(name, _measure_recall(engine, queries), "≥ 0.98"))
    if ann:
        ratio = _measure_first_search(folder, precomputed, queries)
        lines.append(Measurement(f"first search after opening / a warm one, {chunks:,} chunks", ratio, "≤ 5"))
    with Engine.open(folder, embedder=PrecomputedEmbedder(model, stored), settings=NO_CACHE) as engine:
        ratio = _measure_ratio(
            engine, queries, lambda i: floor(queries[i].text, model.embed([queries[i].text], role="query")[0])
        )
        lines.append(
            Measurement(f"the same, {chunks:,} chunks, the query embedded by {model.name} on both sides", ratio)
        )
    return lines


def _measure_ratio(engine: Engine, queries: Sequence[CorpusText], floor: Callable[[int], object]) -> float:
    for each in queries[:20]:
        engine.search(each.text, k=10)
    ours, raw = time_interleaved(lambda i: engine.search(queries[i].text, k=10), floor, rounds=len(queries))
    return p50(ours) / p50(raw)


def _measure_first_search(folder: Path, embedder: Embedder, queries: Sequence[CorpusText]) -> float:
    """The first search of a folder that was just opened over the later ones, in the same process."""
    first, warm = [], []
    for start in range(0, OPENINGS * 20, 20):
        with Engine.open(folder, embedder=embedder, settings=NO_CACHE) as engine:
            times = [_time_search(engine, each.text) for each in queries[start : start + 20]]
        first.append(times[0])
        warm += times[1:]
    return p50(first) / p50(warm)


def _time_search(engine: Engine, text: str) -> float:
    started = perf_counter()
    engine.search(text, k=10)
    return perf_counter() - started


def _measure_recall(engine: Engine, queries: Sequence[CorpusText]) -> float:
    """Recall@10 of the approximate search against the exact one."""
    exact = Settings(search=SearchConfig(mode="exact", cache=0))
    shares = []
    for each in queries:
        truth = {hit.chunk.id for hit in engine.search(each.text, k=10, strategy="semantic", settings=exact)}
        found = {hit.chunk.id for hit in engine.search(each.text, k=10, strategy="semantic")}
        shares.append(len(truth & found) / len(truth))
    return fmean(shares)


def _make_floor(texts: Sequence[str], matrix: Matrix) -> Callable[[str, Vector], None]:
    """The unavoidable part of a hybrid search: fifty by exact product, fifty by bm25s, and the sum of their scores."""
    index = bm25s.BM25()
    index.index([tokenize_words(text) for text in texts], show_progress=False)

    def search(text: str, vector: Vector) -> None:
        cosines = matrix @ vector
        near = np.argpartition(-cosines, 50)[:50]
        near = near[np.argsort(-cosines[near])]
        found, scores = index.retrieve([tokenize_words(text)], k=50, show_progress=False)
        total: dict[int, float] = {}
        for ids, values in ((near, cosines[near]), (found[0], scores[0])):
            low, spread = values.min(), (values.max() - values.min()) or 1.0
            for row, value in zip(ids, values, strict=True):
                total[int(row)] = total.get(int(row), 0.0) + float(value - low) / spread
        sorted(total, key=total.__getitem__, reverse=True)[:10]

    return search
