"""Chunks, records and sections as database columns and back, the same in SQLite, PostgreSQL and exports."""

import json
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from clew.core.facets import collect_facets
from clew.core.filter import Meta
from clew.core.thread_view import Head
from clew.core.time import from_iso, to_iso
from clew.core.types import Chunk, Document, DocumentRecord, Section
from clew.drivers.store import checksums

# A chunk of a message is stored with its place in the message (`piece`), so that a thread changes without being written
# anew; where it stands in the whole is added up from the sizes of the blocks and messages before it. Of a page, `piece`
# is null and its places are those in the page.
BLOCK_BITS = 7  # a block is 128 messages
_DECODER = json.JSONDecoder()  # json.loads without its checks of the argument


def to_json(value: Any) -> str:
    """Compact JSON; a set becomes a list, and what JSON cannot represent its text."""
    return _ENCODER.encode(value)


def meta_to_json(meta: Meta) -> str:
    """The meta as a JSON object."""
    return to_json(dict(meta)) if meta else "{}"


def parse_meta(text: str) -> Meta:
    """The meta of a JSON object."""
    return dict(_DECODER.decode(text)) if text != "{}" else {}


def headings_to_json(headings: Sequence[str]) -> str:
    """Headings as a JSON list."""
    return strings_to_json(headings) if headings else "[]"


def strings_to_json(strings: Iterable[str]) -> str:
    """Strings as a JSON list; the same as `to_json`, and faster."""
    return f"[{','.join(map(encode_basestring, strings))}]"


def access_to_json(access: Set[str] | None) -> str | None:
    """Labels as a JSON list; None stays None."""
    return None if access is None else to_json(sorted(access))


def parse_access(text: str | None) -> frozenset[str] | None:
    """The labels of a JSON list; None stays None."""
    return None if text is None else frozenset(json.loads(text))


def times_to_text(document: Document, created: str | None) -> tuple[str, str]:
    """When a document was written first and last, as ISO 8601: as it says itself, else kept (`created`) or now."""
    now = datetime.now(UTC).isoformat()
    return to_iso(document.created) or created or now, to_iso(document.updated) or now


def sections_to_json(sections: Sequence[Section]) -> str:
    """Sections as a JSON list of lists."""
    return to_json([_section_to_list(section) for section in sections])


def _section_to_list(of: Section) -> list[Any]:
    columns = [of.start, of.end, of.label, of.parent, of.id, of.author, to_iso(of.at), of.page, of.guessed]
    if of.awaits is not None:
        return [*columns, None if of.access is None else sorted(of.access), of.awaits]
    return columns if of.access is None else [*columns, sorted(of.access)]


def parse_sections(text: str) -> list[Section]:
    """The sections of a piece of a document, in order."""
    return [_parse_section(*columns) for columns in _DECODER.decode(text)] if text != "[]" else []


def parse_heads(sections: Iterable[str]) -> list[Head]:
    """The head of each message, by the sections of its piece."""
    return [Head(own[5], own[6], own[8]) for (own,) in json.loads(f"[{','.join(sections)}]")]


def _parse_section(
    start: int,
    end: int,
    label: str,
    parent: int | None,
    section_id: str,
    author: str,
    at: str | None,
    page: int | None,
    guessed: bool = False,
    access: Sequence[str] | None = None,
    awaits: str | None = None,
) -> Section:
    labels = None if access is None else frozenset(access)
    return Section(start, end, label, parent, section_id, author, from_iso(at), page, guessed, labels, awaits)


