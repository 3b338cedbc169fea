"""The last stages of the read path: making a context of fifty hits over the hybrid search that found them."""

from collections.abc import Mapping, Sequence

from benchmarks import Line, Setup, interleaved, p50
from benchmarks.corpus import scifact
from clew import Engine, Settings, drivers
from clew.core.settings import EmbedderConfig, SearchConfig
from clew.core.types import Context, Document, DocumentRecord, Hit, Query
from clew.query.context.assemble import assemble
from clew.query.context.format import RENDERERS

QUERIES = 200
ABSTRACTS = 2300  # about 5,000 chunks
HITS = 50


def context_over_search(setup: Setup) -> Sequence[Line]:
    """On abstracts of SciFact: with the query's vector made each time, and with it known; records read, and given."""
    corpus, queries = scifact(setup)
    asked = [each.text for each in queries[:QUERIES]]
    settings = Settings(search=SearchConfig(cache=0))
    embedder = drivers.embedder(EmbedderConfig(name="wordllama"))
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add_documents(Document(each.id, each.text) for each in corpus[:ABSTRACTS])
        found = {text: engine.search(text, k=HITS) for text in asked}  # and the vectors are known from here on
        known = {text: engine.records(hits) for text, hits in found.items()}
        times = interleaved(
            lambda i: engine.search(asked[i], k=HITS),
            lambda i: embedder.embed([asked[i]], role="query"),
            lambda i: _made(engine, found[asked[i]], known[asked[i]]),
            lambda i: _made(engine, found[asked[i]], engine.records(found[asked[i]])),
            rounds=len(asked),
        )
        search, embedding, given, read = map(p50, times)
        chunks = engine.status().chunks
    name = f"a context of {HITS} hits / the search that found them, {chunks:,} chunks"
    return [
        Line(f"{name}, vector given", given / search, "≤ 0.1"),
        Line("the same, the query embedded too (wordllama)", given / (search + embedding), "≤ 0.1"),
        Line("the same, the records of the documents read too", read / (search + embedding)),
    ]


def _made(engine: Engine, hits: Sequence[Hit], records: Mapping[str, DocumentRecord]) -> Context:
    return assemble(
        Query("-"),
        hits,
        records,
        read=engine._store.document,
        chunks=engine._store.chunks,
        tokens=2000,
        render=RENDERERS["numbered"],
    )
