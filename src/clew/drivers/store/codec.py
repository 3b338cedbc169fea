"""Nouns as database columns and back."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from clew.core.types import Chunk, DocumentRecord, Meta, Section

CHUNK_COLUMNS = "c.id, d.id, c.idx, d.chunks, c.text, c.start, c.stop, c.headings, c.context, c.at, c.meta"
_DECODER = json.JSONDecoder()  # as json.loads has it, without its look at what it was given
RECORD_COLUMNS = "id, title, uri, kind, hash, stamp, chars, chunks, summary, meta"


def to_json(value: Any) -> str:
    """Compact JSON; what JSON has no form for is kept as its text, a set as a list."""
    return _ENCODER.encode(value)


def meta_text(meta: Meta) -> str:
    """The meta as JSON."""
    return to_json(dict(meta)) if meta else "{}"


def sections_text(sections: Sequence[Section]) -> str:
    """Sections as a JSON list of lists."""
    return to_json(
        [[s.start, s.end, s.label, s.parent, s.id, s.author, time_text(s.at), s.page, s.guessed] for s in sections]
    )


def sections(texts: Iterable[str]) -> tuple[Section, ...]:
    """The sections of all the pieces, in order."""
    return tuple(
        Section(start, end, label, parent, name, author, time(at), page, *guessed)
        for text in texts
        for start, end, label, parent, name, author, at, page, *guessed in json.loads(text)
    )


def chunk(columns: Sequence[Any]) -> Chunk:
    """A chunk from CHUNK_COLUMNS."""
    name, doc_id, index, total, text, start, end, headings, context, at, meta = columns
    return Chunk(
        name,
        doc_id,
        index,
        total,
        text,
        start,
        end,
        _headings(headings) if headings != "[]" else (),
        context,
        datetime.fromisoformat(at) if at else None,
        _DECODER.raw_decode(meta)[0] if meta != "{}" else {},
    )


def record(columns: Sequence[Any]) -> DocumentRecord:
    """A document's record from RECORD_COLUMNS."""
    name, title, uri, kind, digest, stamp, chars, chunks, summary, meta = columns
    return DocumentRecord(name, title, uri, kind, digest, stamp, chars, chunks, summary, json.loads(meta))


def time_text(at: datetime | None) -> str | None:
    """A time as ISO 8601, with its zone if it has one."""
    return at.isoformat() if at else None


def time(text: str | None) -> datetime | None:
    """The time that time_text wrote."""
    return datetime.fromisoformat(text) if text else None


@lru_cache(4096)  # the chunks of a section have the same
def _headings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
