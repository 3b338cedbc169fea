"""The chunkers of pages, by structure (the default) or by paragraphs, and the quality filter of their chunks.

By structure, chunk boundaries follow the headings, blocks and sentences of a Document, in three passes. Structure:
group the blocks by section. Tokens: count the sections in one batch, and split only those that do not fit into atoms
(`atoms`). Merge: join neighbours under a heading up to the size, with an overlap of whole sentences between the chunks
of a section.

By paragraphs, text is split at blank lines, and the last paragraphs of a chunk are repeated in the next. This is for a
conversation used as a query, and for text without structure beyond paragraphs.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

from clew.core.protocols import Chunker
from clew.core.text import estimate_tokens, tokenize_words
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import (
    PARAGRAPH,
    SEPARATE,
    Atom,
    ChunkBlock,
    Span,
    TokenCounter,
    check_size_and_overlap,
    count_tokens,
    find_document_blocks,
    get_sections_or_whole,
    make_exact_token_check,
    make_token_sum_check,
    pack_atoms,
    split_blocks_into_atoms,
    split_oversized_atoms,
    split_oversized_spans,
)
from clew.index.chunk.build import (
    ChunkSpan,
    assign_chunk_indexes_and_ids,
    assign_spans_to_sections,
    build_chunks_from_spans,
)
from clew.index.read.text.markdown import parse_markdown_blocks

_MAX_CHARS_TO_COUNT = 6  # per token of the size; a longer section is split into atoms without counting
MAX_TOKENS = 1800  # below the limit of older models, 2048
OVERLAP_TOKENS = 150


class _SectionGroup(NamedTuple):
    """Neighbouring blocks that may share a chunk: a section, and preceding sections that are only headings."""

    blocks: Sequence[ChunkBlock]
    section: int


def make_structure_chunker(*, size: int, overlap: int, count: TokenCounter, headings: bool = True) -> Chunker:
    """Make a chunker by structure.

    size: Tokens of a chunk at most, counted by `count`.
    overlap: Tokens at most that chunks of a section share.
    headings: Whether chunks carry the headings above them; their text is the same.
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
    """Split the groups into those that fit into one chunk, and larger ones; very long ones are not counted."""
    short = [group for group in groups if group.blocks[-1].end - group.blocks[0].start <= _MAX_CHARS_TO_COUNT * size]
    counts = count_tokens([text[group.blocks[0].start : group.blocks[-1].end] for group in short], count)
    sections = {group.section for group, tokens in zip(short, counts, strict=True) if tokens <= size}
    return [group for group in groups if group.section in sections], [g for g in groups if g.section not in sections]


def _group_blocks_by_section(document: Document, found: Sequence[ChunkBlock]) -> Iterator[_SectionGroup]:
    """Yield the blocks by section; a section that is only a heading joins the next one."""
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
    """Split groups larger than a chunk into spans."""
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
    """Return whether an atom is a later row of a table, so that a chunk starting there needs the header as context."""
    return bool(atom.table_header) and atom.table_header == before.table_header and len(atom.table_header) <= 2 * size


def estimate_token_counts(texts: Sequence[str]) -> list[int]:
    """Estimate the tokens of each text, without a tokenizer."""
    return [estimate_tokens(text) for text in texts]


def chunk_markdown(
    text: str,
    *,
    max_tokens: int = MAX_TOKENS,
    overlap_tokens: int | None = None,
    count: TokenCounter = estimate_token_counts,
) -> list[str]:
    """Split a text into chunks of whole paragraphs with at most `max_tokens` each."""
    spans = find_paragraph_spans(text, max_tokens=max_tokens, overlap_tokens=overlap_tokens, count=count)
    return [text[start:end] for start, end in spans]


def make_paragraph_chunker(
    *, max_tokens: int = MAX_TOKENS, overlap_tokens: int | None = None, count: TokenCounter = estimate_token_counts
) -> Chunker:
    """Make a chunker by whole paragraphs, which ignores headings as boundaries."""
    overlap = _resolve_overlap(max_tokens, overlap_tokens)

    def chunk(document: Document) -> list[Chunk]:
        spans = find_paragraph_spans(document.text, max_tokens=max_tokens, overlap_tokens=overlap, count=count)
        return build_chunks_from_spans(document, assign_spans_to_sections(document, spans), headings=True)

    return chunk


