"""The message chunker, for threads: each message is a chunk; a long one becomes several that overlap.

The text is the message. Its context has the channel, author and date, which are embedded with it, and quotes earlier
messages, so that "that one is on Thursday, in the big hall" is found by the words of the question. Quotes are indexed
but not embedded: a message must be found by its own words first. A message without content ("ok", "+1") quotes nothing,
or it would be found instead of the message it replies to. A context has only earlier messages, so that a new message
changes no other chunk.
"""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.links import extract_links
from clew.core.protocols import Chunker
from clew.core.settings import IngestionConfig, ThreadConfig
from clew.core.small_talk import has_content
from clew.core.thread import get_message_text
from clew.core.types import QUOTE, Chunk, Document, Section
from clew.index.chunk.atoms import TokenCounter
from clew.index.chunk.pages import find_paragraph_spans

MAX_QUOTED_CHARS = 300  # of an earlier message


def make_message_chunker(config: IngestionConfig, threads: ThreadConfig, count: TokenCounter) -> Chunker:
    """Make a chunker of threads; a message of more than `chunk_size` tokens becomes several chunks that overlap."""

    def chunk(document: Document) -> list[Chunk]:
        return chunk_messages(document, range(len(document.sections)), config=config, threads=threads, count=count)

    return chunk


def chunk_messages(
    document: Document, positions: Sequence[int], *, config: IngestionConfig, threads: ThreadConfig, count: TokenCounter
) -> list[Chunk]:
    """Chunk the messages at these positions of a thread, in order, numbering the chunks from 0."""
    made: list[Chunk] = []
    for position in positions:
        section = document.sections[position]
        text = get_message_text(document, section)
        if not text.strip():
            continue
        spans = find_paragraph_spans(
            text, max_tokens=config.chunk_size, overlap_tokens=config.chunk_overlap, count=count
        )
        context = build_message_context(document, position, threads)
        meta = _build_message_meta(document, section)
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
                    meta=meta | ({"chunk_index": number, "total_chunks": len(spans)} if len(spans) > 1 else {}),
                )
            )
    return [replace(chunk, total=len(made)) for chunk in made]


def build_message_context(document: Document, position: int, config: ThreadConfig) -> str:
    """Build the context: channel, author and date, then quotes of the messages it replies to or follows, nearest last.

    The date is written as people ask for it, and quotes have no authors: both improved recall.
    """
    section = document.sections[position]
    before = config.before if has_content(get_message_text(document, section)) else 0
    date = f"{section.at.day} {section.at:%B %Y}" if section.at else ""
    channel = f"#{document.meta['channel']}" if document.meta.get("channel") else ""
    head = ", ".join(part for part in (channel, section.author, date) if part)
    lines = [
        QUOTE + _shorten_message(document, earlier)
        for earlier in _find_context_messages(document, position, before)
        if _is_seen_with(document, document.sections[earlier], section)
    ]
    return "\n".join([head, *lines]) if head else "\n".join(lines)


def _find_context_messages(document: Document, position: int, max_messages: int) -> list[int]:
    """Find the positions of the quoted messages, in order: the reply chain, then messages directly before."""
    chain: list[int] = []
    at = document.sections[position].parent
    while at is not None and len(chain) < max_messages:
        chain.append(at)
        at = document.sections[at].parent
    nearest = (earlier for earlier in range(position - 1, -1, -1) if earlier not in chain)
    while len(chain) < max_messages and (earlier := next(nearest, None)) is not None:
        chain.append(earlier)
    return sorted(chain)


def _is_seen_with(document: Document, earlier: Section, section: Section) -> bool:
    """Return whether everyone who may see a message may see the earlier one, which its context would reveal."""
    before, own = (document.access if each.access is None else each.access for each in (earlier, section))
    return before is None or (own is not None and own <= before)


def _shorten_message(document: Document, position: int) -> str:
    text = " ".join(get_message_text(document, document.sections[position]).split())
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[: MAX_QUOTED_CHARS - 1].rstrip()}…"


def _build_message_meta(document: Document, section: Section) -> dict[str, object]:
    meta: dict[str, object] = {"message": section.id, "channel": document.meta.get("channel", "")}
    if section.author:
        meta["author"] = section.author
    if section.access is not None:
        meta["access"] = sorted(section.access)
    if section.parent is not None:
        meta["reply_to"] = document.sections[section.parent].id
        if section.guessed:
            meta["guessed"] = True
    if links := extract_links(get_message_text(document, section)):
        meta["links"] = sorted({link.name for link in links})  # used to find the threads that link to a page
    return meta
