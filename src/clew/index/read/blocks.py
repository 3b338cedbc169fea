"""What the readers of rich formats share: the blocks of a page become one markdown text and the sections that cover it.

The text is what the chunker cuts and what is cited, so structure is spelled as markdown (`#`, pipes, fences, nested
lists) and whatever only looks like markdown is escaped at the start of its line, where it would become structure.
Inside a line nothing is touched, so that identifiers stay findable.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from clew.core.errors import SourceError
from clew.core.ids import document_id
from clew.core.types import Document, Section
from clew.index.read.outline import title_of

Kind = Literal["heading", "paragraph", "list_item", "table", "code", "quote", "caption", "note", "formula"]
DEEPEST_HEADING = 6

_NUMBERED = re.compile(r"\d{1,9}[.)]")
_LINE_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_LINE_SYNTAX = re.compile(r"#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|`{3}|~{3}|\||<[A-Za-z/!?]|\[[^\]\n]*\]:")
_RULERS = "-=*_:| \t"  # a line of nothing else is a rule, an underline or the second row of a table
_FENCES = re.compile(r"`{3,}")
_TAIL = re.compile(r"(#+)$")
_CONTROLS = dict.fromkeys([*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0xFFFE, 0xFFFF])


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, item, table, … of a source, in reading order.

    `text` is the words as they stand in the source, of a table its pipe table; `level` is a heading's level from 1 or
    an item's depth from 0; `mark` is an item's marker or the language of code.
    """

    kind: Kind
    text: str
    level: int = 0
    page: int | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What a reader found in one source: its blocks, its title where it has one, and what it says of itself."""

    blocks: Sequence[Block]
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


def document(page: Page, *, uri: str, name: str, source_format: str) -> Document:
    """The Document that the blocks spell, or a SourceError where they spell nothing."""
    text, sections = assemble(page.blocks)
    if not text.strip():
        raise SourceError(uri, "has no text that could be read: it is empty, or holds nothing but pictures")
    title = page.title or next((b.text for b in page.blocks if b.kind == "heading" and b.level == 1 and b.text), "")
    return Document(
        id=document_id(uri),
        text=text,
        sections=sections,
        title=one_line(title) or title_of(name),
        uri=uri,
        meta={"format": "markdown", "source_format": source_format, **page.meta},
    )


def assemble(blocks: Iterable[Block]) -> tuple[str, tuple[Section, ...]]:
    """The markdown text of the blocks, and the sections that partition it.

    A heading opens a section under the nearest heading above it of a lower level. Where the page changes inside one, a
    section without a label goes on under the same heading, so that every place in the text has its page and its path.
    """
    parts: list[str] = []
    opened: list[tuple[int, str, int | None, int | None]] = []  # start, label, parent, page
    above: list[tuple[int, int]] = []  # level and position of the headings that are open
    widths: list[int] = []  # of the markers of the list items that are open
    at = 0
    page: int | None = None
    before = ""
    for block in blocks:
        turned = block.page is not None and block.page != page
        if block.kind != "list_item" or before != "list_item" or turned:
            widths = []
        spelled = _spelled(block, widths)
        if not spelled:
            continue
        gap = "" if not parts else "\n" if before == block.kind == "list_item" and not turned else "\n\n"
        parts += (gap, spelled)
        at += len(gap)
        page = block.page if block.page is not None else page
        if block.kind == "heading":
            while above and above[-1][0] >= block.level:
                above.pop()
            opened.append((at, one_line(block.text), above[-1][1] if above else None, page))
            above.append((block.level, len(opened) - 1))
        elif not opened or turned:
            opened.append((at, "", above[-1][1] if above else None, page))
        at += len(spelled)
        before = block.kind
    ends = [start for start, *_ in opened[1:]] + [at] * bool(opened)
    sections = tuple(
        Section(start, end, label, parent, page=on)
        for (start, label, parent, on), end in zip(opened, ends, strict=True)
    )
    return "".join(parts), sections


def one_line(text: str) -> str:
    """The text with every run of white space made one space."""
    return " ".join((text if text.isprintable() else text.translate(_CONTROLS)).split())


def escaped(text: str) -> str:
    """The lines of a paragraph, none of which can be taken for markdown structure; blank lines are left out."""
    lines = (line.strip() for line in text.translate(_CONTROLS).splitlines())
    return "\n".join(_escaped_line(line) for line in lines if line)


def _escaped_line(line: str) -> str:
    if _LINE_SYNTAX.match(line) or not line.strip(_RULERS):
        return "\\" + line
    return _LINE_NUMBER.sub(r"\1\\\2", line, count=1) if line[0].isdigit() and _LINE_NUMBER.match(line) else line


def _spelled(block: Block, widths: list[int]) -> str:
    """The block as markdown, empty where it has no words; `widths` follows the nesting of a list."""
    match block.kind:
        case "heading":
            label = _TAIL.sub(r"\\\1", one_line(block.text))
            level = min(max(block.level, 1), DEEPEST_HEADING)
            return f"{'#' * level} {label}" if label else ""
        case "table":
            return block.text
        case "code":
            return _fenced(block.text, block.mark)
        case "quote":
            return "\n".join(f"> {line}" for line in escaped(block.text).splitlines())
        case "list_item":
            return _item(block, widths)
        case "formula":
            return f"$${one_line(block.text)}$$" if block.text.strip() else ""
        case _:
            return escaped(block.text)


def _fenced(text: str, language: str) -> str:
    if not text.strip():
        return ""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    body = "\n".join(text.translate(_CONTROLS).splitlines()).strip("\n")
    return f"{fence}{''.join(language.split())}\n{body}\n{fence}"


def _item(block: Block, widths: list[int]) -> str:
    text = block.text.strip()
    marker = block.mark.strip()
    if not _NUMBERED.fullmatch(marker):  # markdown knows no a) and no 1.2: such a marker is part of the words
        text = f"{marker} {text}" if any(map(str.isalnum, marker)) else text
        marker = "-"
    lines = escaped(text).splitlines()
    if not lines:
        return ""
    level = min(block.level, len(widths))
    del widths[level:]
    indent = " " * sum(widths)
    widths.append(len(marker) + 1)
    hanging = indent + " " * widths[-1]
    return "\n".join([f"{indent}{marker} {lines[0]}", *(hanging + line for line in lines[1:])])
