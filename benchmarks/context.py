"""Context assembly: building a context of fifty hits over the hybrid search that found them."""

from collections.abc import Sequence

from benchmarks import Measurement, Setup, p50, time_interleaved
from benchmarks.corpus import load_scifact
from clew import Engine, Settings, drivers
from clew.core.cite import Context
from clew.core.settings import EmbedderConfig, SearchConfig
from clew.core.types import Document, Hit, Query
from clew.query.context.assemble import build_context
from clew.query.context.format.renderers import RENDERERS

QUERIES = 200
ABSTRACTS = 2300  # about 5,000 chunks
HITS = 50


def measure_context(setup: Setup) -> Sequence[Measurement]:
    """On abstracts of SciFact, with the query vector computed each time and with it cached."""
    corpus, queries = load_scifact(setup)
    texts = [each.text for each in queries[:QUERIES]]
    settings = Settings(search=SearchConfig(cache=0))
    embedder = drivers.make_embedder(EmbedderConfig(name="wordllama"))
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add_documents(Document(each.id, each.text) for each in corpus[:ABSTRACTS])
        found = {text: engine.search(text, k=HITS) for text in texts}  # this also caches the query vectors
        times = time_interleaved(
            lambda i: engine.search(texts[i], k=HITS),
            lambda i: embedder.embed([texts[i]], role="query"),
            lambda i: _make_context(engine, found[texts[i]]),
            rounds=len(texts),
        )
        search, embedding, building = map(p50, times)
        chunks = engine.status().chunks
    name = f"a context of {HITS} hits / the search that found them, {chunks:,} chunks"
    return [
        Measurement(f"{name}, vector cached", building / search, "≤ 0.1"),
        Measurement(
            "the same, with the query embedded each time (wordllama)", building / (search + embedding), "≤ 0.1"
        ),
    ]


def _make_context(engine: Engine, hits: Sequence[Hit]) -> Context:
    return build_context(
        Query("-"),
        hits,
        {hit.document.id: hit.document for hit in hits},
        read=engine.opened.store.document,
        chunks=engine.opened.store.chunks,
        tokens=2000,
        render=RENDERERS["numbered"],
    )
