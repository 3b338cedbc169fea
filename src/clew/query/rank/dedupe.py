"""Deduplication of hits: by chunk id, and by the number of chunks per document."""

import logging
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from clew.core.errors import SettingsError
from clew.core.protocols import Step
from clew.core.types import Hit, Query
from clew.query.rank.calibrate import get_relevance

log = logging.getLogger("clew")


def dedupe_chunks(hits: list[Hit]) -> list[Hit]:
    """The hits in their order, each chunk once: at its first position, with its greatest relevance."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        known = kept.get(hit.chunk.id)
        if known is None or get_relevance(hit) > get_relevance(known):
            kept[hit.chunk.id] = hit
    return list(kept.values())


def limit_per_document(n: int = 1) -> Step:
    """A step that keeps the n most relevant hits of each document, in their order, each chunk once."""
    _check_limit(n)

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


def deduplicate_by_document(results: Iterable[Mapping[str, Any]], n: int = 1) -> list[dict[str, Any]]:
    """The n rows of greatest `similarity` of each `document_id`, best first, documents in order of first appearance.

    A row without a document is dropped, one without a similarity counts as 0. Rows of one document with the same
    `chunk_index`, or else the same `id`, are one chunk and count once.
    """
    _check_limit(n)
    documents: dict[Hashable, dict[Hashable, Mapping[str, Any]]] = {}
    rows = list(results)
    for position, row in enumerate(rows):
        document = row.get("document_id")
        if document is None or document == "":
            continue
        chunks = documents.setdefault(document, {})
        chunk = _chunk_key(row, position)
        if chunk not in chunks or _read_similarity(row) > _read_similarity(chunks[chunk]):
            chunks[chunk] = row
    best_first = (sorted(chunks.values(), key=_read_similarity, reverse=True) for chunks in documents.values())
    kept = [dict(row) for best in best_first for row in best[:n]]
    log_deduplication(len(rows), len(kept), len(documents), n)
    return kept


def log_deduplication(results: int, rows: int, documents: int, max_per_document: int) -> None:
    """Logs how many rows of how many documents are left; the two differ where several per document are kept."""
    log.debug(
        "Deduplication: %d results → %d unique documents (n=%d per doc), %d rows",
        results,
        documents,
        max_per_document,
        rows,
    )


def _chunk_key(row: Mapping[str, Any], position: int) -> Hashable:
    for name in ("chunk_index", "id"):
        if row.get(name) is not None:
            return name, row[name]
    return "row", position


def _read_similarity(row: Mapping[str, Any]) -> float:
    value = row.get("similarity")
    return 0.0 if value is None or value != value else float(value)


def _check_limit(n: int) -> None:
    if n < 1:
        raise SettingsError(f"n is {n}; it must be at least 1 hit per document")
