"""The last step of every chunker: build Chunks with ids and terms from spans; validate a custom chunker's chunks."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from clew.core.analyse import UNKNOWN, analyse_text, make_language_term
from clew.core.errors import ClewError, SettingsError, SourceError
from clew.core.ids import make_chunk_ids
from clew.core.languages import SAMPLE, detect_language, detect_page_language
from clew.core.protocols import Chunker, Enricher
from clew.core.thread import is_thread
from clew.core.time import get_times, select_times
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import ChunkBlock, get_sections_or_whole
from clew.index.read.text.front_matter import to_json_meta

FRONT_MATTER_LINES = "front_matter_lines"  # in Document.meta: lines of the file before its text
_MAX_HEADING_CHARS = 200  # a longer heading is a paragraph with a stray line of === below
OWN_WEIGHT = 2  # weight of a message's own terms; quoted terms count once


class ChunkSpan(NamedTuple):
    """A span that becomes a chunk, the position of its section, and the context to embed before it."""

    start: int
    end: int
    section: int
    context: str = ""


def build_chunks_from_spans(
    document: Document, spans: Sequence[ChunkSpan], blocks: Sequence[ChunkBlock] = (), *, headings: bool
) -> list[Chunk]:
    """Build a chunk from each span, numbered in order.

    meta["content"] is `table` or `code` for a chunk that is mostly one. meta["line"] is its first line in the file, if
    the document has the text of a file. meta["times"] are the positions of parts of a recording in the chunk, each with
    its second.
    """
    sections = get_sections_or_whole(document)
    paths: dict[int, tuple[str, ...]] = {}
    starts = [block.start for block in blocks]
    chunks: list[Chunk] = []
    lines = _LineCounter(document) if _has_lines_of_file(document) else None
    times = get_times(document.meta)
    for span in spans:
        section = sections[span.section]
        if headings and span.section not in paths and document.sections:
            path = document.heading_path(span.section)
            paths[span.section] = tuple(label for label in path if len(label) <= _MAX_HEADING_CHARS)
        meta: dict[str, Any] = {}
        if section.page is not None:
            meta["page"] = section.page
        if section.author:
            meta["author"] = section.author
        if content := _classify_table_or_code(span, blocks, starts):
            meta["content"] = content
        if lines:
            meta["line"] = lines.count_to(span.start)
        if times:
            meta["times"] = select_times(times, span.start, span.end)
        chunks.append(
            Chunk(
                id="",
                doc_id=document.id,
                index=0,
                total=0,
                text=document.text[span.start : span.end],
                start=span.start,
                end=span.end,
                headings=paths.get(span.section, ()),
                context=span.context,
                at=section.at,
                meta=meta,
            )
        )
    return assign_chunk_indexes_and_ids(chunks)


class _LineCounter:
    """A counter of the lines up to a position, fast if positions ascend."""

    def __init__(self, document: Document) -> None:
        self._text = document.text
        before = document.meta.get(FRONT_MATTER_LINES, 0)
        self._first = 1 + (before if isinstance(before, int) else 0)
        self._at = self._lines = 0

    def count_to(self, position: int) -> int:
        """Return the line number at a position, from 1."""
        if position < self._at:
            self._at = self._lines = 0
        self._lines += self._text.count("\n", self._at, position)
        self._at = position
        return self._first + self._lines


def _has_lines_of_file(document: Document) -> bool:
    """Return whether the text is the file's own, not converted from another format."""
    return "source_format" not in document.meta and all(section.page is None for section in document.sections)


