"""The structure chunker: the blocks of a Document become atoms, which are packed into spans that fit.

An atom is the smallest part of a chunk: a sentence, or a table or code block that fits a chunk. Larger ones are split:
tables by rows, code by blank lines and then lines, text by lines and words, and a word that is too long by characters.
Neighbouring spans overlap by whole sentences.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import le
from typing import NamedTuple

from clew.core.errors import SettingsError
from clew.core.sentences import split_sentences
from clew.core.types import Document, Section
from clew.index.read.text.markdown import MarkdownBlock, parse_markdown_blocks, parse_markdown_blocks_uncached
from clew.index.read.text.plain import find_underlined_titles

PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")  # lines up to a blank one


@dataclass(frozen=True, slots=True)
class ChunkBlock:
    """A paragraph, table, … of a Document: `text[start:end]` has no white space at its ends.

    `kind` is heading, paragraph, list_item, quote, table, code, html or rule. `depth` counts the lists, items and
    quotes around both this block and the previous one: 0 starts something new, 1 is the next item of the same list.
    """

    kind: str
    start: int
    end: int
    section: int
    level: int = 0
    depth: int = 0


def find_document_blocks(document: Document) -> list[ChunkBlock]:
    """Find the blocks of the document. They cover everything but white space."""
    sections = get_sections_or_whole(document)
    ends = [section.end for section in sections]
    return [
        ChunkBlock(part.kind, part.start, part.end, bisect_right(ends, part.start), part.level, part.depth)
        for part in _parse_by_format(document, sections)
    ]


def get_sections_or_whole(document: Document) -> tuple[Section, ...]:
    """Return the sections of the document, or if it has none, one section without a label."""
    if document.sections or not document.text:
        return document.sections
    return (Section(0, len(document.text)),)


def _parse_by_format(document: Document, sections: Sequence[Section]) -> Iterable[MarkdownBlock]:
    kind = document.meta.get("format", "markdown")
    if kind == "code":
        return _split_paragraphs(document.text, sections, "code")
    if kind == "text":
        return _parse_plain_text(document.text, sections)
    return _parse_markdown_document(document.text, sections)


def _parse_markdown_document(text: str, sections: Sequence[Section]) -> Iterable[MarkdownBlock]:
    """Parse the blocks of Markdown; if one crosses a section (an unclosed fence), parse each section alone."""
    parts = parse_markdown_blocks(text)
    ends = [section.end for section in sections]
    if all(part.end <= ends[bisect_right(ends, part.start)] for part in parts):
        return parts
    return [
        part._replace(start=part.start + section.start, end=part.end + section.start)
        for section in sections
        for part in parse_markdown_blocks_uncached(text[section.start : section.end])
    ]


def _parse_plain_text(text: str, sections: Sequence[Section]) -> Iterator[MarkdownBlock]:
    """Yield the paragraphs of plain text, and the titles at the start of sections as headings."""
    title_ends = {title.start: title.end for title in find_underlined_titles(text)}
    for section in sections:
        start = section.start
        first = PARAGRAPH.search(text, section.start, section.end) if section.label else None
        if first is not None and title_ends.get(first.start(), section.end + 1) <= section.end:
            start = title_ends[first.start()]
            yield MarkdownBlock("heading", first.start(), start)
        yield from _split_paragraphs(text, [Section(start, section.end)], "paragraph")


def _split_paragraphs(text: str, sections: Sequence[Section], kind: str) -> Iterator[MarkdownBlock]:
    for section in sections:
        for match in PARAGRAPH.finditer(text, section.start, section.end):
            yield MarkdownBlock(kind, match.start(), match.start() + len(match[0].rstrip()))


TokenCounter = Callable[[Sequence[str]], list[int]]

# Break levels: the cost of a chunk boundary in front of an atom. Up to MAX_DEPTH the level is the depth of the block,
# so that a list is split between items before it is split inside one.
SEPARATE = -1  # always a boundary: the previous atom belongs to another group
MAX_DEPTH = 15
LEAD_IN = 16  # after a paragraph that introduces the next block
ROW = 17  # between the rows of a table, and at blank lines in code
SENTENCE = 18
LINE = 19
WORD = 20
CHARACTER = 21
KEEP_WITH_PREVIOUS = 22  # after a heading, or after the header of a table

_MAX_WRAPPED_LINE = 160  # characters; editors wrap at 72 to 120, so a longer line was not wrapped
_MAX_TITLE_CHARS = 80  # of a line that may be the title of the next paragraph
_SENTENCE_ENDS = ".!?…,;。！？"
_LINE = re.compile(r"\S[^\n]*")
MAX_CHARS_PER_TOKEN = 24  # a tokenizer may count an unknown word of any length as one token
_MAX_MARKS = 32  # combining marks that stay with their letter
_PIECES_PER_CHUNK = 16  # into which an oversized sentence is split
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_END = re.compile(r"\n\s*")
_SPACE = re.compile(r"\s+")
Span = tuple[int, int]
Fits = Callable[[int, int, int], bool]  # (low, high, limit): whether atoms low..high have at most `limit` tokens

_SAMPLE_SIZE = 64  # spans counted to decide whether the others must be counted too


class Atom(NamedTuple):
    """A span that is not split further; for a row, `table_header` is the first row of its table."""

    start: int
    end: int
    kind: str
    break_level: int  # of a boundary in front of the atom
    repeatable: bool = False  # whether an overlap may repeat the atom: a sentence or a small block
    table_header: str = ""


def count_tokens(texts: Sequence[str], count: TokenCounter) -> list[int]:
    """Count the tokens of each text, at least one for every `MAX_CHARS_PER_TOKEN` characters."""
    if not texts:
        return []
    return [max(n, -(-len(text) // MAX_CHARS_PER_TOKEN)) for n, text in zip(count(texts), texts, strict=True)]


def split_blocks_into_atoms(
    text: str, groups: Sequence[Sequence[ChunkBlock]], *, size: int, count: TokenCounter
) -> tuple[list[Atom], list[int]]:
    """Return the atoms of groups of neighbouring blocks, and the tokens of each including the white space after it.

    All atoms fit the size; the first atom of each group is SEPARATE. Counting in one batch is faster.
    """
    found = [
        atom
        for blocks in groups
        for before, block in zip((None, *blocks), blocks, strict=False)
        for atom in _split_block_into_atoms(text, before, block)
    ]
    return split_oversized_atoms(text, found, size=size, count=count)


def split_oversized_atoms(
    text: str, given: Sequence[Atom], *, size: int, count: TokenCounter
) -> tuple[list[Atom], list[int]]:
    """Split the atoms larger than the size; return all atoms, and the tokens of each."""
    atoms, counts = list(given), count_tokens(_slice_atoms_with_space(text, given, range(len(given))), count)
    while True:
        max_sizes = _compute_max_atom_sizes(atoms, counts, size)
        over = [i for i, max_size in enumerate(max_sizes) if counts[i] > max_size]
        alone = dict(zip(over, count_tokens([text[atoms[i].start : atoms[i].end] for i in over], count), strict=True))
        for i in over:
            if alone[i] <= max_sizes[i]:  # too large only with the white space after it
                counts[i] = max_sizes[i]
        pieces = {
            i: _split_at_coarsest_boundary(text, atoms[i], alone[i], max_sizes[i])
            for i in over
            if alone[i] > max_sizes[i]
        }
        if all(len(split) == 1 for split in pieces.values()):
            return atoms, counts
        split_counts = [[counts[i]] if i not in pieces else [-1] * len(pieces[i]) for i in range(len(atoms))]
        atoms = [piece for i, atom in enumerate(atoms) for piece in pieces.get(i, [atom])]
        counts = [tokens for group in split_counts for tokens in group]
        uncounted = [i for i, tokens in enumerate(counts) if tokens < 0]
        for i, tokens in zip(
            uncounted, count_tokens(_slice_atoms_with_space(text, atoms, uncounted), count), strict=True
        ):
            counts[i] = tokens


def _slice_atoms_with_space(text: str, atoms: Sequence[Atom], positions: Sequence[int]) -> list[str]:
    """Return the text of some atoms, each with the white space up to the next atom of its group."""
    last = len(atoms) - 1
    return [
        text[atoms[i].start : atoms[i].end if i == last or atoms[i + 1].break_level == SEPARATE else atoms[i + 1].start]
        for i in positions
    ]


def _compute_max_atom_sizes(atoms: Sequence[Atom], counts: Sequence[int], size: int) -> list[int]:
    """Compute the maximum size of each atom: text after a heading leaves room for the heading in the same chunk."""
    max_sizes = []
    headings = 0
    for atom, tokens in zip(atoms, counts, strict=True):
        is_text = atom.kind not in ("heading", "table", "code")
        shares = is_text and atom.break_level == KEEP_WITH_PREVIOUS and headings <= size // 2
        max_sizes.append(size - headings if shares else size)
        headings = headings + tokens if atom.kind == "heading" else 0
    return max_sizes


def _split_block_into_atoms(text: str, before: ChunkBlock | None, block: ChunkBlock) -> Iterator[Atom]:
    """Yield the atoms of a block; `before` is the previous block of its group."""
    level = min(block.depth, MAX_DEPTH)
    if before is None:
        level = SEPARATE
    elif before.kind == "heading":
        level = KEEP_WITH_PREVIOUS
    elif level == 0 and before.kind == "paragraph" and block.kind != "heading" and text[before.end - 1] in ":：":
        level = LEAD_IN
    if block.kind in ("heading", "table", "code", "rule"):
        yield Atom(block.start, block.end, block.kind, level)
        return
    for low, high in _split_line_paragraphs(text, block):
        for start, end in _split_sentences(text, low, high):
            yield Atom(start, end, block.kind, level, repeatable=True)
            level = SENTENCE
        level = KEEP_WITH_PREVIOUS if _is_title_line(text, high - low, high) else min(block.depth + 1, MAX_DEPTH)


def _split_line_paragraphs(text: str, block: ChunkBlock) -> list[tuple[int, int]]:
    """Return the spans of the lines of a block if each line is a paragraph, else the span of the block."""
    lines = [match.span() for match in _LINE.finditer(text, block.start, block.end)]
    return lines if any(end - start > _MAX_WRAPPED_LINE for start, end in lines) else [(block.start, block.end)]


def _is_title_line(text: str, length: int, end: int) -> bool:
    """Return whether the line ending at `end` is a title: short, without a full stop, directly before a paragraph."""
    following = _LINE.search(text, end)
    return (
        length <= _MAX_TITLE_CHARS
        and text[end - 1] not in _SENTENCE_ENDS
        and following is not None
        and following.end() - following.start() > _MAX_WRAPPED_LINE
        and text.count("\n", end, following.start()) == 1
    )


def _split_sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the sentences in text[start:end], as positions in the whole text."""
    return [(start + low, start + high) for low, high in split_sentences(text[start:end])]