def join_pieces(doc_id: str, pieces: Iterable[Sequence[Any]]) -> tuple[str, tuple[Section, ...]]:
    """The text and the sections of the `rows.PIECE_COLUMNS` of a document; CollectionDamaged if one is not as written.

    A message is stored with the id of its parent and with spans of its own.
    """
    texts: list[str] = []
    sections: list[list[Any]] = []  # as columns
    positions: dict[str, int] = {}
    parents: dict[int, str] = {}
    at = 0
    for n, text, columns, chars, chunks, message, parent, awaits, doc, stored in pieces:
        if not checksums.matches(stored, doc, n, text, columns, chars, chunks, message, parent, awaits):
            raise checksums.damaged_error(f"the text of the document {doc_id!r}")
        here = _DECODER.decode(columns) if columns != "[]" else []
        if message is not None:
            positions[message] = len(sections)
            if parent is not None:
                parents[len(sections)] = parent
            for each in here:
                each[0], each[1] = each[0] + at, each[1] + at
        texts.append(text)
        sections += here
        at += len(text)
    for position, parent in parents.items():
        sections[position][3] = positions.get(parent)
    return "".join(texts), tuple([_parse_section(*columns) for columns in sections])


def parse_chunk(columns: Sequence[Any], doc_id: str, total: int, before: tuple[int, int] | None) -> Chunk:
    """A chunk from `rows.CHUNK_COLUMNS`; CollectionDamaged if it, or its place, is not as written."""
    _, _, piece, number, start, end, headings, context, at, meta, text, chunk_id, stored = columns
    if not checksums.matches(stored, *columns[:-1]) or start is None:  # labels hide a place that cannot be added up
        raise checksums.damaged_error(f"the chunk {chunk_id!r} of the document {doc_id!r}")
    if piece is not None:
        if before is None:
            raise checksums.damaged_error(f"the place of the chunk {chunk_id!r} in the document {doc_id!r}")
        chars, chunks = before
        number, start, end = number + chunks, start + chars, end + chars
    titles = _parse_headings(headings) if headings != "[]" else ()
    said, about = datetime.fromisoformat(at) if at else None, _DECODER.raw_decode(meta)[0] if meta != "{}" else {}
    return Chunk(chunk_id, doc_id, number, total, text, start, end, titles, context, said, about)


def parse_record(columns: Sequence[Any]) -> DocumentRecord:
    """A document's record from `rows.RECORD`; CollectionDamaged if it is not as written."""
    return DocumentRecord(*_parse_record(columns))


def _parse_record(columns: Sequence[Any]) -> tuple[Any, ...]:
    """The fields of a record."""
    *written, stored = columns
    if not checksums.matches(stored, *written):
        raise checksums.damaged_error(f"the document {columns[0]!r}")
    meta, access, by, created, updated, _ = written[9:]
    return (
        *written[:9],
        _DECODER.raw_decode(meta)[0] if meta != "{}" else {},
        None if access is None else parse_access(access),
        by,
        datetime.fromisoformat(created) if created else None,
        datetime.fromisoformat(updated) if updated else None,
    )


def record_to_facets(columns: Sequence[Any]) -> str:
    """The facets of a document as JSON, from `rows.RECORD` as it is; ValueError if it cannot be parsed."""
    doc_id, _, _, kind, _, _, _, _, _, meta, access, *_ = columns
    record = DocumentRecord(doc_id, kind=kind, meta=parse_meta(meta), access=parse_access(access))
    return strings_to_json(sorted(collect_facets(record)))


def build_document(columns: Sequence[Any], pieces: Sequence[Sequence[Any]], *, is_whole: bool = True) -> Document:
    """The document of `rows.RECORD` and the `rows.PIECE_COLUMNS` of its text and sections.

    is_whole: Whether these are all its pieces; CollectionDamaged if one is missing then, or has another size.
    """
    doc_id, title, uri, kind, digest, stamp, chars, _, summary, meta, *others = _parse_record(columns)
    text, sections = join_pieces(doc_id, pieces)
    if is_whole and (len(text) != chars or any(each[5] is not None and each[3] != len(each[1]) for each in pieces)):
        raise checksums.damaged_error(f"the text of the document {doc_id!r}")
    return Document(doc_id, text, sections, kind, title, uri, summary, meta, digest, stamp, *others)


@lru_cache(4096)  # the chunks of a section have the same
def _parse_headings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _to_plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_plain)
