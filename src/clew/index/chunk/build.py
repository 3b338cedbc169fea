"""The end of every chunker: spans of a Document become its Chunks."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from clew.core.ids import chunk_ids
from clew.core.types import Chunk, Document
from clew.index.chunk.blocks import Block, sections_of

_LONGEST = 200  # characters of a heading; a paragraph that a stray line of === underlines names nothing


class Cut(NamedTuple):
    """A span that will be a chunk, the section it belongs to, and what has to be said before it."""

    start: int
    end: int
    section: int
    context: str = ""


def build(document: Document, cuts: Sequence[Cut], blocks: Sequence[Block] = (), *, headings: bool) -> list[Chunk]:
    """The chunks of the cuts, numbered in order; a chunk that is for the most part a table or code says so."""
    sections = sections_of(document)
    paths: dict[int, tuple[str, ...]] = {}
    starts = [block.start for block in blocks]
    chunks: list[Chunk] = []
    for index, cut in enumerate(cuts):
        section = sections[cut.section]
        if headings and cut.section not in paths and document.sections:
            paths[cut.section] = tuple(each for each in document.path(cut.section) if len(each) <= _LONGEST)
        meta: dict[str, Any] = {}
        if section.page is not None:
            meta["page"] = section.page
        if section.author:
            meta["author"] = section.author
        if content := _content(cut, blocks, starts):
            meta["content"] = content
        text = document.text[cut.start : cut.end]
        chunks.append(
            Chunk(
                id="",
                doc_id=document.id,
                index=index,
                total=len(cuts),
                text=text,
                start=cut.start,
                end=cut.end,
                headings=paths.get(cut.section, ()),
                context=cut.context,
                at=section.at,
                meta=meta,
            )
        )
    ids = chunk_ids(document.id, [chunk.embed_text for chunk in chunks])
    return [replace(chunk, id=id_) for chunk, id_ in zip(chunks, ids, strict=True)]


def cuts_of(document: Document, spans: Sequence[tuple[int, int]]) -> list[Cut]:
    """The spans, each as a cut of the section that it begins in."""
    ends = [section.end for section in sections_of(document)]
    return [Cut(start, end, bisect_right(ends, start)) for start, end in spans]


def _content(cut: Cut, blocks: Sequence[Block], starts: Sequence[int]) -> str:
    first = max(bisect_right(starts, cut.start) - 1, 0)
    sizes = {"table": 0, "code": 0}
    for block in blocks[first : bisect_right(starts, cut.end)]:
        if block.kind in sizes:
            sizes[block.kind] += max(0, min(block.end, cut.end) - max(block.start, cut.start))
    most = max(sizes, key=lambda kind: sizes[kind])
    return most if 2 * sizes[most] > cut.end - cut.start else ""
