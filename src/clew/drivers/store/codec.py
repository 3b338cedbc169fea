"""Chunks, records and sections as database columns and back, the same in SQLite, PostgreSQL and exports."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from clew.core.time import from_iso, to_iso
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Meta, Section

CHUNK_COLUMNS = "c.id, d.id, c.idx, d.chunks, c.text, c.start, c.stop, c.headings, c.context, c.at, c.meta"
RECORD_COLUMNS = "d.id, d.title, d.uri, d.kind, d.hash, d.stamp, d.chars, d.chunks, d.summary, d.meta"
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


def sections_to_json(sections: Sequence[Section]) -> str:
    """Sections as a JSON list of lists."""
    return to_json(
        [[s.start, s.end, s.label, s.parent, s.id, s.author, to_iso(s.at), s.page, s.guessed] for s in sections]
    )


def parse_sections(texts: Iterable[str]) -> tuple[Section, ...]:
    """The sections of all pieces of a document, in order."""
    return tuple(
        Section(start, end, label, parent, section_id, author, from_iso(at), page, *guessed)
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
    doc_id, title, uri, kind, digest, stamp, chars, chunks, summary, meta = columns
    parsed = _DECODER.raw_decode(meta)[0] if meta != "{}" else {}
    return DocumentRecord(doc_id, title, uri, kind, digest, stamp, chars, chunks, summary, parsed)


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
    )


@lru_cache(4096)  # the chunks of a section have the same
def _parse_headings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _to_plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_plain)
