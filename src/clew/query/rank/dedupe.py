"""Each chunk once, and no more of a document than is wanted."""

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from clew.core.errors import SettingsError
from clew.core.protocols import Step
from clew.core.trace import trace_step
from clew.core.types import Hit, Query

log = logging.getLogger("clew")


def by_chunk(hits: list[Hit]) -> list[Hit]:
    """The hits in their order with each chunk only once, where it stood first, under its best score."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        known = kept.get(hit.chunk.id)
        if known is None or hit.score > known.score:
            kept[hit.chunk.id] = hit
    return list(kept.values())


def by_document(n: int = 1) -> Step:
    """A step that keeps, in their order, the n hits of each document that have the best scores, each chunk once."""
    _check(n)

    @trace_step("by_document")
    def keep(_: Query, hits: list[Hit]) -> list[Hit]:
        once = by_chunk(hits)
        kept: set[str] = set()
        taken: dict[str, int] = {}
        for hit in sorted(once, key=lambda hit: -hit.score):  # stable: of equal ones the first given
            if taken.get(hit.chunk.doc_id, 0) < n:
                taken[hit.chunk.doc_id] = taken.get(hit.chunk.doc_id, 0) + 1
                kept.add(hit.chunk.id)
        return [hit for hit in once if hit.chunk.id in kept]

    return keep


def deduplicate_by_document(results: Sequence[Mapping[str, Any]], n: int = 1) -> list[dict[str, Any]]:
    """The n rows of greatest `similarity` of each `document_id`, best first, documents in the order they were seen in.

    A row without a document is left out, one without a similarity has 0. Rows of one document with the same
    `chunk_index`, or else the same `id`, are one chunk and count once.
    """
    _check(n)
    documents: dict[Hashable, dict[Hashable, Mapping[str, Any]]] = {}
    for place, row in enumerate(results):
        document = row.get("document_id")
        if document is None or document == "":
            continue
        chunks = documents.setdefault(document, {})
        chunk = _chunk_of(row, place)
        if chunk not in chunks or _similarity(row) > _similarity(chunks[chunk]):
            chunks[chunk] = row
    kept = [
        dict(row) for chunks in documents.values() for row in sorted(chunks.values(), key=_similarity, reverse=True)[:n]
    ]
    log_kept(len(results), len(kept), len(documents), n)
    return kept


def log_kept(results: int, rows: int, documents: int, n: int) -> None:
    """Writes how many rows of how many documents are left; with n over 1 the two differ."""
    log.debug("Deduplication: %d results → %d unique documents (n=%d per doc), %d rows", results, documents, n, rows)


def _chunk_of(row: Mapping[str, Any], place: int) -> Hashable:
    for name in ("chunk_index", "id"):
        if row.get(name) is not None:
            return name, row[name]
    return "row", place


def _similarity(row: Mapping[str, Any]) -> float:
    value = row.get("similarity")
    return 0.0 if value is None or value != value else float(value)


def _check(n: int) -> None:
    if n < 1:
        raise SettingsError(f"n is {n}; at least 1 hit of a document must be kept")
