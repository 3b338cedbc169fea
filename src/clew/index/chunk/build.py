"""The last step of every chunker: spans become Chunks with ids and terms; a program's own chunks are checked."""

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
_MAX_HEADING_CHARS = 200  # a longer heading is a paragraph that a stray line of === underlines
OWN_WEIGHT = 2  # times that a message's own terms are counted; quoted terms count once


class ChunkSpan(NamedTuple):
    """A span that will be a chunk, the position of its section, and the context to embed before it."""

    start: int
    end: int
    section: int
    context: str = ""


def build_chunks_from_spans(
    document: Document, spans: Sequence[ChunkSpan], blocks: Sequence[ChunkBlock] = (), *, headings: bool
) -> list[Chunk]:
    """Build one chunk per span, numbered in order; meta["content"] marks a chunk that is mostly a table or code.

    meta["line"] is the line on which it begins, in a document whose text is that of its file; meta["times"] are the
    seconds of a recording at which its parts were said, each with the position in the chunk.
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
    """Counts the lines of a document up to positions that mostly ascend."""

    def __init__(self, document: Document) -> None:
        self._text = document.text
        before = document.meta.get(FRONT_MATTER_LINES, 0)
        self._first = 1 + (before if isinstance(before, int) else 0)
        self._at = self._lines = 0

    def count_to(self, position: int) -> int:
        """Return the number of the line at a position, from 1 on."""
        if position < self._at:
            self._at = self._lines = 0
        self._lines += self._text.count("\n", self._at, position)
        self._at = position
        return self._first + self._lines


def _has_lines_of_file(document: Document) -> bool:
    """Return whether the text is that of a file, not one that a reader made of another format."""
    return "source_format" not in document.meta and all(section.page is None for section in document.sections)


def assign_chunk_indexes_and_ids(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Give the chunks of one document their numbers from 0, their total, and ids made from their embedded text."""
    ids = make_chunk_ids(chunks[0].doc_id, [chunk.embed_text for chunk in chunks]) if chunks else []
    return [
        Chunk(chunk_id, c.doc_id, index, len(ids), c.text, c.start, c.end, c.headings, c.context, c.at, c.meta)
        for index, (c, chunk_id) in enumerate(zip(chunks, ids, strict=True))
    ]


def assign_spans_to_sections(document: Document, spans: Sequence[tuple[int, int]]) -> list[ChunkSpan]:
    """Return the spans, each with the position of the section that it begins in."""
    ends = [section.end for section in get_sections_or_whole(document)]
    return [ChunkSpan(start, end, bisect_right(ends, start)) for start, end in spans]


def _classify_table_or_code(span: ChunkSpan, blocks: Sequence[ChunkBlock], starts: Sequence[int]) -> str:
    """Return `table` or `code` where it is more than half of a span, else empty."""
    first = max(bisect_right(starts, span.start) - 1, 0)
    sizes = {"table": 0, "code": 0}
    for block in blocks[first : bisect_right(starts, span.end)]:
        if block.kind in sizes:
            sizes[block.kind] += max(0, min(block.end, span.end) - max(block.start, span.start))
    largest = max(sizes, key=lambda kind: sizes[kind])
    return largest if 2 * sizes[largest] > span.end - span.start else ""


def count_document_terms(document: Document, chunks: Sequence[Chunk], *, language: str) -> list[dict[str, int]]:
    """Return the term frequencies of the chunks of a document."""
    page = get_page_text(document)
    return [count_chunk_terms(chunk, language=language, page=page) for chunk in chunks]


def get_page_text(document: Document) -> str:
    """Return the text that may tell the language of the chunks: that of a page, none of a thread.

    The messages of a thread may be in several languages.
    """
    return "" if is_thread(document) else document.text


def count_chunk_terms(chunk: Chunk, *, language: str, page: str = "") -> dict[str, int]:
    """Return the term frequencies of a chunk; where its context quotes earlier messages, its own terms count double.

    So a message that says something comes before those that follow it and are found by the same words. Where `language`
    is "auto", it is detected from the chunk, its quotes or its `page`.
    """
    own, everything = chunk.embed_text, chunk.index_text
    repeats = 0 if own == everything else OWN_WEIGHT - 1
    code = find_chunk_language(chunk, page) if language == "auto" else language
    terms = analyse_text("\n\n".join([everything, *[own] * repeats]), code)
    terms[make_language_term(code)] = 1
    return terms


def find_chunk_language(chunk: Chunk, page: str = "") -> str:
    """Find the language of a chunk, of its quotes or of its page; "und" where none is clear."""
    return (
        detect_language(chunk.text[:SAMPLE])
        or (detect_language(chunk.index_text[:SAMPLE]) if chunk.index_text != chunk.text else "")
        or (detect_page_language(page) if page else "")
        or UNKNOWN
    )


def make_validating_chunker(chunker: Chunker) -> Chunker:
    """Make the same chunker with its chunks validated."""

    def chunk(document: Document) -> list[Chunk]:
        return _run_and_validate(partial(chunker, document), document, f"chunker {get_component_name(chunker)}")

    return chunk


def make_validating_enricher(enricher: Enricher) -> Enricher:
    """Make the same enricher with its chunks validated."""

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        return _run_and_validate(
            partial(enricher, document, chunks), document, f"enricher {get_component_name(enricher)}"
        )

    return enrich


def get_component_name(component: Chunker | Enricher) -> str:
    """Return the name of a chunker or enricher in the recipe's fingerprint; a new name re-chunks all documents.

    This is its `name` attribute where it has one, which can hold a version, else its qualified name.
    """
    if isinstance(name := getattr(component, "name", None), str) and name:
        return name
    if isinstance(component, partial):
        return get_component_name(component.func)
    return str(getattr(component, "__qualname__", type(component).__qualname__))


def validate_chunks(document: Document, chunks: Sequence[Chunk], *, made_by: str) -> list[Chunk]:
    """Give the chunks their numbers and ids; a SettingsError where they break the rules of spans.

    A chunk is a span of its document (`document.text[chunk.start:chunk.end] == chunk.text`), none is empty, and they
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
    except Exception as error:  # it fails for this document; the others are still added
        reason = f"{made_by} failed: {type(error).__name__}: {error}"
        raise SourceError(document.uri or document.id, reason) from error
    if not isinstance(chunks, list | tuple):
        raise SettingsError(f"{made_by} returned {type(chunks).__name__}; it must return a list of Chunk")
    return validate_chunks(document, chunks, made_by=made_by)


def _find_chunk_problem(document: Document, chunk: object, before: int) -> str:
    """Name the problem of a chunk, given where the one before it starts; empty where there is none."""
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
