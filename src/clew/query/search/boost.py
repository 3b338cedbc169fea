"""Two-level retrieval: documents by their summaries, chunks by their own text, both mixed into one score."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np

from clew.core.errors import NotFound, SettingsError
from clew.core.filter import Filter
from clew.core.protocols import SearchableStore, Strategy
from clew.core.settings import SearchConfig
from clew.core.thread import THREAD_KIND
from clew.core.trace import note, step
from clew.core.types import Hit, Query, Vector
from clew.query.search.compose import deepen
from clew.query.search.evidence import EvidenceSource, assess, embed_query

MEAN_CHUNKS = 100  # first chunks whose mean vector stands for a page without a summary
MAX_DOCUMENTS = 10  # documents to find by their summaries
CHUNKS_PER_DOCUMENT = 2  # chunks that a relevant document adds, whatever their rank among all


def mix_chunk_and_document_scores(chunk: float, document: float, weight: float) -> float:
    """Return the weighted mean of the similarities of chunk and document: chunk · (1 - w) + document · w."""
    return chunk * (1 - weight) + document * weight


def document_boost(
    store: SearchableStore, source: EvidenceSource, config: SearchConfig, *, over: Strategy | None = None
) -> Strategy:
    """Make a strategy that mixes document similarity into chunk scores, of a vector search or of the strategy `over`.

    The similarity of a document is the cosine of its summary, or 0 if that is not above `document_min_similarity`. A
    document without a summary counts as its best chunk; if no document has one, pages count as the mean of their
    chunks. The documents with the nearest summaries add their best chunks to the candidates, whatever the rank of those
    chunks.

    Scores of another strategy are not cosines, so with `over` both sides are relevances: that of the chunk, and that of
    the summary, judged as if it were a chunk among the summaries of the other candidates.
    """
    weight, floor = config.document_weight, config.document_min_similarity
    if not 0 <= weight <= 1:
        raise SettingsError(f"search.document_weight is {weight}; it must be between 0 and 1")
    judge = assess(source, again=True)

    def search(query: Query) -> list[Hit]:
        with step("document_boost") as trace:
            query = replace(query, vector=(vector := embed_query(query, source.embedder)))

            def search_vectors(k: int, where: Filter) -> list[Hit]:
                found = store.search_vectors(vector, k, where, mode=config.mode, breadth=config.nprobe)
                return [replace(hit, scores={"semantic": hit.score}, similarity=hit.score) for hit in found]

            with step("documents") as inner:
                near = dict(store.search_documents(vector, MAX_DOCUMENTS, query.where))
                inner.out = len(near)
            with step("chunks") as inner:
                first = over(deepen(query)) if over else search_vectors(query.k * 3, query.where)
                found = {hit.chunk.id: hit for hit in first}
                for doc_id in near:  # one search each: in a shared one, a document could crowd out others
                    for hit in search_vectors(CHUNKS_PER_DOCUMENT, query.where & Filter(documents={doc_id})):
                        found.setdefault(hit.chunk.id, hit)
                hits = judge(query, list(found.values())) if over else list(found.values())
                inner.set_output(hits)
            records = {hit.chunk.doc_id: hit.document for hit in hits}
            if missing := records.keys() - near.keys():
                near |= store.search_documents(vector, len(missing), query.where & Filter(documents=missing))
            if hits and not near and not over:
                note("documents", "no document has a summary: each page counts by the mean of its chunks")
                pages = sorted(id_ for id_, record in records.items() if record.kind != THREAD_KIND)
                near = dict(_compare_means(store, vector, pages))
            cosines = {doc_id: near[doc_id] for doc_id in records if doc_id in near}
            values = cosines
            if over:
                values = source.estimate_summaries(query, [records[doc_id].summary for doc_id in cosines], cosines)
            counted = {id_: values[id_] if floor is None or cosines[id_] > floor else 0.0 for id_ in cosines}
            chunks = [(hit.relevance if over else hit.score, hit) for hit in hits]
            boosted = _add_document_scores(chunks, counted, weight)
            trace.set_output(boosted)
            return boosted

    return search


def _compare_means(store: SearchableStore, vector: Vector, documents: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the cosine of a vector with the mean of each document's first chunks; skip dropped documents."""
    for doc_id in documents:
        with suppress(NotFound):
            chunks = islice(store.chunks(doc_id), MEAN_CHUNKS)
            vectors = list(store.vectors([chunk.id for chunk in chunks]).values())
            if vectors:
                mean = np.mean(vectors, axis=0)
                yield doc_id, float(vector @ mean / (np.linalg.norm(mean) or 1.0))


def _add_document_scores(
    hits: Sequence[tuple[float, Hit]], by_document: Mapping[str, float], weight: float
) -> list[Hit]:
    best: dict[str, float] = {}
    for score, hit in hits:
        best[hit.chunk.doc_id] = max(score, best.get(hit.chunk.doc_id, score))
    scored = []
    for own, hit in hits:
        document = by_document.get(hit.chunk.doc_id, best[hit.chunk.doc_id])
        score = mix_chunk_and_document_scores(own, document, weight)
        scored.append(replace(hit, score=score, scores={**hit.scores, "document": document, "document_boost": score}))
    return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))
