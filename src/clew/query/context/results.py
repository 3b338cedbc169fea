"""Results of the merger and the formatter (Hits or rows) as Hits; and messages rebuilt from their chunks."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

from clew.core.ids import digest
from clew.core.time import to_timestamp
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.rank.dedupe import check_limit, log_deduplication

Row = Mapping[str, Any]  # text, source, heading_path, similarity, metadata
Result = Hit | Row
HEADING_SEPARATOR = " > "
START_KEYS = ("start", "char_start", "start_char", "start_index", "start_offset")
END_KEYS = ("end", "char_end", "end_char", "end_index", "end_offset")


def result_to_hit(result: Result) -> Hit:
    """Convert a result to a Hit; a row has `text, source, heading_path, similarity, metadata`.

    A `start` in the metadata or the row gives the hit a position in the source, unless an `end` does not fit the text.
    `chunk_index`, or else `line_number`, is its index in the document. The `similarity` is its score too. Equal rows
    give equal hits.
    """
    if isinstance(result, Hit):
        return result
    if not isinstance(result, Mapping):
        raise TypeError(f"a result is a {type(result).__name__}; it must be a Hit or a mapping with a text")
    if not isinstance(result.get("text"), str):
        raise TypeError("a result row has no text; give text, source, heading_path, similarity and metadata")
    meta: Row = result.get("metadata") or {}
    text, source = result["text"], str(result.get("source") or meta.get("source") or "")
    fields = {**result, **meta}
    index = _find_first_int(fields, ("chunk_index", "line_number"), -1)
    start = _find_first_int(fields, START_KEYS, -1)
    end = _find_first_int(fields, END_KEYS, start + len(text))
    if end - start != len(text) or start < 0:
        start = end = 0
    headings = parse_headings(result)
    chunk = Chunk(
        id=digest("row", source, *headings, str(index), str(start), str(end), text)[:16],
        doc_id=source,
        index=index,
        total=max(_parse_int(meta.get("total_chunks"), 0), index + 1),
        text=text,
        start=start,
        end=end,
        headings=headings,
        meta=dict(meta),
    )
    similarity = _parse_similarity(result.get("similarity"))
    return Hit(chunk, DocumentRecord(source, uri=source), score=similarity, similarity=similarity)


def parse_headings(row: Row) -> tuple[str, ...]:
    """Parse the heading path of a row: the metadata's `headings`, or else `heading_path`, a list or a text "A > B"."""
    meta: Row = row.get("metadata") or {}
    for given in (meta.get("headings"), row.get("heading_path"), meta.get("heading_path")):
        if isinstance(given, str) and given.strip():
            return tuple(part.strip() for part in given.split(HEADING_SEPARATOR) if part.strip())
        if isinstance(given, Sequence) and not isinstance(given, str) and given:
            return tuple(str(each) for each in given if str(each).strip())
    return ()


def has_position(chunk: Chunk) -> bool:
    """Return whether the position of the chunk in its source is known."""
    return chunk.end - chunk.start == len(chunk.text)


def _find_first_int(fields: Row, names: Sequence[str], default: int) -> int:
    """Find the first whole number under one of the names."""
    return next((value for name in names if (value := _parse_int(fields.get(name), default)) != default), default)


def _parse_int(value: object, default: int) -> int:
    if isinstance(value, bool) or value is None:
        return default
    if isinstance(value, str):
        return int(value) if value.strip().isdecimal() else default
    return int(float(value)) if isinstance(value, Real) and isfinite(value) else default


def _parse_similarity(value: object) -> float:
    """Parse a similarity as a float; 0 where it is missing or not a finite number."""
    return float(value) if isinstance(value, Real) and isfinite(value) else 0.0


def deduplicate_by_document(results: Iterable[Mapping[str, Any]], n: int = 1) -> list[dict[str, Any]]:
    """Keep the n rows of greatest `similarity` per `document_id`, best first, documents in order of appearance.

    A row without a document is dropped; a row without a similarity counts as 0. Rows of one document with the same
    `chunk_index`, or else the same `id`, are one chunk and count once.
    """
    check_limit(n)
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


def _chunk_key(row: Mapping[str, Any], position: int) -> Hashable:
    for name in ("chunk_index", "id"):
        if row.get(name) is not None:
            return name, row[name]
    return "row", position


def _read_similarity(row: Mapping[str, Any]) -> float:
    value = row.get("similarity")
    return 0.0 if value is None or value != value else float(value)


def group_by_message(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Return the hits of each message by its id, the best first; chunks of no message are left out."""
    messages: dict[str, list[Hit]] = {}
    for hit in hits:
        if name := hit.chunk.meta.get("message"):
            messages.setdefault(str(name), []).append(hit)
    return {name: sorted(parts, key=lambda hit: (-hit.score, hit.chunk.id)) for name, parts in messages.items()}


def rebuild_message_text(chunks: Iterable[Chunk]) -> str:
    """Return the text of a message from its chunks in any order; overlaps appear once, missing chunks are skipped."""
    text, reach = "", -1
    for chunk in sorted(chunks, key=lambda each: (int(each.meta.get("chunk_index", each.index)), each.start, each.id)):
        known = has_position(chunk) and reach >= 0
        if known and chunk.end <= reach:
            continue
        own = chunk.text[reach - chunk.start :] if known and chunk.start < reach else chunk.text
        joint = "" if not text or (known and chunk.start <= reach) else " "
        text += joint + own
        reach = chunk.end if has_position(chunk) else -1
    return text


def rebuild_messages(chunks: Iterable[Chunk]) -> list[str]:
    """Rebuild the text of each message of the chunks, oldest first; messages without a time come first."""
    parts: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        if name := chunk.meta.get("message"):
            parts.setdefault(str(name), []).append(chunk)
    in_order = sorted(parts, key=lambda name: (to_timestamp(parts[name][0].at) or 0.0, name))
    return [rebuild_message_text(parts[name]) for name in in_order]
