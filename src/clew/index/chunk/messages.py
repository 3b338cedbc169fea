"""The chunker of threads: a message is a chunk; a long one is cut, and its parts together are the message.

What is stored is the message. What is embedded also says where, who and when, and what was said just before, so that
"yes, on Thursday" is found by what it answers. Only earlier messages are said, so that a new one changes no other.
"""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.links import links_in
from clew.core.protocols import Chunker
from clew.core.settings import IngestionConfig, ThreadConfig
from clew.core.thread import message_text
from clew.core.types import Chunk, Document, Section
from clew.index.chunk.atoms import Count
from clew.index.chunk.windows import window_spans


def messages(config: IngestionConfig, threads: ThreadConfig, count: Count) -> Chunker:
    """A chunker of threads; a message of more than `chunk_size` tokens becomes several chunks that overlap."""

    def chunk(document: Document) -> list[Chunk]:
        return chunks_of(document, range(len(document.sections)), config=config, threads=threads, count=count)

    return chunk


def chunks_of(
    document: Document, positions: Sequence[int], *, config: IngestionConfig, threads: ThreadConfig, count: Count
) -> list[Chunk]:
    """The chunks of some messages of a thread, in order, numbered among themselves."""
    made: list[Chunk] = []
    for position in positions:
        section = document.sections[position]
        text = message_text(document, section)
        if not text.strip():
            continue
        spans = window_spans(text, size=config.chunk_size, overlap=config.chunk_overlap, count=count)
        context = said_before(document, position, threads)
        for number, (start, end) in enumerate(spans):
            made.append(
                Chunk(
                    id=f"{section.id}_chunk_{number}",
                    doc_id=document.id,
                    index=len(made),
                    total=0,
                    text=text[start:end],
                    start=section.start + start,
                    end=section.start + end,
                    context=context,
                    at=section.at,
                    meta=_meta(document, section, number, len(spans)),
                )
            )
    return [replace(chunk, total=len(made)) for chunk in made]


def said_before(document: Document, position: int, config: ThreadConfig) -> str:
    """Where, who and when, and the messages that this one answers or follows, the nearest last.

    The date is said as people ask for it, and the earlier messages without their authors: both found more.
    """
    section = document.sections[position]
    when = f"{section.at.day} {section.at:%B %Y}" if section.at else ""
    where = f"#{document.meta['channel']}" if document.meta.get("channel") else ""
    head = ", ".join(part for part in (where, section.author, when) if part)
    lines = [_line(document, place, config.before_chars) for place in _before(document, position, config.before)]
    return "\n".join([head, *lines]) if head else "\n".join(lines)


def _before(document: Document, position: int, many: int) -> list[int]:
    """The messages that say what this one is about: those it answers, then those that stand before it."""
    chain: list[int] = []
    at = document.sections[position].parent
    while at is not None and len(chain) < many:
        chain.append(at)
        at = document.sections[at].parent
    nearest = (place for place in range(position - 1, -1, -1) if place not in chain)
    while len(chain) < many and (place := next(nearest, None)) is not None:
        chain.append(place)
    return sorted(chain)


def _line(document: Document, position: int, chars: int) -> str:
    text = " ".join(message_text(document, document.sections[position]).split())
    return text if len(text) <= chars else f"{text[: chars - 1].rstrip()}…"


def _meta(document: Document, section: Section, number: int, total: int) -> dict[str, object]:
    meta: dict[str, object] = {"message": section.id, "channel": document.meta.get("channel", "")}
    if section.author:
        meta["author"] = section.author
    if section.parent is not None:
        meta["reply_to"] = document.sections[section.parent].id
    if total > 1:
        meta.update(chunk_index=number, total_chunks=total)
    if links := links_in(message_text(document, section)):
        meta["links"] = sorted({link.name for link in links})  # by which the threads that name a page are found
    return meta