def find_paragraph_spans(
    text: str,
    *,
    max_tokens: int = MAX_TOKENS,
    overlap_tokens: int | None = None,
    count: TokenCounter = estimate_token_counts,
) -> list[Span]:
    """Find the spans of chunks by paragraphs: none exceeds the limit, and only white space is outside of them.

    A chunk repeats the last paragraphs of the previous one within `overlap_tokens` (default: 150, or a quarter of the
    limit if less), as far as there is room. A paragraph over the limit is split at sentences, then words, then
    characters, and is not repeated.
    """
    overlap = _resolve_overlap(max_tokens, overlap_tokens)
    found = [
        Atom(m.start(), m.start() + len(m[0].rstrip()), "paragraph", 0, repeatable=True)
        for m in PARAGRAPH.finditer(text)
    ]
    found[:1] = [atom._replace(break_level=SEPARATE) for atom in found[:1]]
    atoms, counts = split_oversized_atoms(text, found, size=max_tokens, count=count)
    ranges = pack_atoms(atoms, make_exact_token_check(text, atoms, counts, count), size=max_tokens, overlap=overlap)
    spans = [(atoms[low].start, atoms[high - 1].end) for low, high in ranges]
    return split_oversized_spans(text, spans, [atom.start for atom in atoms], size=max_tokens, count=count)


def _resolve_overlap(max_tokens: int, overlap_tokens: int | None) -> int:
    overlap = min(OVERLAP_TOKENS, max_tokens // 4) if overlap_tokens is None else overlap_tokens
    check_size_and_overlap(size=max_tokens, overlap=overlap, names=("max_tokens", "overlap_tokens"))
    return overlap


def count_characters(texts: Sequence[str]) -> list[int]:
    """Count the characters of each text; for sizes given in characters."""
    return [len(text) for text in texts]


def merge_and_drop_chunks(
    document: Document, chunks: Sequence[Chunk], *, max_size: int, count: TokenCounter
) -> list[Chunk]:
    """Merge small chunks up to `max_size` (by `count`), then drop poor ones."""
    return drop_poor_chunks(merge_small_chunks(document, chunks, max_size=max_size, count=count))


def merge_small_chunks(
    document: Document,
    chunks: Sequence[Chunk],
    *,
    min_chars: int = 200,
    max_size: int | None = None,
    count: TokenCounter = count_characters,
) -> list[Chunk]:
    """Merge neighbouring chunks under the same headings if either has fewer than `min_chars` characters.

    A merged chunk is one span of the document, so an overlap is not doubled. It never exceeds `max_size` (by `count`).
    """
    merged: list[Chunk] = []
    for chunk in chunks:
        before = merged[-1] if merged else None
        if before is not None and _is_mergeable(document, before, chunk, min_chars):
            text = document.text[before.start : chunk.end]
            if max_size is None or count([text])[0] <= max_size:
                meta = {key: value for key, value in before.meta.items() if chunk.meta.get(key) == value}
                merged[-1] = replace(before, text=text, end=chunk.end, meta=meta)
                continue
        merged.append(chunk)
    return assign_chunk_indexes_and_ids(merged)


def drop_poor_chunks(
    chunks: Sequence[Chunk], *, min_chars: int = 50, min_alphanumeric: float = 0.3, min_words: int = 5
) -> list[Chunk]:
    """Drop chunks with too little text besides headings; code and tables of two lines or more always stay."""
    return assign_chunk_indexes_and_ids(
        [
            chunk
            for chunk in chunks
            if _has_enough_text(chunk, min_chars=min_chars, min_alphanumeric=min_alphanumeric, min_words=min_words)
        ]
    )


def _is_mergeable(document: Document, before: Chunk, after: Chunk, min_chars: int) -> bool:
    """Return whether one of two chunks is small, both have the same headings, and only white space is between them."""
    return (
        min(len(before.text), len(after.text)) < min_chars
        and before.headings == after.headings
        and before.start <= after.start
        and before.end <= after.end
        and not document.text[before.end : after.start].strip()
    )


def _has_enough_text(chunk: Chunk, *, min_chars: int, min_alphanumeric: float, min_words: int) -> bool:
    if chunk.meta.get("content") in ("code", "table") and "\n" in chunk.text:
        return True
    blocks = parse_markdown_blocks(chunk.text)
    if any(block.kind in ("code", "table") and "\n" in chunk.text[block.start : block.end] for block in blocks):
        return True
    body = "\n\n".join(chunk.text[block.start : block.end] for block in blocks if block.kind != "heading")
    if len(body) < max(min_chars, 1) or len(tokenize_words(body)) < min_words:
        return False
    return sum(map(str.isalnum, body)) >= min_alphanumeric * len(body)
