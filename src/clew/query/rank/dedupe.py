"""Deduplication and diversity of hits: by chunk and document, near-duplicates, relevance against novelty, coverage."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan

import numpy as np

from clew.core.errors import SettingsError
from clew.core.protocols import Step
from clew.core.types import Hit, Matrix, Query, Vector
from clew.query.rank.calibrate import get_relevance, sort_by_relevance

FetchVectors = Callable[[Sequence[str]], Mapping[str, Vector]]  # of chunks by id; a missing one is left out

DUPLICATE_COSINE = 0.92  # from which two chunks count as duplicates
DEFAULT_BALANCE = 0.7


def drop_near_duplicates(fetch_vectors: FetchVectors, *, threshold: float = DUPLICATE_COSINE) -> Step:
    """Make a step that drops each hit whose cosine to a more relevant kept hit reaches the threshold."""
    if not -1 <= threshold <= 1:
        raise SettingsError(f"threshold is {threshold}; it must be between -1 and 1")

    def by_meaning(_: Query, hits: list[Hit]) -> list[Hit]:
        cosines = _compute_cosines(hits, fetch_vectors)
        kept: list[int] = []
        for position in sorted(range(len(hits)), key=lambda position: -get_relevance(hits[position])):
            # A chunk without a vector has cosine 0 to all; the rounding of float32 must not decide.
            if not kept or cosines[position, kept].max() < threshold - 1e-6:
                kept.append(position)
        return [hits[position] for position in sorted(kept)]

    return by_meaning


def mmr(fetch_vectors: FetchVectors, *, balance: float = DEFAULT_BALANCE) -> Step:
    """Make a step that orders hits by marginal relevance, λ being `balance`: λ · similarity - (1 - λ) · redundancy.

    The similarity of a hit is its cosine with the query (its score where none was computed), its redundancy the
    highest cosine with the hits before it. The hits keep their scores; the marginal relevance is added to `scores`.
    Carbonell and Goldstein, "The Use of MMR", 1998.
    """
    if not 0 <= balance <= 1:
        raise SettingsError(f"mmr is {balance}; it must be between 0 and 1")

    def mmr(_: Query, hits: list[Hit]) -> list[Hit]:
        cosines = _compute_cosines(hits, fetch_vectors)
        relevance = balance * np.array([hit.score if isnan(hit.similarity) else hit.similarity for hit in hits])
        redundancy = np.zeros(len(hits))  # the highest cosine to a chosen hit; none is chosen yet
        remaining = list(range(len(hits)))
        chosen: list[Hit] = []
        while remaining:
            values = relevance[remaining] - (1 - balance) * redundancy[remaining]
            at = int(np.argmax(values))
            position = remaining.pop(at)
            hit = hits[position]
            redundancy = np.maximum(redundancy, cosines[position]) if chosen else cosines[position]
            chosen.append(replace(hit, scores={**hit.scores, "mmr": float(values[at])}))
        return chosen

    return mmr


def order_by_coverage(hits: Sequence[Hit], rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Put the best hit of each ranking first, then the others; both by relevance.

    A hit that is best in two rankings counts for both; their next hits stay among the others. The best remaining hit of
    a document stands in for a removed one. The hits keep their scores.
    """
    by_chunk = {hit.chunk.id: hit for hit in hits}
    by_document: dict[str, Hit] = {}
    for hit in sort_by_relevance(hits):
        by_document.setdefault(hit.chunk.doc_id, hit)
    best: dict[str, Hit] = {}
    for ranking in rankings:
        for hit in sort_by_relevance(ranking)[:1]:
            chosen = by_chunk.get(hit.chunk.id) or by_document.get(hit.chunk.doc_id)
            if chosen is not None:
                best[chosen.chunk.id] = chosen
    others = [hit for hit in hits if hit.chunk.id not in best]
    return [*sort_by_relevance(best.values()), *sort_by_relevance(others)]


def _compute_cosines(hits: Sequence[Hit], fetch_vectors: FetchVectors) -> Matrix:
    """Compute the cosine of each hit with each; 0 where a vector is missing."""
    known = fetch_vectors([hit.chunk.id for hit in hits]) if hits else {}
    width = len(next(iter(known.values()))) if known else 1
    blank = np.zeros(width, np.float32)
    rows = np.array([known.get(hit.chunk.id, blank) for hit in hits], np.float32).reshape(len(hits), width)
    return np.asarray(rows @ rows.T, np.float32)


log = logging.getLogger("clew")


def dedupe_chunks(hits: list[Hit]) -> list[Hit]:
    """Keep the hits in their order, each chunk once: at its first position, with its greatest relevance."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        known = kept.get(hit.chunk.id)
        if known is None or get_relevance(hit) > get_relevance(known):
            kept[hit.chunk.id] = hit
    return list(kept.values())


def limit_per_document(n: int = 1) -> Step:
    """Make a step that keeps the n most relevant hits of each document, in their order, each chunk once."""
    check_limit(n)

    def by_document(_: Query, hits: list[Hit]) -> list[Hit]:
        unique = dedupe_chunks(hits)
        kept: set[str] = set()
        counts: dict[str, int] = {}
        for hit in sorted(unique, key=lambda hit: -get_relevance(hit)):  # stable: of equal ones the first given
            if counts.get(hit.chunk.doc_id, 0) < n:
                counts[hit.chunk.doc_id] = counts.get(hit.chunk.doc_id, 0) + 1
                kept.add(hit.chunk.id)
        return [hit for hit in unique if hit.chunk.id in kept]

    return by_document


def log_deduplication(results: int, rows: int, documents: int, max_per_document: int) -> None:
    """Log how many rows of how many documents are left; the numbers differ if a document keeps several."""
    log.debug(
        "Deduplication: %d results → %d unique documents (n=%d per doc), %d rows",
        results,
        documents,
        max_per_document,
        rows,
    )


def check_limit(n: int) -> None:
    """Raise SettingsError unless n is at least 1."""
    if n < 1:
        raise SettingsError(f"n is {n}; it must be at least 1 hit per document")
