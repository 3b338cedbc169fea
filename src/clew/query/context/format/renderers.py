"""The renderers of a context, one function each: passages and the data of their documents to prompt text."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from math import isnan
from typing import Any, NamedTuple

from clew.core.attribution import REPLY, PassageMessage, format_name, format_said
from clew.core.cite import MergedChunk
from clew.core.settings import FormatterConfig
from clew.core.time import EPOCH, assume_utc, to_iso
from clew.core.types import Chunk, DocumentRecord
from clew.query.context.format.escape import LINE_END, ReservedLines, drop_blank_lines, to_one_line
from clew.query.context.format.formatter import KNOWLEDGE_BASE_TITLE, ContextFormatter, describe_messages
from clew.query.context.format.messages import ATTRIBUTION, format_passage_text
from clew.query.context.merge import list_sources

EXCERPT = 400  # characters of each passage that related_posts shows
POSTS_HEADER = (
    "\n\n## Related Previous Posts (for continuity and linking):\n"
    "You can reference these posts in your writing to maintain conversation continuity.\n\n"
)
BASE_LINES = ReservedLines(r"##\s*Knowledge\s+Base", r"###\s*\[\d+\]", marks="#")
POST_LINES = ReservedLines(r"##\s*Related\s+Previous", r"###\s*\[", r"-\s*Tags:", r"-\s*Similarity:", marks="#-")
THREAD_LINES = ReservedLines("↪", ATTRIBUTION, LINE_END)  # a blank line begins another thread
NEXT_LINE = "\n  "  # before each further message of a thread


@dataclass(frozen=True, slots=True)
class RenderInput:
    """The input of a renderer besides the passages: records and numbers by document id, and how to format entries."""

    records: Mapping[str, DocumentRecord] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    formatter: FormatterConfig = field(default_factory=FormatterConfig)


Render = Callable[[Sequence[MergedChunk], RenderInput], str]


@dataclass(frozen=True, slots=True)
class Renderer:
    """A function that renders passages, and how many characters it shows of each (None: all)."""

    write: Callable[[Sequence[MergedChunk], RenderInput], str]
    max_chars: int | None = None


def number_documents(passages: Sequence[MergedChunk], known: Mapping[str, int]) -> dict[str, int]:
    """Give each document its known number, or else the next one, in order of appearance."""
    numbers: dict[str, int] = {}
    next_number = max(known.values(), default=0) + 1
    for document in dict.fromkeys(map(get_document_id, passages)):
        if document in known:
            numbers[document] = known[document]
        else:
            numbers[document] = next_number
            next_number += 1
    return numbers


def get_document_id(passage: MergedChunk) -> str:
    """Return the id of a passage's document."""
    return passage.chunks[0].chunk.doc_id


class Post(NamedTuple):
    """The title, date and tags of a post, each on one line."""

    title: str
    date: str
    tags: tuple[str, ...]


def describe_post(chunk: Chunk, record: DocumentRecord | None) -> Post:
    """Return the title, date and tags of a chunk's post; "no date" where the date is not known."""
    meta = {**(record.meta if record else {}), **chunk.meta}
    title = meta.get("post_title") or ((record.title or record.uri) if record else "")
    date = meta.get("post_date") or meta.get("date") or (chunk.at.date().isoformat() if chunk.at else "no date")
    return Post(to_one_line(title), to_one_line(date), _parse_tags(meta.get("tags")))


def numbered(passages: Sequence[MergedChunk], render_input: RenderInput) -> str:
    """Render numbered entries with headings by size, and sources."""
    return ContextFormatter(render_input.formatter).format_merged(passages)


def knowledge_base(passages: Sequence[MergedChunk], render_input: RenderInput) -> str:
    """Render each document under its number and name, with all its passages and the names of its copies."""
    parts = [f"{KNOWLEDGE_BASE_TITLE}\n"] if passages else []
    numbers = number_documents(passages, render_input.numbers)
    for document, members in _group_by_document(passages).items():
        origin = ", ".join(dict.fromkeys(filter(None, map(describe_messages, members))))
        suffix = f" ({to_one_line(origin)})" if origin else ""
        sources = dict.fromkeys(chain.from_iterable(map(list_sources, members)))
        parts.append(f"### [{numbers[document]}] {', '.join(map(format_name, sources))}{suffix}\n")
        parts += [f"{format_passage_text(each, BASE_LINES)}\n\n" for each in members]
    return "".join(parts)


