"""A document of which only some chunks may be seen, without the rest.

The rest of its text is blank, so that positions stay true, its other sections are gone, and so is what was made of the
whole: its summary, a title taken from a hidden message, the messages before a chunk that are kept as its context, and
when it was written, in place of which are the times of the first and the last message that are shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from clew.core.thread import THREAD_KIND, make_thread_title, make_thread_uri
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, DocumentRecord, Section
from clew.drivers.store import checksums, codec
from clew.drivers.store import rows as made
from clew.drivers.store.backend import Columns, Row

BLANK = " "


@dataclass(frozen=True, slots=True)
class Part:
    """The chunks of a document that are shown, where others are not."""

    places: Mapping[str, int]  # of each among them, by id
    messages: tuple[str, ...]  # that they are of, by id, in order
    chars: int
    text: str  # of the first
    created: str | None = None  # the times of the first and the last
    updated: str | None = None


def make_part(doc_id: str, chunks: Sequence[Columns]) -> Part:
    """What is shown of a document, by the CHUNK_COLUMNS of its admitted chunks."""
    # The place in the whole is not shown, so it need not be added up.
    ordered = [codec.parse_chunk(each, doc_id, 0, (0, 0)) for each in sorted(chunks, key=made.order_of)]
    messages = (chunk.meta.get("message") for chunk in ordered)
    return Part(
        {chunk.id: place for place, chunk in enumerate(ordered)},
        tuple(dict.fromkeys(str(each) for each in messages if each is not None)),
        sum(len(chunk.text) for chunk in ordered),
        ordered[0].text,
        to_iso(ordered[0].at),
        to_iso(ordered[-1].at),
    )


def redact_record(columns: Columns, part: Part) -> Columns:
    """The RECORD of a document of which a part is shown: without its summary, with a title from that part."""
    record = codec.parse_record(columns)  # before it is another than the one that was written
    shown: Row = dict.fromkeys(("hash", "stamp", "summary", "summary_by"), "")
    if record.kind == THREAD_KIND:
        channel = str(record.meta.get("channel", ""))
        first = part.messages[0] if part.messages else ""
        shown |= {"title": make_thread_title(channel, part.text), "uri": make_thread_uri(channel, first)}
    shown |= {"created": part.created, "updated": part.updated}
    shown |= {"chars": part.chars, "chunks": len(part.places), "sum": checksums.COMPARED}
    return tuple([shown.get(name, value) for name, value in zip(made.RECORD, columns, strict=True)])


def redact_chunk(chunk: Chunk, part: Part) -> Chunk:
    """A chunk as one of those that are shown, without what was taken from others: its context, a hidden parent."""
    hidden = () if chunk.meta.get("reply_to") in part.messages else ("reply_to", "guessed")
    meta = {key: value for key, value in chunk.meta.items() if key not in hidden}
    return replace(chunk, index=part.places[chunk.id], total=len(part.places), context="", meta=meta)


def redact_document(document: Document, record: DocumentRecord, chunks: Sequence[Chunk]) -> Document:
    """The document with its text blank outside the chunks and messages that are shown, and its record as shown."""
    messages = frozenset(str(chunk.meta["message"]) for chunk in chunks if "message" in chunk.meta)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    kept, sections = dict[int | None, int](), list[Section]()  # the new position of each section that is shown
    for position, section in enumerate(document.sections):
        if section.id in messages if messages else _overlaps(section, spans):
            kept[position] = len(sections)
            sections.append(section)
    if messages:
        spans += [(section.start, section.end) for section in sections]
    return replace(
        document,
        text=_blank_outside(document.text, spans),
        sections=tuple(
            [each if each.parent == (to := kept.get(each.parent)) else replace(each, parent=to) for each in sections]
        ),
        title=record.title,
        uri=record.uri,
        summary="",
        summary_by="",
        hash="",
        stamp="",
        created=record.created,
        updated=record.updated,
    )


def _blank_outside(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, at = list[str](), 0
    for start, end in sorted(spans):
        pieces.append(BLANK * (start - at))
        pieces.append(text[max(start, at) : end])
        at = max(at, end)
    return "".join([*pieces, BLANK * (len(text) - at)])


def _overlaps(section: Section, spans: Iterable[tuple[int, int]]) -> bool:
    return any(section.start < end and start < section.end for start, end in spans)