def assign_chunk_indexes_and_ids(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Set the indexes (from 0), total and ids of the chunks of a document; ids derive from the embedded text."""
    ids = make_chunk_ids(chunks[0].doc_id, [chunk.embed_text for chunk in chunks]) if chunks else []
    return [
        Chunk(chunk_id, c.doc_id, index, len(ids), c.text, c.start, c.end, c.headings, c.context, c.at, c.meta)
        for index, (c, chunk_id) in enumerate(zip(chunks, ids, strict=True))
    ]


def assign_spans_to_sections(document: Document, spans: Sequence[tuple[int, int]]) -> list[ChunkSpan]:
    """Return the spans, each with the position of the section in which it begins."""
    ends = [section.end for section in get_sections_or_whole(document)]
    return [ChunkSpan(start, end, bisect_right(ends, start)) for start, end in spans]


def _classify_table_or_code(span: ChunkSpan, blocks: Sequence[ChunkBlock], starts: Sequence[int]) -> str:
    """Return `table` or `code` if one is more than half of a span, else empty."""
    first = max(bisect_right(starts, span.start) - 1, 0)
    sizes = {"table": 0, "code": 0}
    for block in blocks[first : bisect_right(starts, span.end)]:
        if block.kind in sizes:
            sizes[block.kind] += max(0, min(block.end, span.end) - max(block.start, span.start))
    largest = max(sizes, key=lambda kind: sizes[kind])
    return largest if 2 * sizes[largest] > span.end - span.start else ""


def count_document_terms(document: Document, chunks: Sequence[Chunk], *, language: str) -> list[dict[str, int]]:
    """Count the terms of each chunk of a document."""
    page = get_page_text(document)
    return [count_chunk_terms(chunk, language=language, page=page) for chunk in chunks]


def get_page_text(document: Document) -> str:
    """Return the text of a page for language detection; empty for a thread, which may have several languages."""
    return "" if is_thread(document) else document.text


def count_chunk_terms(chunk: Chunk, *, language: str, page: str = "") -> dict[str, int]:
    """Count the terms of a chunk; if its context quotes earlier messages, its own terms count double.

    A message then ranks above later messages that only quote it. If `language` is "auto", it is detected from the
    chunk, its quotes or its `page`.
    """
    own, everything = chunk.embed_text, chunk.index_text
    repeats = 0 if own == everything else OWN_WEIGHT - 1
    code = find_chunk_language(chunk, page) if language == "auto" else language
    terms = analyse_text("\n\n".join([everything, *[own] * repeats]), code)
    terms[make_language_term(code)] = 1
    return terms


def find_chunk_language(chunk: Chunk, page: str = "") -> str:
    """Find the language of a chunk, else of its quotes, else of its page; "und" if none is clear."""
    return (
        detect_language(chunk.text[:SAMPLE])
        or (detect_language(chunk.index_text[:SAMPLE]) if chunk.index_text != chunk.text else "")
        or (detect_page_language(page) if page else "")
        or UNKNOWN
    )


def make_validating_chunker(chunker: Chunker) -> Chunker:
    """Wrap a chunker to validate its chunks."""

    def chunk(document: Document) -> list[Chunk]:
        return _run_and_validate(partial(chunker, document), document, f"chunker {get_component_name(chunker)}")

    return chunk


def make_validating_enricher(enricher: Enricher) -> Enricher:
    """Wrap an enricher to validate its chunks."""

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        return _run_and_validate(
            partial(enricher, document, chunks), document, f"enricher {get_component_name(enricher)}"
        )

    return enrich


def get_component_name(component: Chunker | Enricher) -> str:
    """Return the name of a chunker or enricher for the recipe's fingerprint; a new name re-chunks all documents.

    It is the `name` attribute, which may include a version, else the qualified name.
    """
    if isinstance(name := getattr(component, "name", None), str) and name:
        return name
    if isinstance(component, partial):
        return get_component_name(component.func)
    return str(getattr(component, "__qualname__", type(component).__qualname__))


def validate_chunks(document: Document, chunks: Sequence[Chunk], *, made_by: str) -> list[Chunk]:
    """Set the indexes and ids of the chunks; raise SettingsError if they break the rules of spans.

    A chunk is a span of its document (`document.text[chunk.start:chunk.end] == chunk.text`) and not empty, and chunks
    are in the order of the document.
    """
    before = 0
    for position, chunk in enumerate(chunks):
        if problem := _find_chunk_problem(document, chunk, before):
            raise SettingsError(f"{made_by}: chunk {position} of {document.uri or document.id} {problem}")
        before = chunk.start
    return assign_chunk_indexes_and_ids([replace(chunk, meta=to_json_meta(chunk.meta)) for chunk in chunks])


def _run_and_validate(make: Callable[[], list[Chunk]], document: Document, made_by: str) -> list[Chunk]:
    try:
        chunks = make()
    except ClewError:
        raise
    except Exception as error:  # fail for this document only
        reason = f"{made_by} failed: {type(error).__name__}: {error}"
        raise SourceError(document.uri or document.id, reason) from error
    if not isinstance(chunks, list | tuple):
        raise SettingsError(f"{made_by} returned {type(chunks).__name__}; it must return a list of Chunk")
    return validate_chunks(document, chunks, made_by=made_by)


def _find_chunk_problem(document: Document, chunk: object, before: int) -> str:
    """Describe the problem of a chunk; empty if it is valid. `before` is the start of the previous chunk."""
    if not isinstance(chunk, Chunk):
        return f"is a {type(chunk).__name__}; it must be a Chunk"
    if chunk.doc_id != document.id:
        return f"has the doc_id {chunk.doc_id!r}; it must be that of the document, {document.id!r}"
    if not 0 <= chunk.start < chunk.end <= len(document.text):
        return f"spans {chunk.start} to {chunk.end}; it must be a span of the text, which has {len(document.text)}"
    if document.text[chunk.start : chunk.end] != chunk.text:
        return f"is not the text from {chunk.start} to {chunk.end}: set text to document.text[start:end]"
    if chunk.start < before:
        return f"starts at {chunk.start}, before the one that precedes it at {before}; return them in document order"
    return ""
