"""The first pass of the structure chunker: the blocks of a Document, in order, each inside one section."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clew.core.types import Document, Section
from clew.index.read.text.markdown import Part, parse, parts_of
from clew.index.read.text.plain import titles

PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")  # lines up to one that is blank


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, table, … of a Document: `text[start:end]` has no white space at its ends.

    `kind` is heading, paragraph, list_item, quote, table, code, html or rule. `depth` is how many lists, items and
    quotes hold both this block and the one before: 0 begins something new, 1 is the next item of the same list.
    """

    kind: str
    start: int
    end: int
    section: int
    level: int = 0
    depth: int = 0


def blocks(document: Document) -> list[Block]:
    """The blocks that together hold everything in the document that is not white space."""
    sections = sections_of(document)
    ends = [section.end for section in sections]
    return [
        Block(part.kind, part.start, part.end, bisect_right(ends, part.start), part.level, part.depth)
        for part in _parts(document, sections)
    ]


def sections_of(document: Document) -> tuple[Section, ...]:
    """The sections of the document; one without a label where none are given."""
    if document.sections or not document.text:
        return document.sections
    return (Section(0, len(document.text)),)


def _parts(document: Document, sections: Sequence[Section]) -> Iterable[Part]:
    kind = document.meta.get("format", "markdown")
    if kind == "code":
        return _paragraphs(document.text, sections, "code")
    if kind == "text":
        return _titled(document.text, sections)
    return _of_markdown(document.text, sections)


def _of_markdown(text: str, sections: Sequence[Section]) -> Iterable[Part]:
    """The parser's blocks. Where one would reach into the next section (a chat message that opens a code block and
    never closes it), each section is parsed by itself."""
    parts = parse(text)
    ends = [section.end for section in sections]
    if all(part.end <= ends[bisect_right(ends, part.start)] for part in parts):
        return parts
    return [
        part._replace(start=part.start + section.start, end=part.end + section.start)
        for section in sections
        for part in parts_of(text[section.start : section.end])
    ]


def _titled(text: str, sections: Sequence[Section]) -> Iterator[Part]:
    """The paragraphs of plain text, and the titles that sections begin with."""
    title_ends = {title.start: title.end for title in titles(text)}
    for section in sections:
        start = section.start
        first = PARAGRAPH.search(text, section.start, section.end) if section.label else None
        if first is not None and title_ends.get(first.start(), section.end + 1) <= section.end:
            start = title_ends[first.start()]
            yield Part("heading", first.start(), start)
        yield from _paragraphs(text, [Section(start, section.end)], "paragraph")


def _paragraphs(text: str, sections: Sequence[Section], kind: str) -> Iterator[Part]:
    for section in sections:
        for match in PARAGRAPH.finditer(text, section.start, section.end):
            yield Part(kind, match.start(), match.start() + len(match[0].rstrip()))
