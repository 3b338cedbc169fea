"""The last step of every chunker: spans of a Document become its Chunks."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from clew.core.ids import make_chunk_ids
from clew.core.recording import get_times, select_times
from clew.core.types import Chunk, Document
from clew.index.chunk.blocks import ChunkBlock, get_sections_or_whole

FRONT_MATTER_LINES = "front_matter_lines"  # in Document.meta: lines of the file before its text
_MAX_HEADING_CHARS = 200  # a longer heading is a paragraph that a stray line of === underlines


class ChunkSpan(NamedTuple):
    """A span that will be a chunk, the position of its section, and the context to embed before it."""

    start: int
    end: int
    section: int
    context: str = ""


def build_chunks_from_spans(
    document: Document, spans: Sequence[ChunkSpan], blocks: Sequence[ChunkBlock] = (), *, headings: bool
) -> list[Chunk]:
    """One chunk per span, numbered in order; meta["content"] marks a chunk that is mostly a table or code.

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
        """The number of the line at a position, from 1 on."""
        if position < self._at:
            self._at = self._lines = 0
        self._lines += self._text.count("\n", self._at, position)
        self._at = position
        return self._first + self._lines


def _has_lines_of_file(document: Document) -> bool:
    """Whether the text is that of a file, not one that a reader made of another format."""
    return "source_format" not in document.meta and all(section.page is None for section in document.sections)


def assign_chunk_indexes_and_ids(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks of one document with indexes from 0 on, their total, and ids made from what is embedded of them."""
    ids = make_chunk_ids(chunks[0].doc_id, [chunk.embed_text for chunk in chunks]) if chunks else []
    return [
        Chunk(chunk_id, c.doc_id, index, len(ids), c.text, c.start, c.end, c.headings, c.context, c.at, c.meta)
        for index, (c, chunk_id) in enumerate(zip(chunks, ids, strict=True))
    ]


def assign_spans_to_sections(document: Document, spans: Sequence[tuple[int, int]]) -> list[ChunkSpan]:
    """The spans, each with the position of the section that it begins in."""
    ends = [section.end for section in get_sections_or_whole(document)]
    return [ChunkSpan(start, end, bisect_right(ends, start)) for start, end in spans]


def _classify_table_or_code(span: ChunkSpan, blocks: Sequence[ChunkBlock], starts: Sequence[int]) -> str:
    """`table` or `code` where more than half of a span is that, else empty."""
    first = max(bisect_right(starts, span.start) - 1, 0)
    sizes = {"table": 0, "code": 0}
    for block in blocks[first : bisect_right(starts, span.end)]:
        if block.kind in sizes:
            sizes[block.kind] += max(0, min(block.end, span.end) - max(block.start, span.start))
    largest = max(sizes, key=lambda kind: sizes[kind])
    return largest if 2 * sizes[largest] > span.end - span.start else ""
