"""First-stage retrieval: the two strategies that query the store, each for `query.depth` chunks."""

from clew.core.protocols import Embedder, Mode, Store, Strategy
from clew.core.trace import step
from clew.core.types import Hit, Query, Vector
from clew.query.search.analyse import QueryAnalyser


def semantic(
    store: Store,
    embedder: Embedder,
    *,
    mode: Mode = "ann",
    nprobe: int | None = None,
    min_similarity: float | None = None,
) -> Strategy:
    """Vector search: chunks by cosine to the query, none below `min_similarity`."""

    def search(query: Query) -> list[Hit]:
        with step("semantic") as trace:
            vector = embed_query(query, embedder)
            found = store.search_vectors(vector, query.depth, query.where, mode=mode, breadth=nprobe)
            hits = [
                Hit(hit.chunk, hit.document, hit.score, {"semantic": hit.score}, similarity=hit.score)
                for hit in found
                if min_similarity is None or hit.score >= min_similarity
            ]
            trace.set_output(hits)
            return hits

    return search


def lexical(store: Store, analyser: QueryAnalyser) -> Strategy:
    """Keyword search: chunks that share terms with the query, by BM25."""

    def search(query: Query) -> list[Hit]:
        with step("lexical") as trace:
            trace.notes["languages"] = ", ".join(analyser.choose_languages(query.text)[0])
            terms = analyser.extract_terms(query.text)
            found = store.search_terms(terms, query.depth, query.where)
            hits = [hit.with_score(hit.score, "lexical") for hit in found]
            trace.set_output(hits)
            return hits

    return search


def embed_query(query: Query, embedder: Embedder) -> Vector:
    """The vector of the query: the one it carries, or a new one."""
    if query.vector is not None:
        return query.vector
    with step("embed"):
        vector: Vector = embedder.embed([query.text], role="query")[0]
        return vector
