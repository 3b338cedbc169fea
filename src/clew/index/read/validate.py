"""Validation of Documents made outside: checks their sections, and parses them as markdown if they have none."""

from dataclasses import replace

from clew.core.errors import SourceError
from clew.core.sections import find_section_cycle
from clew.core.thread import THREAD_KIND
from clew.core.types import Document
from clew.index.read.outline import Heading, build_sections_from_headings
from clew.index.read.text.front_matter import to_json_meta
from clew.index.read.text.markdown import parse_markdown_blocks


def validate_document(document: Document) -> Document:
    """The document with sections that cover its text, or a SourceError; one without sections is parsed as markdown."""
    name = document.uri or document.id
    if not document.id:
        raise SourceError(name or "a document", "has no id; give it one that does not change with its text")
    if not document.text.strip():
        raise SourceError(name, "is empty")
    given = to_json_meta(document.meta)
    if not document.sections:
        headings = [
            Heading(part.start, part.level, part.label) for part in parse_markdown_blocks(document.text) if part.level
        ]
        title = document.title or next((heading.label for heading in headings if heading.level == 1), "")
        meta = {"format": "markdown", **given}
        return replace(document, sections=build_sections_from_headings(document.text, headings), title=title, meta=meta)
    document = replace(document, meta=given)
    if document.kind != THREAD_KIND and any(section.access is not None for section in document.sections):
        raise SourceError(
            name, "has labels of access on its sections, which only messages may have; give the document's"
        )
    at = 0
    for position, section in enumerate(document.sections):
        if section.start != at or section.end < section.start:
            raise SourceError(name, f"has sections that do not cover its text in order: see section {position}")
        if section.parent is not None and not 0 <= section.parent < len(document.sections):
            raise SourceError(name, f"has a section with a parent that does not exist: see section {position}")
        at = section.end
    if at != len(document.text):
        raise SourceError(name, f"has sections that end at {at}, but a text of {len(document.text)} characters")
    if (cycle := find_section_cycle(document.sections)) is not None:
        raise SourceError(name, f"has a section that is its own ancestor: see section {cycle}")
    return document
