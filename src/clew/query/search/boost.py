"""Two-level retrieval: documents by their summaries, chunks by themselves, both mixed into one score."""

from collections.abc import Mapping
from dataclasses import replace

from clew.core.errors import SettingsError
from clew.core.protocols import Embedder, Mode, Store, Strategy
from clew.core.trace import step
from clew.core.types import Filter, Hit, Query
from clew.query.search.retrieve import embed_query

CHUNKS_PER_DOCUMENT = 2  # chunks that a relevant document adds, whatever their rank among all


def mix_chunk_and_document_scores(chunk: float, document: float, weight: float) -> float:
    """The weighted mean of the similarities of chunk and document: chunk · (1 - w) + document · w."""
    return chunk * (1 - weight) + document * weight


def document_boost(
    store: Store,
    embedder: Embedder,
    *,
    weight: float = 0.3,
    max_documents: int = 10,
    min_similarity: float | None = None,
    mode: Mode = "ann",
    nprobe: int | None = None,
) -> Strategy:
    """Vector search in which a chunk gains from the similarity of its document's summary.

    Of the `max_documents` nearest by summary those above `min_similarity` count (None: the embedder's own floor). The
    best chunks of these documents are candidates too, whatever their rank among all. A document without a summary is
    not punished for it: its chunks keep their score.
    """
    if not 0 <= weight <= 1:
        raise SettingsError(f"search.document_weight is {weight}; it must be between 0 and 1")
    floor = embedder.min_similarity if min_similarity is None else min_similarity

    def search(query: Query) -> list[Hit]:
        with step("document_boost") as trace:
            vector = embed_query(query, embedder)
            with step("documents") as inner:
                found = store.search_documents(vector, max_documents, query.where)
                near = {doc_id: score for doc_id, score in found if score > floor}
                inner.out = len(near)
            with step("chunks") as inner:
                hits = store.search_vectors(vector, query.k * 3, query.where, mode=mode, breadth=nprobe)
                for doc_id in near:  # one by one: in one search, one document could take the places of the others
                    inside = replace(query.where, documents=frozenset({doc_id}))
                    hits = [
                        *hits,
                        *store.search_vectors(vector, CHUNKS_PER_DOCUMENT, inside, mode=mode, breadth=nprobe),
                    ]
                inner.set_output(hits)
            boosted = _add_document_scores(hits, near, _find_summarised_documents(store, hits), weight)
            trace.set_output(boosted)
            return boosted

    return search


def _find_summarised_documents(store: Store, hits: list[Hit]) -> frozenset[str]:
    """The ids of those documents of the hits that have a summary."""
    ids = frozenset(hit.chunk.doc_id for hit in hits)
    return frozenset(record.id for record in store.documents(Filter(documents=ids)) if record.summary) if ids else ids


def _add_document_scores(
    hits: list[Hit], near: Mapping[str, float], summarised: frozenset[str], weight: float
) -> list[Hit]:
    scored: dict[str, Hit] = {}
    for hit in hits:
        chunk, document = hit.chunk, near.get(hit.chunk.doc_id, 0.0)
        score = mix_chunk_and_document_scores(hit.score, document, weight) if chunk.doc_id in summarised else hit.score
        scores = {"semantic": hit.score, "document": document, "document_boost": score}
        scored[chunk.id] = replace(hit, score=score, scores=scores)
    return sorted(scored.values(), key=lambda hit: (-hit.score, hit.chunk.id))
