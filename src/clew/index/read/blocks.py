"""Blocks, the common output of the readers of rich formats, and how they become one markdown text with its sections.

The text is what the chunker cuts and what is cited, so structure is written as markdown (`#`, pipes, fences, nested
lists), and what only looks like markdown is escaped at the start of its line, where it would become structure. Inside a
line nothing is changed, so that identifiers stay findable.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.types import Document, Section
from clew.index.read.outline import make_title_from_file_name

BlockKind = Literal["heading", "paragraph", "list_item", "table", "code", "quote", "caption", "note", "formula"]
MAX_HEADING_LEVEL = 6

_ITEM_NUMBER = re.compile(r"\d{1,9}[.)]")
_LINE_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_LINE_SYNTAX = re.compile(r"#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|`{3}|~{3}|\||<[A-Za-z/!?]|\[[^\]\n]*\]:")
_RULE_CHARACTERS = "-=*_:| \t"  # a line of nothing else would be a rule, an underline or the delimiter row of a table
_BACKTICK_RUNS = re.compile(r"`{3,}")
_TRAILING_HASHES = re.compile(r"(#+)$")
_CONTROL_CHARACTERS = dict.fromkeys([*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0xFFFE, 0xFFFF])


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """A paragraph, heading, list item, table, … of a source, in reading order.

    `text` is the text of the source, unescaped, or a pipe table; `level` is a heading's level from 1 or a list item's
    depth from 0; `marker` is a list item's marker or the language of code.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """What a reader found in one source: its blocks, its title if it has one, and its metadata."""

    blocks: Sequence[SourceBlock]
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


def build_document(page: ParsedSource, *, uri: str, name: str, source_format: str) -> Document:
    """The Document of a parsed source, or a SourceError if it has no text."""
    text, sections = assemble_text_and_sections(page.blocks)
    if not text.strip():
        raise SourceError(uri, "has no text that can be read: it is empty, or holds nothing but pictures")
    title = page.title or next((b.text for b in page.blocks if b.kind == "heading" and b.level == 1 and b.text), "")
    return Document(
        id=make_document_id(uri),
        text=text,
        sections=sections,
        title=collapse_whitespace(title) or make_title_from_file_name(name),
        uri=uri,
        meta={"format": "markdown", "source_format": source_format, **page.meta},
    )


def assemble_text_and_sections(blocks: Iterable[SourceBlock]) -> tuple[str, tuple[Section, ...]]:
    """The markdown text of the blocks, and the sections that partition it.

    A heading opens a section under the nearest heading above it of a lower level. Where the page changes inside a
    section, a section without a label continues it, so that every position has its page and its heading path.
    """
    parts: list[str] = []
    starts: list[tuple[int, str, int | None, int | None]] = []  # offset, label, parent and page of each section
    ancestors: list[tuple[int, int]] = []  # level and position of the open headings
    widths: list[int] = []  # of the markers of the open list items
    offset = 0
    page: int | None = None
    before = ""
    for block in blocks:
        is_new_page = block.page is not None and block.page != page
        if block.kind != "list_item" or before != "list_item" or is_new_page:
            widths = []
        rendered = _render_block(block, widths)
        if not rendered:
            continue
        gap = "" if not parts else "\n" if before == block.kind == "list_item" and not is_new_page else "\n\n"
        parts += (gap, rendered)
        offset += len(gap)
        page = block.page if block.page is not None else page
        if block.kind == "heading":
            while ancestors and ancestors[-1][0] >= block.level:
                ancestors.pop()
            starts.append((offset, collapse_whitespace(block.text), ancestors[-1][1] if ancestors else None, page))
            ancestors.append((block.level, len(starts) - 1))
        elif not starts or is_new_page:
            starts.append((offset, "", ancestors[-1][1] if ancestors else None, page))
        offset += len(rendered)
        before = block.kind
    ends = [start for start, *_ in starts[1:]] + [offset] * bool(starts)
    sections = tuple(
        Section(start, end, label, parent, page=on)
        for (start, label, parent, on), end in zip(starts, ends, strict=True)
    )
    return "".join(parts), sections


def collapse_whitespace(text: str) -> str:
    """The text without control characters, every run of white space made one space."""
    return " ".join((text if text.isprintable() else text.translate(_CONTROL_CHARACTERS)).split())


def escape_paragraph(text: str) -> str:
    """The lines of a paragraph, escaped so that none is parsed as markdown structure; blank lines are dropped."""
    lines = (line.strip() for line in text.translate(_CONTROL_CHARACTERS).splitlines())
    return "\n".join(_escape_line(line) for line in lines if line)


def _escape_line(line: str) -> str:
    if _LINE_SYNTAX.match(line) or not line.strip(_RULE_CHARACTERS):
        return "\\" + line
    return _LINE_NUMBER.sub(r"\1\\\2", line, count=1) if line[0].isdigit() and _LINE_NUMBER.match(line) else line


def _render_block(block: SourceBlock, widths: list[int]) -> str:
    """The block as markdown, empty if it has no text; `widths` are the marker widths of the open list items."""
    match block.kind:
        case "heading":
            label = _TRAILING_HASHES.sub(r"\\\1", collapse_whitespace(block.text))
            level = min(max(block.level, 1), MAX_HEADING_LEVEL)
            return f"{'#' * level} {label}" if label else ""
        case "table":
            return block.text
        case "code":
            return _render_code_block(block.text, block.marker)
        case "quote":
            return "\n".join(f"> {line}" for line in escape_paragraph(block.text).splitlines())
        case "list_item":
            return _render_list_item(block, widths)
        case "formula":
            return f"$${collapse_whitespace(block.text)}$$" if block.text.strip() else ""
        case _:
            return escape_paragraph(block.text)


def _render_code_block(text: str, language: str) -> str:
    if not text.strip():
        return ""
    longest = max((len(found) for found in _BACKTICK_RUNS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    body = "\n".join(text.translate(_CONTROL_CHARACTERS).splitlines()).strip("\n")
    return f"{fence}{''.join(language.split())}\n{body}\n{fence}"


def _render_list_item(block: SourceBlock, widths: list[int]) -> str:
    text = block.text.strip()
    marker = block.marker.strip()
    if not _ITEM_NUMBER.fullmatch(marker):  # markdown has no a) and no 1.2: such a marker is kept as text
        text = f"{marker} {text}" if any(map(str.isalnum, marker)) else text
        marker = "-"
    lines = escape_paragraph(text).splitlines()
    if not lines:
        return ""
    level = min(block.level, len(widths))
    del widths[level:]
    indent = " " * sum(widths)
    widths.append(len(marker) + 1)
    hanging = indent + " " * widths[-1]
    return "\n".join([f"{indent}{marker} {lines[0]}", *(hanging + line for line in lines[1:])])
