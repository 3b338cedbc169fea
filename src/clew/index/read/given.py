"""Documents that a program made: checked at the door, and given the sections they lack."""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.errors import SourceError
from clew.core.types import Document, Section
from clew.index.read.outline import Heading, outline
from clew.index.read.text.front_matter import safe_meta
from clew.index.read.text.markdown import parse


def prepared(document: Document) -> Document:
    """The document with sections that cover its text; one that has none is read as markdown."""
    name = document.uri or document.id
    if not document.id:
        raise SourceError(name or "a document", "has no id; give it one that stays the same when its text changes")
    if not document.text.strip():
        raise SourceError(name, "is empty")
    document = replace(document, meta=safe_meta(document.meta))
    if not document.sections:
        headings = [Heading(part.start, part.level, part.label) for part in parse(document.text) if part.level]
        title = document.title or next((heading.label for heading in headings if heading.level == 1), "")
        meta = {"format": "markdown", **document.meta}
        return replace(document, sections=outline(document.text, headings), title=title, meta=meta)
    at = 0
    for position, section in enumerate(document.sections):
        if section.start != at or section.end < section.start:
            raise SourceError(name, f"has sections that do not cover its text in order: see number {position}")
        if section.parent is not None and not 0 <= section.parent < len(document.sections):
            raise SourceError(name, f"has a section whose parent is not there: see number {position}")
        at = section.end
    if at != len(document.text):
        raise SourceError(name, f"has sections up to {at}, but {len(document.text)} characters")
    if (circular := _circular(document.sections)) is not None:
        raise SourceError(name, f"has a section that is above itself: see number {circular}")
    return document


def _circular(sections: Sequence[Section]) -> int | None:
    """The position of a section that is reached again on the way up from it, or None."""
    ends: set[int] = set()  # sections from which the way up is known to end
    for start in range(len(sections)):
        way: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in ends:
            if at in way:
                return at
            way[at] = None
            at = sections[at].parent
        ends |= way.keys()
    return None
