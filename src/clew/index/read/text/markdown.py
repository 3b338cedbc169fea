"""Markdown: each heading found by the CommonMark parser opens a section.

Tables are parsed without their cells: only the lines are needed, and a large table has millions of cells.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block.state_block import StateBlock
from markdown_it.rules_block.table import MAX_AUTOCOMPLETED_CELLS, getLine, table
from markdown_it.token import Token

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.index.read.blocks import Heading, build_sections_from_headings, make_title_from_file_name
from clew.index.read.text.front_matter import parse_front_matter

_PIPE = re.compile(r"(?<!\\)\|")
# Only the blocks of a page are needed; inline markup is parsed only in headings.
_BLOCK_PARSER = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])


def parse_table_without_cells(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:  # noqa: N803
    """Parse a table (a rule of markdown-it), emitting only its first and last token; return whether one begins here."""
    if not table(state, startLine, endLine, True):
        return False
    if silent:
        return True
    parent, state.parentType = state.parentType, "table"
    opened = state.push("table_open", "table", 1)
    end = _find_end(state, startLine, endLine)
    opened.map = [startLine, end]
    state.push("table_close", "table", -1)
    state.parentType, state.line = parent, end
    return True


def _find_end(state: StateBlock, start: int, last: int) -> int:
    """Find the line after the last row, by the parser's own rules."""
    rules = state.md.block.ruler.getRules("blockquote")
    columns = _count_cells(getLine(state, start).strip())
    missing = 0
    for line in range(start + 2, last):
        if state.sCount[line] < state.blkIndent or any(rule(state, line, last, True) for rule in rules):
            return line
        row = getLine(state, line).strip()
        if not row or state.is_code_block(line):
            return line
        missing += columns - _count_cells(row)
        if missing > MAX_AUTOCOMPLETED_CELLS:
            return line
    return last


def _count_cells(row: str) -> int:
    pipes = [match.start() for match in _PIPE.finditer(row)]
    outer = bool(pipes) and pipes[0] == 0, bool(pipes) and pipes[-1] == len(row) - 1
    return len(pipes) + 1 - sum(outer)


_BLOCK_PARSER.block.ruler.at("table", parse_table_without_cells, {"alt": ["paragraph", "reference"]})
_INLINE_PARSER = MarkdownIt("commonmark")
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
# The start of any block but a paragraph; "=" and "-" underline a heading, ":" may begin the second row of a table.
_BLOCK_MARKUP = r"(?:    | *(?:[-#>+*=_`~|<\[:]|\d{1,9}[.)]))"
_FIRST_MARKUP = re.compile(_BLOCK_MARKUP)
_LATER_MARKUP = re.compile(rf"\n{_BLOCK_MARKUP}")  # a literal first character is found much faster
_PLAIN_PARAGRAPH = re.compile(r"[^ \n][^\n]*(?:\n *[^ \n][^\n]*)*")
_MAX_HEADING_CHARS = 1_000  # a longer heading is cut
_MAX_HEADING_MARKS = 40  # a heading with more is not parsed: the time grows with the square of the marks


class MarkdownBlock(NamedTuple):
    """A leaf block of markdown; `depth` counts the lists, items and quotes around both it and the previous block."""

    kind: str
    start: int
    end: int
    level: int = 0
    label: str = ""
    depth: int = 0


def read_markdown(text: str, *, uri: str, name: str) -> Document:
    """Return the Document of a markdown page, with front matter in `meta` and a section for each heading."""
    front_matter = parse_front_matter(text)
    if front_matter.labels_lost:  # without its labels everybody could see the page
        raise SourceError(uri, f"names who may see it (access), but its {front_matter.error}; correct it")
    headings = [
        Heading(p.start, p.level, p.label) for p in parse_markdown_blocks(front_matter.body) if p.kind == "heading"
    ]
    given = front_matter.values.get("title")
    first = next((h.label for h in headings if h.level == 1 and h.label), "")
    error = {"front_matter_error": front_matter.error} if front_matter.error else {}
    lines = {"front_matter_lines": front_matter.lines} if front_matter.lines else {}
    return Document(
        id=make_document_id(uri),
        text=front_matter.body,
        sections=build_sections_from_headings(front_matter.body, headings, at=front_matter.at),
        title=(str(given).strip() if isinstance(given, str | int | float) else "")
        or first
        or make_title_from_file_name(name),
        uri=uri,
        meta={**front_matter.values, **error, **lines, "format": "markdown"},
        access=front_matter.access,
    )


