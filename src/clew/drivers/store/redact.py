"""A document of which only some chunks may be seen, without the rest.

The rest of its text is blank, so that positions stay true, its other sections are gone, and so is what was made of the
whole: its summary, a title taken from a hidden message, the messages before a chunk that are kept as its context.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from clew.core.filter import Meta
from clew.core.thread import THREAD_KIND, make_thread_title, make_thread_uri
from clew.core.types import Chunk, Document, DocumentRecord, Section

BLANK = " "


@dataclass(frozen=True)
class VisiblePart:
    """The chunks of a document that are admitted, in order, where others are not."""

    chunks: tuple[Chunk, ...]

    @cached_property
    def by_id(self) -> dict[str, Chunk]:
        """The chunks by id."""
        return {chunk.id: chunk for chunk in self.chunks}

    @cached_property
    def chars(self) -> int:
        """The number of characters of the chunks."""
        return sum(len(chunk.text) for chunk in self.chunks)

    @cached_property
    def messages(self) -> list[str]:
        """The ids of its messages, in order."""
        return list(dict.fromkeys(str(chunk.meta["message"]) for chunk in self.chunks if "message" in chunk.meta))


def redact_document(document: Document, part: VisiblePart) -> Document:
    """The document with the rest of its text blank and without the sections of the rest."""
    messages = frozenset(part.messages)
    spans = [(chunk.start, chunk.end) for chunk in part.chunks]
    kept: dict[int, int] = {}  # the new position of each section that is shown
    for position, section in enumerate(document.sections):
        if section.id in messages if messages else _overlaps(section, spans):
            kept[position] = len(kept)
    sections = [document.sections[position] for position in kept]
    if messages:
        spans += [(section.start, section.end) for section in sections]
    whole = DocumentRecord(document.id, document.title, document.uri, document.kind, meta=document.meta)
    record = redact_record(whole, part)
    return replace(
        document,
        text=_blank_outside(document.text, spans),
        sections=tuple(
            replace(each, parent=kept.get(each.parent) if each.parent is not None else None) for each in sections
        ),
        title=record.title,
        uri=record.uri,
        summary="",
        summary_by="",
        hash="",
        stamp="",
    )


def redact_record(record: DocumentRecord, part: VisiblePart) -> DocumentRecord:
    """The record of a document of which only a part is shown: without its summary, with a title from that part."""
    chunks = part.chunks
    shown = replace(
        record,
        hash="",
        stamp="",
        chars=part.chars,
        chunks=len(chunks),
        summary="",
        summary_by="",
    )
    if record.kind != THREAD_KIND:
        return shown
    channel = str(record.meta.get("channel", ""))
    first = part.messages[0] if part.messages else ""
    return replace(shown, title=make_thread_title(channel, chunks[0].text), uri=make_thread_uri(channel, first))


def renumber_chunks(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Chunks as the only ones of their document, without the context that was taken from others."""
    messages = {chunk.meta.get("message") for chunk in chunks}
    return tuple(
        replace(
            chunk,
            index=index,
            total=len(chunks),
            context="",
            meta=_drop_hidden_reply(chunk.meta, messages),
        )
        for index, chunk in enumerate(chunks)
    )


def _drop_hidden_reply(meta: Meta, messages: Set[object]) -> Meta:
    """The meta of a chunk without the message that it answers, if that is none of these."""
    if meta.get("reply_to") in messages:
        return meta
    return {key: value for key, value in meta.items() if key not in ("reply_to", "guessed")}


def _blank_outside(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, at = list[str](), 0
    for start, end in sorted(spans):
        pieces.append(BLANK * (start - at))
        pieces.append(text[max(start, at) : end])
        at = max(at, end)
    return "".join([*pieces, BLANK * (len(text) - at)])


def _overlaps(section: Section, spans: Iterable[tuple[int, int]]) -> bool:
    return any(section.start < end and start < section.end for start, end in spans)
