"""Blocks, the common output of the readers of rich formats, and their conversion to markdown text and sections.

Structure is written as markdown (`#`, pipes, fences, nested lists). Text at the start of a line that would be parsed as
structure is escaped. Nothing inside a line is changed, so that identifiers stay findable.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.types import Document, Section

BlockKind = Literal["heading", "paragraph", "list_item", "table", "code", "quote", "caption", "note", "formula"]
MAX_HEADING_LEVEL = 6

_ITEM_NUMBER = re.compile(r"\d{1,9}[.)]")
_LINE_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_LINE_SYNTAX = re.compile(r"#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|`{3}|~{3}|\||<[A-Za-z/!?]|\[[^\]\n]*\]:")
_RULE_CHARACTERS = "-=*_:| \t"  # a line of only these would be a rule, an underline or the delimiter row of a table
_BACKTICK_RUNS = re.compile(r"`{3,}")
_TRAILING_HASHES = re.compile(r"(#+)$")
_CONTROL_CHARACTERS = dict.fromkeys([*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0xFFFE, 0xFFFF])
MAX_TABLE_CHARS = 700  # about a chunk of the default size

Row = Sequence[str]
_SEPARATORS = re.compile(r"[\s_\-]+")


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """A paragraph, heading, list item, table, … of a source.

    text: The unescaped text of the source, or a pipe table.
    level: A heading's level from 1, or a list item's depth from 0.
    marker: A list item's marker, or the language of code.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """The content of a source: its blocks in reading order, its title if it has one, and its metadata."""

    blocks: Sequence[SourceBlock]
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


