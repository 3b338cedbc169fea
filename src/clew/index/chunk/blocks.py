"""The first pass of the structure chunker: the blocks of a Document in order, each inside one section."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clew.core.types import Document, Section
from clew.index.read.text.markdown import MarkdownBlock, parse_markdown_blocks, parse_markdown_blocks_uncached
from clew.index.read.text.plain import find_underlined_titles

PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")  # lines up to one that is blank


@dataclass(frozen=True, slots=True)
class ChunkBlock:
    """A paragraph, table, … of a Document: `text[start:end]` has no white space at its ends.

    `kind` is heading, paragraph, list_item, quote, table, code, html or rule. `depth` is how many lists, items and
    quotes contain both this block and the one before: 0 starts something new, 1 is the next item of the same list.
    """

    kind: str
    start: int
    end: int
    section: int
    level: int = 0
    depth: int = 0


def find_document_blocks(document: Document) -> list[ChunkBlock]:
    """Find the blocks of the document; together they cover everything that is not white space."""
    sections = get_sections_or_whole(document)
    ends = [section.end for section in sections]
    return [
        ChunkBlock(part.kind, part.start, part.end, bisect_right(ends, part.start), part.level, part.depth)
        for part in _parse_by_format(document, sections)
    ]


def get_sections_or_whole(document: Document) -> tuple[Section, ...]:
    """Return the sections of the document; one section without a label where it has none."""
    if document.sections or not document.text:
        return document.sections
    return (Section(0, len(document.text)),)


def _parse_by_format(document: Document, sections: Sequence[Section]) -> Iterable[MarkdownBlock]:
    kind = document.meta.get("format", "markdown")
    if kind == "code":
        return _split_paragraphs(document.text, sections, "code")
    if kind == "text":
        return _parse_plain_text(document.text, sections)
    return _parse_markdown_document(document.text, sections)


def _parse_markdown_document(text: str, sections: Sequence[Section]) -> Iterable[MarkdownBlock]:
    """Parse the blocks of the Markdown parser.

    If one would reach into the next section (a code block that is never closed), each section is parsed by itself.
    """
    parts = parse_markdown_blocks(text)
    ends = [section.end for section in sections]
    if all(part.end <= ends[bisect_right(ends, part.start)] for part in parts):
        return parts
    return [
        part._replace(start=part.start + section.start, end=part.end + section.start)
        for section in sections
        for part in parse_markdown_blocks_uncached(text[section.start : section.end])
    ]


def _parse_plain_text(text: str, sections: Sequence[Section]) -> Iterator[MarkdownBlock]:
    """Yield the paragraphs of plain text, with the titles at the start of sections as headings."""
    title_ends = {title.start: title.end for title in find_underlined_titles(text)}
    for section in sections:
        start = section.start
        first = PARAGRAPH.search(text, section.start, section.end) if section.label else None
        if first is not None and title_ends.get(first.start(), section.end + 1) <= section.end:
            start = title_ends[first.start()]
            yield MarkdownBlock("heading", first.start(), start)
        yield from _split_paragraphs(text, [Section(start, section.end)], "paragraph")


def _split_paragraphs(text: str, sections: Sequence[Section], kind: str) -> Iterator[MarkdownBlock]:
    for section in sections:
        for match in PARAGRAPH.finditer(text, section.start, section.end):
            yield MarkdownBlock(kind, match.start(), match.start() + len(match[0].rstrip()))