def related_posts(passages: Sequence[MergedChunk], render_input: RenderInput) -> str:
    """Return an excerpt of each passage under its title and date, with tags and similarity."""
    parts = [POSTS_HEADER] if passages else []
    for each in passages:
        post = describe_post(each.chunks[0].chunk, render_input.records.get(get_document_id(each)))
        titles = [post.title or each.source, *(describe_post(copy.chunk, copy.document).title for copy in each.copies)]
        parts.append(
            f"### [{', '.join(dict.fromkeys(map(format_name, filter(None, titles))))}] ({post.date})\n"
            f"{POST_LINES.escape(format_passage_text(each)[:EXCERPT])}...\n"
            f"- Tags: {', '.join(post.tags) or 'none'}\n- Similarity: {each.avg_similarity:.2f}\n\n"
        )
    return "".join(parts)


def threads(passages: Sequence[MergedChunk], render_input: RenderInput) -> str:  # noqa: ARG001
    """Render the passages of each document as a thread, oldest first.

    Author and time precede each message. An arrow precedes each reply, with a question mark if guessed, and each
    further passage of a page.
    """
    blocks = []
    for members in _group_by_document(passages).values():
        (_, first), *others = (line for each in sorted(members, key=_time_key) for line in _list_thread_lines(each))
        blocks.append("".join([first, *(f"{NEXT_LINE}{mark}{text}" for mark, text in others)]))
    return "\n\n".join(blocks)


def as_json(passages: Sequence[MergedChunk], render_input: RenderInput) -> str:
    """Return the entries as JSON; `<` is escaped so that no text in it can be a tag.

    `similarity` is the mean of the passage's hits, `relevance` the greatest, null if unknown.
    """
    numbers = number_documents(passages, render_input.numbers)
    entries = [
        {
            "number": number,
            "document": {"id": get_document_id(each), "number": numbers[get_document_id(each)], "source": each.source},
            "sources": list_sources(each),
            "headings": each.heading_path,
            "similarity": round(each.avg_similarity, 6),
            "relevance": _find_best_relevance(each),
            "spans": each.spans,
            "text": each.text,
            **({"table_header": each.table_header} if each.table_header else {}),
            **({"messages": [_message_to_entry(message) for message in each.messages]} if each.messages else {}),
        }
        for number, each in enumerate(passages, 1)
    ]
    return json.dumps(entries, ensure_ascii=False).replace("<", "\\u003c") if entries else ""


RENDERERS: dict[str, Renderer] = {
    "numbered": Renderer(numbered),
    "knowledge_base": Renderer(knowledge_base),
    "related_posts": Renderer(related_posts, max_chars=EXCERPT),
    "threads": Renderer(threads),
    "json": Renderer(as_json),
}


def _find_best_relevance(passage: MergedChunk) -> float | None:
    return max((round(hit.relevance, 6) for hit in passage.chunks if not isnan(hit.relevance)), default=None)


def _group_by_document(passages: Sequence[MergedChunk]) -> dict[str, list[MergedChunk]]:
    documents: dict[str, list[MergedChunk]] = {}
    for each in passages:
        documents.setdefault(get_document_id(each), []).append(each)
    return documents


def _list_thread_lines(passage: MergedChunk) -> list[tuple[str, str]]:
    """List the messages of a passage, each with the arrow that marks a reply.

    The text of a page is one message; it loses its blank lines, because they separate threads.
    """
    if not passage.messages:
        return [(f"{REPLY} ", THREAD_LINES.escape(drop_blank_lines(format_passage_text(passage)).strip()))]
    return [(each.reply_mark, format_thread_message(each.author, each.at, each.text)) for each in passage.messages]


def format_thread_message(author: str, at: datetime | None, text: str) -> str:
    """Format a message after its author and time; no line of its text passes for another message or thread."""
    return format_said(author, at, THREAD_LINES.escape(text.strip()))


def _message_to_entry(message: PassageMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": message.id, "author": message.author, "at": to_iso(message.at)}
    return entry | {"reply_to": message.reply_to, "guessed": message.guessed, "text": message.text}


def _time_key(passage: MergedChunk) -> tuple[datetime, int, int]:
    """Return the sort key by time; without a time the oldest, in the order of the document."""
    first = passage.chunks[0].chunk
    return assume_utc(first.at or EPOCH), first.start, first.index


def _parse_tags(given: Any) -> tuple[str, ...]:
    tags = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return tuple(filter(None, map(to_one_line, tags)))