def build_document(page: ParsedSource, *, uri: str, name: str, source_format: str) -> Document:
    """Build the Document of a parsed source; raise SourceError if it has no text."""
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
    """Return the markdown text of the blocks, and the sections that partition it.

    A heading opens a section under the nearest preceding heading of a lower level. If the page changes inside a
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
    """Remove control characters and replace each run of white space by a space."""
    return " ".join((text if text.isprintable() else text.translate(_CONTROL_CHARACTERS)).split())


def escape_paragraph(text: str) -> str:
    """Escape the lines of a paragraph that would be parsed as markdown structure, dropping blank lines."""
    lines = (line.strip() for line in text.translate(_CONTROL_CHARACTERS).splitlines())
    return "\n".join(_escape_line(line) for line in lines if line)


def _escape_line(line: str) -> str:
    if _LINE_SYNTAX.match(line) or not line.strip(_RULE_CHARACTERS):
        return "\\" + line
    return _LINE_NUMBER.sub(r"\1\\\2", line, count=1) if line[0].isdigit() and _LINE_NUMBER.match(line) else line


def _render_block(block: SourceBlock, widths: list[int]) -> str:
    """Render a block as markdown; empty if it has no text. Updates `widths`, the marker widths of the open items."""
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
    if not _ITEM_NUMBER.fullmatch(marker):  # markdown has no a) and no 1.2: keep such a marker as text
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


def split_large_table(rows: Iterable[Row], *, header_rows: int = 1, page: int | None = None) -> Iterator[SourceBlock]:
    """Yield a table as one block, or split a large one by rows, repeating the header in each block.

    A table whose header exceeds MAX_TABLE_CHARS is first split into groups of columns, each with the first column.
    Time and size grow with the number of filled cells, not with the rectangle around them.
    """
    filled = [_clean_cells(row) for row in rows]
    head = _merge_header_rows(filled[:header_rows])
    body = [row for row in filled[header_rows:] if row]
    width = max(map(len, (head, *body)), default=0)
    if not any(head) and not body:
        return
    head += [""] * (width - len(head))
    if sum(map(len, head)) + 3 * width <= MAX_TABLE_CHARS:
        yield from _split_table_by_rows(head, body, page=page, piece=MAX_TABLE_CHARS)
        return
    for columns, part in _split_table_by_columns(head, body, piece=MAX_TABLE_CHARS // 3):
        yield from _split_table_by_rows(columns, part, page=page, piece=MAX_TABLE_CHARS)


def format_table_row(cells: Iterable[str]) -> str:
    """Format a row of a pipe table."""
    return "| " + " | ".join(cells) + " |"


def _clean_cells(row: Row) -> list[str]:
    """Collapse white space and escape pipes in the cells, dropping empty cells at the end."""
    cells = [collapse_whitespace(cell).replace("|", "\\|") if cell else "" for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _merge_header_rows(rows: Sequence[Row]) -> list[str]:
    """Merge the header rows into one, joining the distinct texts above each column."""
    width = max(map(len, rows), default=0)
    columns = [[row[at] if at < len(row) else "" for row in rows] for at in range(width)]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _split_table_by_rows(head: Row, body: Sequence[Row], *, page: int | None, piece: int) -> Iterator[SourceBlock]:
    named = max((at for at, cell in enumerate(head, 1) if cell), default=0)
    top = len(format_table_row(head[:named])) + 4 * named
    rows: list[Row] = []
    size = top
    for row in body:
        line = 3 * len(row) + sum(map(len, row)) + 2
        if rows and size + line > piece:
            yield _render_pipe_table(head, named, rows, page)
            rows, size = [], top
        rows.append(row)
        size += line
    yield _render_pipe_table(head, named, rows, page)


def _render_pipe_table(head: Row, named: int, rows: Sequence[Row], page: int | None) -> SourceBlock:
    """Render a pipe table, as wide as its named header cells or its longest row."""
    top = head[: max([named, 1, *map(len, rows)])]
    return SourceBlock("table", "\n".join(map(format_table_row, [top, ["-"] * len(top), *rows])), page=page)


def _split_table_by_columns(head: Row, body: Sequence[Row], *, piece: int) -> Iterator[tuple[Row, list[Row]]]:
    """Yield groups of adjacent columns, each with the first column, dropping rows that are empty in a group."""
    spans: list[tuple[int, int]] = []
    start = at = 1
    size = 0
    for at, cell in enumerate(head[1:], 1):
        if at > start and size + len(cell) + 3 > piece:
            spans.append((start, at))
            start, size = at, 0
        size += len(cell) + 3
    spans.append((start, at + 1))
    parts: list[list[Row]] = [[] for _ in spans]
    for row in body:
        for (low, high), part in zip(spans, parts, strict=True):
            if low >= max(len(row), 2):
                break
            if any(row[low:high]) or low == 1:
                part.append([row[0], *row[low:high]])
    for (low, high), part in zip(spans, parts, strict=True):
        if part or any(head[low:high]):
            yield [head[0], *head[low:high]], part


class Heading(NamedTuple):
    """The start, level and label of a section."""

    start: int
    level: int
    label: str


def build_sections_from_headings(
    text: str, headings: Sequence[Heading], *, at: datetime | None = None
) -> tuple[Section, ...]:
    """Build a section from each heading to the next; the sections partition the text.

    Text before the first heading is a section without a label; mere white space there belongs to the first section.
    """
    if not text:
        return ()
    starting = list(headings)
    if not starting or text[: starting[0].start].strip():
        starting.insert(0, Heading(0, 0, ""))
    starts = [0, *(heading.start for heading in starting[1:]), len(text)]
    sections: list[Section] = []
    ancestors: list[tuple[int, int]] = []  # level and position of the open headings
    for position, heading in enumerate(starting):
        while ancestors and ancestors[-1][0] >= heading.level:
            ancestors.pop()
        parent = ancestors[-1][1] if ancestors else None
        sections.append(Section(starts[position], starts[position + 1], heading.label, parent, at=at))
        if heading.level:
            ancestors.append((heading.level, position))
    return tuple(sections)


def make_title_from_file_name(name: str) -> str:
    """Make a title from a file name: `getting-started_2.md` becomes "Getting started 2"."""
    stem = PurePath(name).stem
    words = _SEPARATORS.sub(" ", stem).strip()
    return words[:1].upper() + words[1:] or name