def _split_at_coarsest_boundary(text: str, atom: Atom, tokens: int, max_size: int) -> list[Atom]:
    """Split an atom at its coarsest kind of boundary; a single character is returned as it is."""
    if atom.kind == "table" and not atom.table_header and len(rows := _split_table_rows(text, atom)) > 1:
        return rows
    if atom.kind == "paragraph" and len(spans := _split_sentences(text, atom.start, atom.end)) > 1:
        return _make_atoms(text, atom, spans, SENTENCE)
    for pattern, level in ((_BLANK_LINES, ROW), (_LINE_END, LINE), (_SPACE, WORD)):
        gaps = [match.span() for match in pattern.finditer(text, atom.start, atom.end)]
        if gaps:
            starts = [atom.start, *(end for _, end in gaps)]
            spans = list(zip(starts, [*(start for start, _ in gaps), atom.end], strict=True))
            length = (atom.end - atom.start) * max_size // (tokens * _PIECES_PER_CHUNK)
            return _make_atoms(text, atom, _join_short_spans(spans, length) if level == WORD else spans, level)
    return _make_atoms(text, atom, _split_word(text, atom, -(-tokens // max(max_size, 1))), CHARACTER)


def _join_short_spans(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Join neighbouring words up to a length: counting each word alone would take long and gain little."""
    joined = [spans[0]]
    for start, end in spans[1:]:
        if end - joined[-1][0] <= length:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _make_atoms(text: str, atom: Atom, spans: Sequence[tuple[int, int]], level: int) -> list[Atom]:
    """Make an atom from each span that is not white space; all but the first get the break level."""
    inside = [trimmed for start, end in spans if (trimmed := trim_span(text, start, end))]
    first, *rest = [atom._replace(start=start, end=end, repeatable=False) for start, end in inside]
    return [first, *(piece._replace(break_level=level) for piece in rest)]


def trim_span(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the span without white space at its ends, or None if it is only white space."""
    inside = text[start:end]
    if not inside or inside.isspace():
        return None
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def _split_table_rows(text: str, atom: Atom) -> list[Atom]:
    """Split a table into rows. The header stays with the delimiter row; every row carries it as `table_header`."""
    lines = text[atom.start : atom.end].split("\n")
    header = lines[0].strip()
    stops = [atom.start]
    for line in lines:
        stops.append(stops[-1] + len(line) + 1)
    spans = [(stops[0], stops[min(2, len(lines))] - 1)]
    spans += [(start, start + len(line)) for start, line in zip(stops[2:], lines[2:], strict=False)]
    rows = [row._replace(table_header=header) for row in _make_atoms(text, atom, spans, ROW)]
    return [rows[0], *(row._replace(break_level=KEEP_WITH_PREVIOUS) for row in rows[1:2]), *rows[2:]]


def _split_word(text: str, atom: Atom, parts: int) -> list[tuple[int, int]]:
    """Split a word into `parts` parts of about the same length, keeping combining marks with their letter."""
    length = atom.end - atom.start
    step = max(1, length // max(parts, 2))
    starts = [atom.start]
    for start in range(atom.start + step, atom.end, step):
        last = min(start + _MAX_MARKS, atom.end)
        while start < last and unicodedata.combining(text[start]):
            start += 1
        if starts[-1] < start < atom.end:
            starts.append(start)
    return list(zip(starts, [*starts[1:], atom.end], strict=True))


def check_size_and_overlap(
    *, size: int, overlap: int, names: tuple[str, str] = ("chunk_size", "chunk_overlap")
) -> None:
    """Raise SettingsError for sizes with which chunking could not advance."""
    if size < 1:
        raise SettingsError(f"{names[0]} is {size}; it must be at least 1")
    if not 0 <= overlap < size:
        raise SettingsError(f"{names[1]} is {overlap}; it must be at least 0 and less than {names[0]}, which is {size}")


def make_token_sum_check(counts: Sequence[int]) -> Fits:
    """Make a size check that adds up the tokens of atoms; the caller must verify the resulting spans."""
    sums = [0, *accumulate(counts)]
    return lambda low, high, limit: sums[high] - sums[low] <= limit


def make_exact_token_check(text: str, atoms: Sequence[Atom], counts: Sequence[int], count: TokenCounter) -> Fits:
    """Make a size check that counts the joined text if the sum exceeds the limit by no more than rounding explains."""
    sums = [0, *accumulate(counts)]

    def fits(low: int, high: int, limit: int) -> bool:
        beyond = sums[high] - sums[low] - limit
        if 0 < beyond <= 2 * (high - low):
            return count_tokens([text[atoms[low].start : atoms[high - 1].end]], count)[0] <= limit
        return beyond <= 0

    return fits


def pack_atoms(atoms: Sequence[Atom], fits: Fits, *, size: int, overlap: int) -> list[Span]:
    """Pack atoms into ranges that become spans; starts and ends strictly increase, so each range has a new atom."""
    packed: list[Span] = []
    first = last = 0
    for low, high in _split_at_structure(atoms, fits, 0, len(atoms), size):
        if atoms[low].break_level == SEPARATE:
            packed.append((first, last))
            first = low
        elif not fits(first, high, size):
            packed.append((first, last))
            first = _find_overlap_start(atoms, fits, first, low, overlap)
            while first < low and not fits(first, high, size):
                first += 1
        last = high
    return [*packed, (first, last)][1:]  # the first atom is SEPARATE, so the first range is empty


def _split_at_structure(atoms: Sequence[Atom], fits: Fits, low: int, high: int, size: int) -> Iterator[Span]:
    """Yield ranges that fit, splitting only at the lowest break levels, so that structure stays together."""
    if high - low <= 1:
        if low < high:
            yield low, high
        return
    easiest = min(atom.break_level for atom in atoms[low + 1 : high])
    if easiest > 0 and fits(low, high, size):
        yield low, high
        return
    boundaries = [low, *(i for i in range(low + 1, high) if atoms[i].break_level == easiest), high]
    for start, stop in pairwise(boundaries):
        yield from _split_at_structure(atoms, fits, start, stop, size)


def _find_overlap_start(atoms: Sequence[Atom], fits: Fits, first: int, end: int, overlap: int) -> int:
    """Find the start of the next span that repeats the last whole sentences; tables and code are not repeated."""
    start = end
    while start - 1 > first and atoms[start - 1].repeatable and fits(start - 1, end, overlap):
        start -= 1
    return start


def split_oversized_spans(
    text: str,
    spans: Sequence[Span],
    boundaries: Sequence[int],
    *,
    size: int,
    count: TokenCounter,
    sums: Sequence[int] = (),
) -> list[Span]:
    """Split the spans larger than the size, at one of the `boundaries` if possible.

    `sums` are the added-up tokens of the spans. If all are within the size, and a sample shows that joined text never
    has more tokens than its parts, the sums are trusted, since counting is most of the work. A piece inside another
    span, as an overlap may become, is dropped.
    """
    if sums and len(spans) > _SAMPLE_SIZE:
        step = len(spans) // _SAMPLE_SIZE
        sample = count_tokens([text[start:end] for start, end in spans[::step]], count)
        if max(sums) <= size and all(map(le, sample, sums[::step])):
            return list(spans)
    fitting: list[Span] = []
    unsure = list(spans)
    while unsure:
        halves: list[Span] = []
        counts = count_tokens([text[start:end] for start, end in unsure], count)
        for (start, end), tokens in zip(unsure, counts, strict=True):
            if tokens <= size or end - start <= 1:
                fitting.append((start, end))
            else:
                middle = _find_split_position(boundaries, start, end, start + max(1, (end - start) * size // tokens))
                halves += [(start, start + len(text[start:middle].rstrip())), (middle, end)]
        unsure = halves
    fitting.sort(key=lambda span: (span[0], -span[1]))
    reached = accumulate((end for _, end in fitting), max, initial=-1)
    return [span for span, before in zip(fitting, reached, strict=False) if span[1] > before]


def _find_split_position(boundaries: Sequence[int], start: int, end: int, guess: int) -> int:
    """Find the position to split a span in two: the last boundary before the guess, else the first after it."""
    low, high = bisect_right(boundaries, start), bisect_left(boundaries, end)
    if low == high:
        return min(guess, end - 1)
    return boundaries[max(bisect_right(boundaries, guess, low, high) - 1, low)]
