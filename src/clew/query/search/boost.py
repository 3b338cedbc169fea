"""A strategy of two levels: documents by their summaries, chunks by themselves, and both in one score."""

from collections.abc import Mapping
from dataclasses import replace

from clew.core.errors import SettingsError
from clew.core.protocols import Embedder, Mode, Store, Strategy
from clew.core.trace import step, trace_step
from clew.core.types import Filter, Hit, Query

EACH = 2  # chunks that a relevant document brings in, wherever they stand among all


def boosted(chunk: float, document: float, weight: float) -> float:
    """The share of the chunk's similarity and the share of its document's: chunk · (1 - w) + document · w."""
    return chunk * (1 - weight) + document * weight


def document_boost(
    store: Store,
    embedder: Embedder,
    *,
    weight: float = 0.3,
    documents: int = 10,
    min_similarity: float | None = None,
    mode: Mode = "ann",
    nprobe: int | None = None,
) -> Strategy:
    """Chunks whose documents speak of the query as a whole come before chunks that only sound like it.

    Of the `documents` nearest by summary those above `min_similarity` count (None: the embedder's own floor). The best
    chunks of these documents are asked for too, wherever they stand among all. A document that has no summary is not
    punished for it: its chunks keep their score.
    """
    if not 0 <= weight <= 1:
        raise SettingsError(f"search.document_weight is {weight}; it must be between 0 and 1")
    floor = embedder.min_similarity if min_similarity is None else min_similarity

    @trace_step("document_boost")
    def search(query: Query) -> list[Hit]:
        vector = query.vector
        if vector is None:
            with step("embed"):
                vector = embedder.embed([query.text], role="query")[0]
        with step("documents") as trace:
            found = store.search_documents(vector, documents, query.where)
            near = {doc_id: score for doc_id, score in found if score > floor}
            trace.out = len(near)
        with step("chunks") as trace:
            hits = store.search_vectors(vector, query.k * 3, query.where, mode=mode, breadth=nprobe)
            for doc_id in near:  # one by one: together, the best document could lose its place to the others
                inside = replace(query.where, documents=frozenset({doc_id}))
                hits = [*hits, *store.search_vectors(vector, EACH, inside, mode=mode, breadth=nprobe)]
            trace.set_output(hits)
        return _scored(hits, near, _summarised(store, hits), weight)

    return search


def _summarised(store: Store, hits: list[Hit]) -> frozenset[str]:
    """The documents of the hits that have a summary."""
    ids = frozenset(hit.chunk.doc_id for hit in hits)
    return frozenset(each.id for each in store.documents(Filter(documents=ids)) if each.summary) if ids else ids


def _scored(hits: list[Hit], near: Mapping[str, float], summarised: frozenset[str], weight: float) -> list[Hit]:
    scored: dict[str, Hit] = {}
    for hit in hits:
        chunk, document = hit.chunk, near.get(hit.chunk.doc_id, 0.0)
        score = boosted(hit.score, document, weight) if chunk.doc_id in summarised else hit.score
        scores = {"semantic": hit.score, "document": document, "document_boost": score}
        scored[chunk.id] = Hit(chunk, score, scores)
    return sorted(scored.values(), key=lambda hit: (-hit.score, hit.chunk.id))
