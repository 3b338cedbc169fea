"""Two-level retrieval: documents by their summaries, chunks by themselves, both mixed into one score."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np

from clew.core.errors import NotFound, SettingsError
from clew.core.filter import Filter
from clew.core.protocols import Embedder, Mode, Store, Strategy
from clew.core.thread import THREAD_KIND
from clew.core.trace import note, step
from clew.core.types import Hit, Query, Vector
from clew.query.search.compose import deepen
from clew.query.search.evidence import EvidenceSource, assess, embed_query

MEAN_CHUNKS = 100  # of a page without a summary, whose vectors stand for it
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
    """Vector search in which a chunk gains from the similarity of its document.

    Every document of a candidate chunk counts by the cosine of its summary, 0 up to `min_similarity` if that is set; a
    document without one by its best chunk. Where no document has a summary, a page counts by the mean of its chunks.
    The `max_documents` nearest by summary add their best chunks to the candidates, whatever their rank among all.
    """
    if not 0 <= weight <= 1:
        raise SettingsError(f"search.document_weight is {weight}; it must be between 0 and 1")

    def search(query: Query) -> list[Hit]:
        with step("document_boost") as trace:
            vector = embed_query(query, embedder)
            with step("documents") as inner:
                near = dict(store.search_documents(vector, max_documents, query.where))
                inner.out = len(near)
            with step("chunks") as inner:
                hits = store.search_vectors(vector, query.k * 3, query.where, mode=mode, breadth=nprobe)
                for doc_id in near:  # one by one: in one search, one document could take the places of the others
                    hits += store.search_vectors(
                        vector, CHUNKS_PER_DOCUMENT, _inside(query.where, {doc_id}), mode=mode, breadth=nprobe
                    )
                inner.set_output(hits)
            found = {hit.chunk.doc_id for hit in hits} - near.keys()
            if found:
                near |= store.search_documents(vector, len(found), _inside(query.where, found))
            if hits and not near:
                note("documents", "no document has a summary: each page counts by the mean of its chunks")
                pages = {hit.chunk.doc_id for hit in hits if hit.document.kind != THREAD_KIND}
                near = dict(_compare_means(store, vector, sorted(pages)))
            floor = -1.0 if min_similarity is None else min_similarity
            counted = {doc_id: cosine if cosine > floor else 0.0 for doc_id, cosine in near.items()}
            boosted = _add_document_scores(hits, counted, weight)
            trace.set_output(boosted)
            return boosted

    return search


def boost_strategy(
    strategy: Strategy,
    store: Store,
    source: EvidenceSource,
    *,
    weight: float = 0.3,
    max_documents: int = 10,
    min_similarity: float | None = None,
) -> Strategy:
    """Any strategy, with a chunk gaining from the summary of its document.

    Scores of other strategies are relative and no cosines, so both sides are relevances: that of the chunk, and that
    of the summary, as if it were a chunk among the summaries of the other candidates. A document without a
    summary counts by its best chunk; `max_documents` and the minimum are as in `document_boost`.
    """
    if not 0 <= weight <= 1:
        raise SettingsError(f"search.document_weight is {weight}; it must be between 0 and 1")
    judge = assess(source, again=True)

    def search(query: Query) -> list[Hit]:
        with step("document_boost") as trace:
            query = replace(query, vector=embed_query(query, source.embedder))
            assert query.vector is not None
            with step("documents") as inner:
                near = dict(store.search_documents(query.vector, max_documents, query.where))
                inner.out = len(near)
            with step("chunks") as inner:
                hits = strategy(deepen(query))
                known = {hit.chunk.id for hit in hits}
                for doc_id in near:
                    found = store.search_vectors(query.vector, CHUNKS_PER_DOCUMENT, _inside(query.where, {doc_id}))
                    hits += [replace(hit, scores={}) for hit in found if hit.chunk.id not in known]
                hits = judge(query, hits)
                inner.set_output(hits)
            missing = {hit.chunk.doc_id for hit in hits} - near.keys()
            if missing:
                near |= store.search_documents(query.vector, len(missing), _inside(query.where, missing))
            records = {hit.document.id: hit.document for hit in hits}
            cosines = {doc_id: near[doc_id] for doc_id in records if doc_id in near}
            relevances = source.estimate_summaries(query, [records[doc_id].summary for doc_id in cosines], cosines)
            floor = -1.0 if min_similarity is None else min_similarity
            counted = {doc_id: each if cosines[doc_id] > floor else 0.0 for doc_id, each in relevances.items()}
            boosted = _mix_relevances(hits, counted, weight)
            trace.set_output(boosted)
            return boosted

    return search


def _mix_relevances(hits: Sequence[Hit], by_summary: Mapping[str, float], weight: float) -> list[Hit]:
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.chunk.doc_id] = max(hit.relevance, best.get(hit.chunk.doc_id, hit.relevance))
    scored = []
    for hit in hits:
        document = by_summary.get(hit.chunk.doc_id, best[hit.chunk.doc_id])
        score = mix_chunk_and_document_scores(hit.relevance, document, weight)
        scores = {**hit.scores, "document": document, "document_boost": score}
        scored.append(replace(hit, score=score, scores=scores))
    return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))


def _compare_means(store: Store, vector: Vector, documents: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The cosine of a vector and the mean of the first chunks of each document; none where it was dropped meanwhile."""
    for doc_id in documents:
        with suppress(NotFound):
            chunks = islice(store.chunks(doc_id), MEAN_CHUNKS)
            vectors = list(store.vectors([chunk.id for chunk in chunks]).values())
            if vectors:
                mean = np.mean(vectors, axis=0)
                yield doc_id, float(vector @ mean / (np.linalg.norm(mean) or 1.0))


def _inside(where: Filter, documents: Set[str]) -> Filter:
    return where & Filter(documents=frozenset(documents))


def _add_document_scores(hits: list[Hit], by_summary: Mapping[str, float], weight: float) -> list[Hit]:
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.chunk.doc_id] = max(hit.score, best.get(hit.chunk.doc_id, hit.score))
    scored: dict[str, Hit] = {}
    for hit in hits:
        document = by_summary.get(hit.chunk.doc_id, best[hit.chunk.doc_id])
        score = mix_chunk_and_document_scores(hit.score, document, weight)
        scores = {"semantic": hit.score, "document": document, "document_boost": score}
        scored[hit.chunk.id] = replace(hit, score=score, scores=scores, similarity=hit.score)
    return sorted(scored.values(), key=lambda hit: (-hit.score, hit.chunk.id))
