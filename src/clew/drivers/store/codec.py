"""Chunks, records and sections as database columns and back, the same in SQLite, PostgreSQL and exports."""

import json
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from clew.core.time import from_iso, to_iso
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Meta, Section

CHUNK_COLUMNS = "c.id, d.id, c.idx, d.chunks, c.text, c.start, c.stop, c.headings, c.context, c.at, c.meta"
RECORD_COLUMNS = (
    "d.id, d.title, d.uri, d.kind, d.hash, d.stamp, d.chars, d.chunks, d.summary, d.meta, d.access, d.summary_by,"
    " d.created, d.updated"
)
HIT_COLUMNS = f"{CHUNK_COLUMNS}, {RECORD_COLUMNS}"

_CHUNK_WIDTH = CHUNK_COLUMNS.count(",") + 1
_DECODER = json.JSONDecoder()  # json.loads without its checks of the argument


def to_json(value: Any) -> str:
    """Compact JSON; a set becomes a list, and what JSON cannot represent its text."""
    return _ENCODER.encode(value)


def meta_to_json(meta: Meta) -> str:
    """The meta as a JSON object."""
    return to_json(dict(meta)) if meta else "{}"


def headings_to_json(headings: Sequence[str]) -> str:
    """Headings as a JSON list."""
    return to_json(headings) if headings else "[]"


def access_to_json(access: Set[str] | None) -> str | None:
    """Labels as a JSON list; None stays None."""
    return None if access is None else to_json(sorted(access))


def parse_access(text: str | None) -> frozenset[str] | None:
    """The labels of a JSON list; None stays None."""
    return None if text is None else frozenset(json.loads(text))


def times_to_text(document: Document, created: str | None) -> tuple[str, str]:
    """When a document was written first and last, as ISO 8601: as it says itself, else kept (`created`) or now."""
    now = datetime.now(UTC)
    return to_iso(document.created) or created or now.isoformat(), to_iso(document.updated) or now.isoformat()


def sections_to_json(sections: Sequence[Section]) -> str:
    """Sections as a JSON list of lists."""
    return to_json([_section_to_list(section) for section in sections])


def _section_to_list(of: Section) -> list[Any]:
    columns = [of.start, of.end, of.label, of.parent, of.id, of.author, to_iso(of.at), of.page, of.guessed]
    return columns if of.access is None else [*columns, sorted(of.access)]


def parse_sections(texts: Iterable[str]) -> tuple[Section, ...]:
    """The sections of all pieces of a document, in order."""
    return tuple(
        Section(
            start,
            end,
            label,
            parent,
            section_id,
            author,
            from_iso(at),
            page,
            *guessed[:1],
            *map(frozenset, guessed[1:]),
        )
        for text in texts
        for start, end, label, parent, section_id, author, at, page, *guessed in json.loads(text)
    )


def parse_chunk(columns: Sequence[Any]) -> Chunk:
    """A chunk from CHUNK_COLUMNS."""
    chunk_id, doc_id, index, total, text, start, end, headings, context, at, meta = columns
    return Chunk(
        chunk_id,
        doc_id,
        index,
        total,
        text,
        start,
        end,
        _parse_headings(headings) if headings != "[]" else (),
        context,
        datetime.fromisoformat(at) if at else None,
        _DECODER.raw_decode(meta)[0] if meta != "{}" else {},
    )


def parse_record(columns: Sequence[Any]) -> DocumentRecord:
    """A document's record from RECORD_COLUMNS."""
    doc_id, title, uri, kind, digest, stamp, chars, chunks, summary, meta, access, summary_by, created, updated = (
        columns
    )
    return DocumentRecord(
        doc_id,
        title,
        uri,
        kind,
        digest,
        stamp,
        chars,
        chunks,
        summary,
        _DECODER.raw_decode(meta)[0] if meta != "{}" else {},
        parse_access(access),
        summary_by,
        from_iso(created),
        from_iso(updated),
    )


def parse_hits(rows: Iterable[tuple[Sequence[Any], float]]) -> list[Hit]:
    """Hits from HIT_COLUMNS and a score each; hits of one document share its record."""
    records, hits = dict[str, DocumentRecord](), list[Hit]()
    for columns, score in rows:
        chunk = parse_chunk(columns[:_CHUNK_WIDTH])
        record = records.get(chunk.doc_id) or records.setdefault(chunk.doc_id, parse_record(columns[_CHUNK_WIDTH:]))
        hits.append(Hit(chunk, record, score))
    return hits


def build_document(record: DocumentRecord, texts: Sequence[str], sections: Sequence[str]) -> Document:
    """The document of a record and the pieces of its text and sections."""
    return Document(
        record.id,
        "".join(texts),
        parse_sections(sections),
        record.kind,
        record.title,
        record.uri,
        record.summary,
        record.meta,
        record.hash,
        record.stamp,
        record.access,
        record.summary_by,
        record.created,
        record.updated,
    )


@lru_cache(4096)  # the chunks of a section have the same
def _parse_headings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _to_plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_plain)