@lru_cache(maxsize=4)  # the chunker parses the same text right after the reader
def parse_markdown_blocks(text: str) -> tuple[MarkdownBlock, ...]:
    """Parse the blocks of a markdown text in order. They cover everything but white space."""
    return tuple(parse_markdown_blocks_uncached(text))


def parse_markdown_blocks_uncached(text: str) -> list[MarkdownBlock]:
    """Parse the blocks without the cache, as for the many small texts of a conversation."""
    if _is_plain(text):
        paragraphs = _PLAIN_PARAGRAPH.finditer(text)
        return [MarkdownBlock("paragraph", each.start(), each.start() + len(each[0].rstrip())) for each in paragraphs]
    return _add_unreported_blocks(text, _collect_blocks(text, _BLOCK_PARSER.parse(text)))


def _is_plain(text: str) -> bool:
    """Return whether a text is only paragraphs: no line begins with markup, and white space is plain."""
    if _FIRST_MARKUP.match(text) or _LATER_MARKUP.search(text):
        return False
    return text.replace("\n", "").isprintable()


def find_line_starts(text: str) -> list[int]:
    """Find the offset of each line, followed by the length of the text."""
    if "\r" in text:
        return [0, *(match.end() for match in _NEWLINE.finditer(text)), len(text)]
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    starts[-1] = len(text)
    return starts


def _collect_blocks(text: str, tokens: Sequence[Token]) -> list[MarkdownBlock]:
    lines = find_line_starts(text)
    last = len(lines) - 1
    blocks: list[MarkdownBlock] = []
    containers: list[str] = []
    shared = 0
    for position, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None:
            if token.type in _OPEN:
                containers.append(token.type)
            elif token.type in _CLOSE:
                containers.pop()
                shared = min(shared, len(containers))
            continue
        if token.map is None:
            continue
        start, stop = lines[min(token.map[0], last)], lines[min(token.map[1], last)]
        end = start + len(text[start:stop].rstrip())
        level, label = 0, ""
        if kind == "heading" and not containers:
            level, label = int(token.tag[1]), _strip_heading_markup(tokens[position + 1].content)
        elif kind in ("heading", "paragraph") and containers:
            begins_item = containers[-1] == "list_item_open" and shared < len(containers)
            kind = "quote" if "blockquote_open" in containers else "list_item" if begins_item else "paragraph"
        blocks.append(MarkdownBlock(kind, start, end, level, label, shared))
        shared = len(containers)
    return blocks


def _add_unreported_blocks(text: str, blocks: Sequence[MarkdownBlock]) -> list[MarkdownBlock]:
    """Add the blocks that the parser does not report: link definitions, empty items and too deeply nested text."""
    filled: list[MarkdownBlock] = []
    at = 0
    for block in (*blocks, MarkdownBlock("", len(text), len(text))):
        between = text[at : block.start]
        if between and not between.isspace():
            start = at + len(between) - len(between.lstrip())
            end = at + len(between.rstrip())
            if filled and filled[-1].kind in _OPEN_ENDED and not _BLANK_LINE.search(text, at, start):
                filled[-1] = filled[-1]._replace(end=end)
            else:
                filled.append(MarkdownBlock("paragraph", start, end))
        if block.start < block.end:
            start = max(block.start, at)
            start += len(text[start : block.end]) - len(text[start : block.end].lstrip())
            filled.append(block._replace(start=start))
            at = block.end
    return filled


def _strip_heading_markup(content: str) -> str:
    """Remove the markup from a heading."""
    content = _strip_anchor(content.strip()[:_MAX_HEADING_CHARS].rstrip())
    marks = len(_MARKUP.findall(content))
    if not marks:
        return content
    if marks > _MAX_HEADING_MARKS:
        return " ".join(content.split())
    words: list[str] = []
    for token in _INLINE_PARSER.parseInline(content)[0].children or []:
        if token.type in ("text", "code_inline", "image"):
            words.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            words.append(" ")
    return " ".join("".join(words).split())


def _strip_anchor(content: str) -> str:
    """Remove the id at the end of a heading such as "Install {#setup}"."""
    start = content.rfind("{#")
    return content[:start].rstrip() if start >= 0 and content.find("}", start) == len(content) - 1 else content
