"""Splitting of a source into sections that are documents, and validation of the sections of any document.

Each such section names its source in `meta`: `parent` (the id of the source), `section_number` (from 1) and `sections`
(the total). A source with a single section stays whole under its own id, with `sections` 1.
"""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.errors import SettingsError, SourceError
from clew.core.filter import Meta
from clew.core.thread import THREAD_KIND, is_thread
from clew.core.types import Document, DocumentRecord, Section, find_section_cycle
from clew.index.read.blocks import Heading, build_sections_from_headings
from clew.index.read.text.front_matter import to_json_meta
from clew.index.read.text.markdown import parse_markdown_blocks

PARENT, NUMBER, TOTAL = "parent", "section_number", "sections"
TITLE_SEPARATOR = " > "  # between the titles of a source and its section


def split_into_sections(
    document: Document, *, level: int | None = None, max_chars: int | None = None
) -> list[Document]:
    """Split a long document into sections, each a document with its parent and number in `meta`.

    level: A section begins at each heading of this level or above (default: the first level with more than one
        heading, usually that of the chapters).
    max_chars: Split a longer section after a paragraph.

    The joined texts of the sections are the text of the document. The id and address of a section are those of the
    document followed by `#section-2`. A document with a single section is returned whole, with its own id and title.
    """
    if is_section(document.meta):
        raise SettingsError(f"{document.uri or document.id} is a section of another document already")
    document = validate_document(document)
    if is_thread(document):
        raise SettingsError(f"{document.uri or document.id} is a conversation; it is not split into sections")
    for name, value in (("level", level), ("max_chars", max_chars)):
        if value is not None and value < 1:
            raise SettingsError(f"{name} is {value}; it must be at least 1")
    spans = _cut_at_headings(document, level)
    if max_chars is not None:
        spans = [part for span in spans for part in _cut_after_paragraphs(document.text, span, max_chars)]
    if len(spans) == 1:
        return [replace(document, meta={**document.meta, TOTAL: 1}, hash="")]
    return [_make_section(document, span, number, len(spans)) for number, span in enumerate(spans, 1)]


def is_section(meta: Meta) -> bool:
    """Return whether a document with this meta is a section of a source: it has a parent, a number and a total."""
    number, total = meta.get(NUMBER), meta.get(TOTAL)
    return bool(meta.get(PARENT)) and isinstance(number, int) and isinstance(total, int) and number >= 1


def make_section_name(name: str, number: int) -> str:
    """Make the id or address of a section from that of its document."""
    return f"{name}#section-{number}" if name else ""


def get_source_uri(record: DocumentRecord | Document) -> str:
    """Return the address of the source of a document; for a section, without its number."""
    if not is_section(record.meta):
        return record.uri
    return record.uri.removesuffix(make_section_name("#", record.meta[NUMBER])[1:])


def sort_sections(records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
    """Return the records that are sections, sorted by number."""
    return sorted((each for each in records if is_section(each.meta)), key=lambda each: int(each.meta[NUMBER]))


def join_sections(parts: Sequence[Document]) -> Document:
    """Join sections, given in order, into their document; `meta["sections"]` is their number.

    A blank line separates two sections unless the first ends with a newline.
    """
    first, text, sections = parts[0], "", list[Section]()
    for part in parts:
        text += "" if not text or text.endswith("\n") else "\n\n"
        if sections:  # sections partition the text: the blank line belongs to the previous one
            sections[-1] = replace(sections[-1], end=len(text))
        first_section = len(sections)
        sections += [_shift_section(each, len(text), first_section) for each in part.sections]
        text += part.text
    number = make_section_name("#", first.meta[NUMBER])[1:]
    meta = {**{key: value for key, value in first.meta.items() if key not in (PARENT, NUMBER)}, TOTAL: len(parts)}
    uri = first.uri.removesuffix(number)
    return replace(
        first,
        id=str(first.meta[PARENT]),
        text=text,
        sections=tuple(sections),
        title=_get_source_title(first),
        uri=uri,
        summary="",
        summary_by="",
        meta=meta,
        hash="",
        stamp="",
    )


def _cut_at_headings(document: Document, level: int | None) -> list[tuple[int, int]]:
    """Return the spans between headings of a level or above; a heading without text is joined with the next span."""
    depths = [len(document.heading_path(place)) for place in range(len(document.sections))]
    if level is None:
        several = (each for each in range(1, max(depths, default=0) + 1) if depths.count(each) > 1)
        level = next(several, 1)
    starts = [
        each.start for each, depth in zip(document.sections, depths, strict=True) if 0 < depth <= level and each.label
    ]
    cuts = sorted({0, *starts, len(document.text)})
    spans: list[tuple[int, int]] = []
    start = 0
    for end in cuts[1:]:
        if "\n" in document.text[start:end].strip() or end == cuts[-1]:
            spans.append((start, end))
            start = end
    return spans


def _cut_after_paragraphs(text: str, span: tuple[int, int], max_chars: int) -> list[tuple[int, int]]:
    """Split a span into spans of at most `max_chars`, after paragraphs or else lines; a longer line stays whole."""
    start, end = span
    spans: list[tuple[int, int]] = []
    while end - start > max_chars:
        last = start + max_chars
        for mark in ("\n\n", "\n"):
            cut = text.rfind(mark, start, last) + len(mark)
            if cut > start + len(mark) and text[start:cut].strip():
                break
        else:
            blank = len(text[start:end]) - len(text[start:end].lstrip())
            cut = text.find("\n", max(last, start + blank), end) + 1
            if not cut:
                break
        spans.append((start, cut))
        start = cut
    return [*spans, (start, end)] if text[start:end].strip() or not spans else [*spans[:-1], (spans[-1][0], end)]


def _make_section(document: Document, span: tuple[int, int], number: int, total: int) -> Document:
    start, end = span
    inside = [place for place, each in enumerate(document.sections) if each.start < end and each.end > start]
    places = {place: new for new, place in enumerate(inside)}
    sections = tuple(
        replace(
            each,
            start=max(each.start, start) - start,
            end=min(each.end, end) - start,
            parent=None if each.parent is None else places.get(each.parent),
        )
        for each in map(document.sections.__getitem__, inside)
    )
    label = next((each.label for each in sections if each.label and each.label != document.title), "")
    return replace(
        document,
        id=make_section_name(document.id, number),
        text=document.text[start:end],
        sections=sections,
        title=TITLE_SEPARATOR.join(filter(None, (document.title, label))),
        uri=make_section_name(document.uri, number),
        summary="",
        summary_by="",
        hash="",
        stamp="",
        meta={**document.meta, PARENT: document.id, NUMBER: number, TOTAL: total},
    )


def _get_source_title(section: Document) -> str:
    """Return the title of the source of a section, by removing the added heading from the section's title."""
    labels = (each.label for each in section.sections if each.label)
    added = next((TITLE_SEPARATOR + each for each in labels if section.title.endswith(TITLE_SEPARATOR + each)), "")
    return section.title.removesuffix(added)


def _shift_section(section: Section, by: int, first: int) -> Section:
    parent = None if section.parent is None else section.parent + first
    return replace(section, start=section.start + by, end=section.end + by, parent=parent)


def validate_document(document: Document) -> Document:
    """Check the sections of a document, or parse it as markdown if it has none; raise SourceError if invalid."""
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
