"""Markdown: what stands under a heading is a section, and the parser alone says what a heading is."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from clew.core.ids import document_id
from clew.core.types import Document
from clew.index.read.outline import Heading, outline, title_of
from clew.index.read.text.front_matter import front

# Blocks are all that is needed of a page; what stands inside a line is only looked at in headings.
_BLOCKS = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark")
_KINDS = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "table_open": "table",
    "fence": "code",
    "code_block": "code",
    "html_block": "html",
    "hr": "rule",
}
_OPEN = frozenset(("bullet_list_open", "ordered_list_open", "list_item_open", "blockquote_open"))
_CLOSE = frozenset(("bullet_list_close", "ordered_list_close", "list_item_close", "blockquote_close"))
_OPEN_ENDED = frozenset(("paragraph", "list_item", "quote"))
_NEWLINE = re.compile(r"\r\n?|\n")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_MARKUP = re.compile(r"[*_`\[\]<>&\\!\n]")
_ANCHOR = re.compile(r"\s*\{#[^}]*\}$")


class Part(NamedTuple):
    """A block of markdown that holds no other; `depth` lists, items and quotes hold both it and the one before."""

    kind: str
    start: int
    end: int
    level: int = 0
    label: str = ""
    depth: int = 0


def markdown(text: str, *, uri: str, name: str) -> Document:
    """The Document of a markdown page: its front matter is in `meta`, its headings are the sections."""
    matter = front(text)
    headings = [Heading(p.start, p.level, p.label) for p in parse(matter.body) if p.kind == "heading"]
    given = matter.values.get("title")
    first = next((h.label for h in headings if h.level == 1 and h.label), "")
    error = {"front_matter_error": matter.error} if matter.error else {}
    return Document(
        id=document_id(uri),
        text=matter.body,
        sections=outline(matter.body, headings, at=matter.at),
        title=(str(given).strip() if isinstance(given, str | int | float) else "") or first or title_of(name),
        uri=uri,
        meta={**matter.values, **error, "format": "markdown"},
    )


@lru_cache(maxsize=4)  # the chunker asks again for what the reader has just asked for
def parse(text: str) -> tuple[Part, ...]:
    """The blocks of a markdown text in order; together they hold all that is not white space."""
    return tuple(parts_of(text))


def parts_of(text: str) -> list[Part]:
    """The same as `parse`, not remembered: for the many small texts of a conversation."""
    return _covering(text, _leaves(text, _BLOCKS.parse(text)))


def line_starts(text: str) -> list[int]:
    """Where each line begins, and the end of the text."""
    if "\r" in text:
        return [0, *(match.end() for match in _NEWLINE.finditer(text)), len(text)]
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    starts[-1] = len(text)
    return starts


def _leaves(text: str, tokens: Sequence[Token]) -> list[Part]:
    lines = line_starts(text)
    last = len(lines) - 1
    parts: list[Part] = []
    around: list[str] = []
    shared = 0
    for position, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None:
            if token.type in _OPEN:
                around.append(token.type)
            elif token.type in _CLOSE:
                around.pop()
                shared = min(shared, len(around))
            continue
        if token.map is None:
            continue
        start, stop = lines[min(token.map[0], last)], lines[min(token.map[1], last)]
        end = start + len(text[start:stop].rstrip())
        level, label = 0, ""
        if kind == "heading" and not around:
            level, label = int(token.tag[1]), _plain(tokens[position + 1].content)
        elif kind in ("heading", "paragraph") and around:
            begins = around[-1] == "list_item_open" and shared < len(around)
            kind = "quote" if "blockquote_open" in around else "list_item" if begins else "paragraph"
        parts.append(Part(kind, start, end, level, label, shared))
        shared = len(around)
    return parts


def _covering(text: str, parts: Sequence[Part]) -> list[Part]:
    """The parts with what the parser gave no block for: link definitions, empty items, what is nested too deep."""
    covering: list[Part] = []
    at = 0
    for part in (*parts, Part("", len(text), len(text))):
        between = text[at : part.start]
        if between and not between.isspace():
            start = at + len(between) - len(between.lstrip())
            end = at + len(between.rstrip())
            if covering and covering[-1].kind in _OPEN_ENDED and not _BLANK_LINE.search(text, at, start):
                covering[-1] = covering[-1]._replace(end=end)
            else:
                covering.append(Part("paragraph", start, end))
        if part.start < part.end:
            start = max(part.start, at)
            start += len(text[start : part.end]) - len(text[start : part.end].lstrip())
            covering.append(part._replace(start=start))
            at = part.end
    return covering


def _plain(content: str) -> str:
    """The words of a heading without their markup."""
    content = _ANCHOR.sub("", content.strip())
    if not _MARKUP.search(content):
        return content
    words: list[str] = []
    for token in _INLINE.parseInline(content)[0].children or []:
        if token.type in ("text", "code_inline", "image"):
            words.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            words.append(" ")
    return " ".join("".join(words).split())
