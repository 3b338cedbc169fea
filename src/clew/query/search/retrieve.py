"""The first stage: the two strategies that ask the store, each for `query.depth` chunks."""

from clew.core.protocols import Embedder, Mode, Store, Strategy
from clew.core.text import terms
from clew.core.trace import step, trace_step
from clew.core.types import Hit, Query


def semantic(
    store: Store,
    embedder: Embedder,
    *,
    mode: Mode = "ann",
    nprobe: int | None = None,
    min_similarity: float | None = None,
) -> Strategy:
    """Chunks near the query in meaning, none whose cosine is below `min_similarity` (None: the embedder's own)."""
    floor = embedder.min_similarity if min_similarity is None else min_similarity

    @trace_step("semantic")
    def search(query: Query) -> list[Hit]:
        vector = query.vector
        if vector is None:
            with step("embed"):
                vector = embedder.embed([query.text], role="query")[0]
        found = store.search_vectors(vector, query.depth, query.where, mode=mode, breadth=nprobe)
        return [hit.with_score(hit.score, "semantic") for hit in found if hit.score >= floor]

    return search


def lexical(store: Store, *, language: str = "auto") -> Strategy:
    """Chunks that share the query's words, by BM25."""

    @trace_step("lexical")
    def search(query: Query) -> list[Hit]:
        found = store.search_terms(terms(query.text, language=language, asked=True), query.depth, query.where)
        return [hit.with_score(hit.score, "lexical") for hit in found]

    return search
