"""The structure chunker, the default: chunk boundaries follow the headings, blocks and sentences of a Document.

Three passes. Structure: blocks by section (`blocks`). Tokens: the sections are counted in one batch, and only those
that do not fit are split further (`atoms`). Merge: neighbours under one heading are joined up to the size, with an
overlap of whole sentences between the chunks of a section (`pack`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from clew.core.protocols import Chunker
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import Atom, TokenCounter, count_tokens, split_blocks_into_atoms
from clew.index.chunk.blocks import ChunkBlock, find_document_blocks, get_sections_or_whole
from clew.index.chunk.build import ChunkSpan, build_chunks_from_spans
from clew.index.chunk.pack import check_size_and_overlap, make_token_sum_check, pack_atoms, split_oversized_spans

_MAX_CHARS_TO_COUNT = 6  # per token of the size; a longer section is counted by its atoms right away


class _SectionGroup(NamedTuple):
    """Neighbouring blocks that may share a chunk: a section, with the sections before it that are only headings."""

    blocks: Sequence[ChunkBlock]
    section: int


def make_structure_chunker(*, size: int, overlap: int, count: TokenCounter, headings: bool = True) -> Chunker:
    """A chunker whose chunks have at most `size` tokens by `count` and overlap by up to `overlap` inside a section.

    With `headings` off, chunks do not carry the headings above them; the text is the same.
    """
    check_size_and_overlap(size=size, overlap=overlap)

    def chunk(document: Document) -> list[Chunk]:
        found = find_document_blocks(document)
        groups = list(_group_blocks_by_section(document, found))
        text = document.text
        fitting, larger = _partition_groups_by_size(text, groups, size=size, count=count)
        spans = [ChunkSpan(group.blocks[0].start, group.blocks[-1].end, group.section) for group in fitting]
        if larger:
            spans += _split_large_groups(text, larger, size=size, overlap=overlap, count=count)
        return build_chunks_from_spans(document, sorted(spans), found, headings=headings)

    return chunk


def _partition_groups_by_size(
    text: str, groups: Sequence[_SectionGroup], *, size: int, count: TokenCounter
) -> tuple[list[_SectionGroup], list[_SectionGroup]]:
    """The groups that fit into one chunk, and those that do not or are too long to be worth counting."""
    short = [group for group in groups if group.blocks[-1].end - group.blocks[0].start <= _MAX_CHARS_TO_COUNT * size]
    counts = count_tokens([text[group.blocks[0].start : group.blocks[-1].end] for group in short], count)
    sections = {group.section for group, tokens in zip(short, counts, strict=True) if tokens <= size}
    return [group for group in groups if group.section in sections], [g for g in groups if g.section not in sections]


def _group_blocks_by_section(document: Document, found: Sequence[ChunkBlock]) -> Iterator[_SectionGroup]:
    """The blocks by section; a section that is only a heading joins the one that follows."""
    sections = get_sections_or_whole(document)
    bare: list[ChunkBlock] = []
    for section, members in groupby(found, key=lambda block: block.section):
        inside = list(members)
        bare += inside
        if not sections[section].label or any(block.kind != "heading" for block in inside):
            yield _SectionGroup(bare, section)
            bare = []
    if bare:
        yield _SectionGroup(bare, bare[-1].section)


def _split_large_groups(
    text: str, groups: Sequence[_SectionGroup], *, size: int, overlap: int, count: TokenCounter
) -> Iterator[ChunkSpan]:
    """The spans of groups that are larger than a chunk."""
    parts, counts = split_blocks_into_atoms(text, [group.blocks for group in groups], size=size, count=count)
    ranges = pack_atoms(parts, make_token_sum_check(counts), size=size, overlap=overlap)
    spans = [(parts[low].start, parts[high - 1].end) for low, high in ranges]
    sums = [sum(counts[low:high]) for low, high in ranges]
    heads = {
        atom.start: atom.table_header for before, atom in pairwise(parts) if _is_later_table_row(before, atom, size)
    }
    starts = [group.blocks[0].start for group in groups]
    for start, end in split_oversized_spans(
        text, spans, [atom.start for atom in parts], size=size, count=count, sums=sums
    ):
        section = groups[bisect_right(starts, start) - 1].section
        yield ChunkSpan(start, end, section, heads.get(start, ""))


def _is_later_table_row(before: Atom, atom: Atom, size: int) -> bool:
    """Whether the atom is a later row of a table: a chunk that starts with it needs the table's header as context."""
    return bool(atom.table_header) and atom.table_header == before.table_header and len(atom.table_header) <= 2 * size
