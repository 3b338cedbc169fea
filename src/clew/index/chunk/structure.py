"""The structure chunker, the default: chunks follow the headings, blocks and sentences of a Document.

Three passes. Structure: blocks by section (`blocks`). Tokens: the sections are counted in one batch, and only those
that do not fit are looked at more closely (`atoms`). Merge: neighbours under one heading are joined up to the size,
with an overlap of whole sentences between the chunks of a section (`pack`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from clew.core.protocols import Chunker
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import Atom, Count, atoms, measured
from clew.index.chunk.blocks import Block, blocks, sections_of
from clew.index.chunk.build import Cut, build
from clew.index.chunk.pack import added, check, fitted, pack

_WORTH_COUNTING = 6  # characters a token; a longer section is counted by its atoms at once, which tells as well


class _Group(NamedTuple):
    """Neighbouring blocks that may share a chunk: a section, with the bare headings right before it."""

    blocks: Sequence[Block]
    section: int


def structure(*, size: int, overlap: int, count: Count, headings: bool = True) -> Chunker:
    """A chunker whose chunks have at most `size` tokens by `count`, and share up to `overlap` inside a section.

    With `headings` off, chunks do not carry the headings above them; the text is the same.
    """
    check(size=size, overlap=overlap)

    def chunk(document: Document) -> list[Chunk]:
        found = blocks(document)
        groups = list(_groups(document, found))
        text = document.text
        fitting, larger = _sorted_out(text, groups, size=size, count=count)
        cuts = [Cut(group.blocks[0].start, group.blocks[-1].end, group.section) for group in fitting]
        if larger:
            cuts += _divided(text, larger, size=size, overlap=overlap, count=count)
        return build(document, sorted(cuts), found, headings=headings)

    return chunk


def _sorted_out(text: str, groups: Sequence[_Group], *, size: int, count: Count) -> tuple[list[_Group], list[_Group]]:
    """The groups that fit into one chunk, and those that do not or are too long for it to be worth counting."""
    short = [group for group in groups if group.blocks[-1].end - group.blocks[0].start <= _WORTH_COUNTING * size]
    counts = measured([text[group.blocks[0].start : group.blocks[-1].end] for group in short], count)
    sections = {group.section for group, tokens in zip(short, counts, strict=True) if tokens <= size}
    return [group for group in groups if group.section in sections], [g for g in groups if g.section not in sections]


def _groups(document: Document, found: Sequence[Block]) -> Iterator[_Group]:
    """The blocks by section; a section that is nothing but its heading goes with the one that follows."""
    sections = sections_of(document)
    bare: list[Block] = []
    for section, members in groupby(found, key=lambda block: block.section):
        inside = list(members)
        bare += inside
        if not sections[section].label or any(block.kind != "heading" for block in inside):
            yield _Group(bare, section)
            bare = []
    if bare:
        yield _Group(bare, bare[-1].section)


def _divided(text: str, groups: Sequence[_Group], *, size: int, overlap: int, count: Count) -> Iterator[Cut]:
    """The cuts of groups that are larger than a chunk."""
    parts, counts = atoms(text, [group.blocks for group in groups], size=size, count=count)
    ranges = pack(parts, added(counts), size=size, overlap=overlap)
    spans = [(parts[low].start, parts[high - 1].end) for low, high in ranges]
    sums = [sum(counts[low:high]) for low, high in ranges]
    heads = {atom.start: atom.head for before, atom in pairwise(parts) if _goes_on(before, atom, size)}
    starts = [group.blocks[0].start for group in groups]
    for start, end in fitted(text, spans, [atom.start for atom in parts], size=size, count=count, sums=sums):
        section = groups[bisect_right(starts, start) - 1].section
        yield Cut(start, end, section, heads.get(start, ""))


def _goes_on(before: Atom, atom: Atom, size: int) -> bool:
    """Whether the atom is a later row of a table, so that a chunk that begins with it needs the table's first row."""
    return bool(atom.head) and atom.head == before.head and len(atom.head) <= 2 * size
