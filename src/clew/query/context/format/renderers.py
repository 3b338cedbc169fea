"""The ways to write a context: one function each, over the same passages and a sheet that tells of their documents."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, NamedTuple

from clew.core.settings import FormatterConfig
from clew.core.types import Chunk, DocumentRecord, MergedChunk
from clew.query.context.format.formatter import BASE, ContextFormatter, said_by
from clew.query.context.format.quote import ENDS, Lines, one_line
from clew.query.messages.score import by_message, rebuilt

EXCERPT = 400  # characters that related posts show of each
REPLY = "\n  ↪ "
POSTS = (
    "\n\n## Related Previous Posts (for continuity and linking):\n"
    "You can reference these posts in your writing to maintain conversation continuity.\n\n"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BASE_LINES = Lines(r"##\s*Knowledge\s+Base", r"###\s*\[\d+\]", marks="#")
POST_LINES = Lines(r"##\s*Related\s+Previous", r"###\s*\[", r"-\s*Tags:", r"-\s*Similarity:", marks="#-")
THREAD_LINES = Lines("↪", ENDS)  # a blank line would begin another thread


@dataclass(frozen=True, slots=True)
class Sheet:
    """What writing needs besides the passages: records by document, numbers that documents have, how entries look."""

    records: Mapping[str, DocumentRecord] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    formatter: FormatterConfig = field(default_factory=FormatterConfig)


@dataclass(frozen=True, slots=True)
class Renderer:
    """A way to write passages, and how many characters it shows of each (None: all)."""

    write: Callable[[Sequence[MergedChunk], Sheet], str]
    shows: int | None = None


def numbering(passages: Sequence[MergedChunk], known: Mapping[str, int]) -> dict[str, int]:
    """The number of each document: the one it has, or else the next ones after all that are known, as they are seen."""
    numbers: dict[str, int] = {}
    following = max(known.values(), default=0) + 1
    for document in dict.fromkeys(map(document_of, passages)):
        if document in known:
            numbers[document] = known[document]
        else:
            numbers[document] = following
            following += 1
    return numbers


def document_of(passage: MergedChunk) -> str:
    """The id of the document that a passage is from."""
    return passage.chunks[0].chunk.doc_id


class Post(NamedTuple):
    """What a post is called, and when it is from; each on one line."""

    title: str
    date: str
    tags: tuple[str, ...]


def post_of(chunk: Chunk, record: DocumentRecord | None) -> Post:
    """The post that a chunk is from; what is not known of it is said to be so."""
    meta = {**(record.meta if record else {}), **chunk.meta}
    title = meta.get("post_title") or ((record.title or record.uri) if record else "")
    date = meta.get("post_date") or meta.get("date") or (chunk.at.date().isoformat() if chunk.at else "no date")
    return Post(one_line(title), one_line(date), _tags(meta.get("tags")))


def numbered(passages: Sequence[MergedChunk], sheet: Sheet) -> str:
    """Numbered entries with headings by size, and sources."""
    return ContextFormatter(sheet.formatter).format_merged(passages)


def knowledge_base(passages: Sequence[MergedChunk], sheet: Sheet) -> str:
    """Each document under its number and name, with all its passages."""
    parts = [f"{BASE}\n"] if passages else []
    numbers = numbering(passages, sheet.numbers)
    for document, members in _by_document(passages).items():
        who = ", ".join(dict.fromkeys(filter(None, map(said_by, members))))
        parts.append(f"### [{numbers[document]}] {one_line(members[0].source)}{f' ({one_line(who)})' if who else ''}\n")
        parts += [f"{BASE_LINES.quoted(each.text)}\n\n" for each in members]
    return "".join(parts)


def related_posts(passages: Sequence[MergedChunk], sheet: Sheet) -> str:
    """The beginning of each passage under its title and date, with tags and similarity."""
    parts = [POSTS] if passages else []
    for each in passages:
        post = post_of(each.chunks[0].chunk, sheet.records.get(document_of(each)))
        parts.append(
            f"### [{post.title or one_line(each.source)}] ({post.date})\n{POST_LINES.quoted(each.text[:EXCERPT])}...\n"
            f"- Tags: {', '.join(post.tags) or 'none'}\n- Similarity: {_similarity(each):.2f}\n\n"
        )
    return "".join(parts)


def threads(passages: Sequence[MergedChunk], sheet: Sheet) -> str:  # noqa: ARG001
    """The passages of each document as a thread, oldest first; one of several messages says each after an arrow."""
    return "\n\n".join(
        REPLY.join(THREAD_LINES.quoted(said.strip()) for each in sorted(members, key=_when) for said in _said(each))
        for members in _by_document(passages).values()
    )


def as_json(passages: Sequence[MergedChunk], sheet: Sheet) -> str:
    """The same entries for a machine; `<` is written so that no text in it can be a tag."""
    numbers = numbering(passages, sheet.numbers)
    entries = [
        {
            "number": number,
            "document": {"id": document_of(each), "number": numbers[document_of(each)], "source": each.source},
            "headings": each.heading_path,
            "similarity": round(each.avg_similarity, 6),
            "spans": each.spans,
            "text": each.text,
        }
        for number, each in enumerate(passages, 1)
    ]
    return json.dumps(entries, ensure_ascii=False).replace("<", "\\u003c") if entries else ""


RENDERERS: dict[str, Renderer] = {
    "numbered": Renderer(numbered),
    "knowledge_base": Renderer(knowledge_base),
    "related_posts": Renderer(related_posts, shows=EXCERPT),
    "threads": Renderer(threads),
    "json": Renderer(as_json),
}


def _similarity(passage: MergedChunk) -> float:
    """The mean cosine of its hits, or of what else they were scored by."""
    return fmean(hit.scores.get("semantic", hit.score) for hit in passage.chunks)


def _by_document(passages: Sequence[MergedChunk]) -> dict[str, list[MergedChunk]]:
    documents: dict[str, list[MergedChunk]] = {}
    for each in passages:
        documents.setdefault(document_of(each), []).append(each)
    return documents


def _said(passage: MergedChunk) -> list[str]:
    """The messages that a passage is made of; its text where it is made of something else, or was cut."""
    messages = by_message(passage.chunks)
    if len(messages) < 2 or sum(map(len, messages.values())) < len(passage.chunks):
        return [passage.text]
    parts = sorted(messages.values(), key=lambda hits: min(hit.chunk.start for hit in hits))
    texts = [rebuilt(hit.chunk for hit in hits) for hits in parts]
    return texts if all(text in passage.text for text in texts) else [passage.text]


def _when(passage: MergedChunk) -> tuple[datetime, int, int]:
    """When it was said; what has no time counts as the oldest, in the order of the document."""
    first = passage.chunks[0].chunk
    at = first.at or _EPOCH
    return at if at.tzinfo else at.replace(tzinfo=UTC), first.start, first.index


def _tags(given: Any) -> tuple[str, ...]:
    tags = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return tuple(filter(None, map(one_line, tags)))
