"""The second pass of the structure chunker: blocks become atoms, the smallest spans that a chunk is made of.

An atom is a sentence, or a table or code block that fits whole. Only what is larger than a chunk is cut finer: tables
by rows, code by blank lines and then lines, text by lines and words, and a word that is too long by characters.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clew.core.text import sentences
from clew.index.chunk.blocks import Block

Count = Callable[[Sequence[str]], list[int]]

# How hard it is to cut in front of an atom. Below LEAD it is the depth of the block, so that a list is cut between
# items before it is cut inside one.
APART = -1  # what stands before is no neighbour: never in the same chunk
DEEPEST = 15
LEAD = 16  # after a paragraph that leads in what follows
ROW = 17  # between the rows of a table, and at blank lines in code
SENTENCE = 18
LINE = 19
WORD = 20
LETTER = 21
STICK = 22  # after a heading, or after the head of a table

_WRAPPED = 160  # characters of a line; editors wrap at 72 to 120, so a longer one was not wrapped
_TITLE = 80  # characters of a line that may name what follows
_STOPS = ".!?…,;。！？"
_LINE = re.compile(r"\S[^\n]*")
LETTERS_A_TOKEN = 24  # a word that no vocabulary knows may count as one token however long it is
_GRAIN = 16  # parts of a chunk: how finely a sentence is cut that is larger than one
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_END = re.compile(r"\n\s*")
_SPACE = re.compile(r"\s+")


class Atom(NamedTuple):
    """A span that is cut no further: `cut` says how hard it is to cut before it, `head` is its table's first row."""

    start: int
    end: int
    kind: str
    cut: int
    whole: bool = False  # a sentence or a small block: what an overlap may repeat
    head: str = ""


def measured(texts: Sequence[str], count: Count) -> list[int]:
    """The tokens of each text, never fewer than its length allows for."""
    if not texts:
        return []
    return [max(n, -(-len(text) // LETTERS_A_TOKEN)) for n, text in zip(count(texts), texts, strict=True)]


def atoms(text: str, groups: Sequence[Sequence[Block]], *, size: int, count: Count) -> tuple[list[Atom], list[int]]:
    """The atoms of groups of neighbouring blocks, and the tokens of each with the white space after it.

    All fit the size; the first of each group is APART. They are counted together, since counting likes large batches.
    """
    found = [
        atom
        for blocks in groups
        for before, block in zip((None, *blocks), blocks, strict=False)
        for atom in _of_block(text, before, block)
    ]
    return refined(text, found, size=size, count=count)


def refined(text: str, found: Sequence[Atom], *, size: int, count: Count) -> tuple[list[Atom], list[int]]:
    """The atoms, those cut finer that are larger than the size, and the tokens of each."""
    atoms, counts = list(found), measured(_spaced(text, found, range(len(found))), count)
    while True:
        rooms = _rooms(atoms, counts, size)
        over = [i for i, room in enumerate(rooms) if counts[i] > room]
        alone = dict(zip(over, measured([text[atoms[i].start : atoms[i].end] for i in over], count), strict=True))
        for i in over:
            if alone[i] <= rooms[i]:  # only with the white space after it is it too large
                counts[i] = rooms[i]
        pieces = {i: _finer(text, atoms[i], alone[i], rooms[i]) for i in over if alone[i] > rooms[i]}
        if all(len(finer) == 1 for finer in pieces.values()):
            return atoms, counts
        finer_counts = [[counts[i]] if i not in pieces else [-1] * len(pieces[i]) for i in range(len(atoms))]
        atoms = [piece for i, atom in enumerate(atoms) for piece in pieces.get(i, [atom])]
        counts = [tokens for group in finer_counts for tokens in group]
        fresh = [i for i, tokens in enumerate(counts) if tokens < 0]
        for i, tokens in zip(fresh, measured(_spaced(text, atoms, fresh), count), strict=True):
            counts[i] = tokens


def _spaced(text: str, atoms: Sequence[Atom], positions: Sequence[int]) -> list[str]:
    """The text of some of the atoms, each up to the next: what it takes of a chunk that goes on after it."""
    last = len(atoms) - 1
    return [
        text[atoms[i].start : atoms[i].end if i == last or atoms[i + 1].cut == APART else atoms[i + 1].start]
        for i in positions
    ]


def _rooms(atoms: Sequence[Atom], counts: Sequence[int], size: int) -> list[int]:
    """How large each atom may be: a text that follows a heading leaves it room, so that the two stay together."""
    rooms = []
    headings = 0
    for atom, tokens in zip(atoms, counts, strict=True):
        is_text = atom.kind not in ("heading", "table", "code")
        rooms.append(size - headings if is_text and atom.cut == STICK and headings <= size // 2 else size)
        headings = headings + tokens if atom.kind == "heading" else 0
    return rooms


def _of_block(text: str, before: Block | None, block: Block) -> Iterator[Atom]:
    cut = min(block.depth, DEEPEST)
    if before is None:
        cut = APART
    elif before.kind == "heading":
        cut = STICK
    elif cut == 0 and before.kind == "paragraph" and block.kind != "heading" and text[before.end - 1] in ":：":
        cut = LEAD
    if block.kind in ("heading", "table", "code", "rule"):
        yield Atom(block.start, block.end, block.kind, cut)
        return
    for low, high in _lines(text, block):
        for start, end in _sentences(text, low, high):
            yield Atom(start, end, block.kind, cut, whole=True)
            cut = SENTENCE
        cut = STICK if _is_title(text, high - low, high) else min(block.depth + 1, DEEPEST)


def _lines(text: str, block: Block) -> list[tuple[int, int]]:
    """The lines of a block that was not wrapped, where each is a paragraph; else the block as it is."""
    lines = [match.span() for match in _LINE.finditer(text, block.start, block.end)]
    return lines if any(end - start > _WRAPPED for start, end in lines) else [(block.start, block.end)]


def _is_title(text: str, length: int, end: int) -> bool:
    """Whether a line that ends there names what follows: short, without a stop, before a line that is a paragraph."""
    following = _LINE.search(text, end)
    return (
        length <= _TITLE
        and text[end - 1] not in _STOPS
        and following is not None
        and following.end() - following.start() > _WRAPPED
        and text.count("\n", end, following.start()) == 1
    )


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [(start + low, start + high) for low, high in sentences(text[start:end])]


def _finer(text: str, atom: Atom, tokens: int, room: int) -> list[Atom]:
    """The atom cut at the next finer kind of place that it has; itself when it is one character."""
    if atom.kind == "table" and not atom.head and len(rows := _rows(text, atom)) > 1:
        return rows
    if atom.kind == "paragraph" and len(spans := _sentences(text, atom.start, atom.end)) > 1:
        return _cut(text, atom, spans, SENTENCE)
    for rule, cut in ((_BLANK_LINES, ROW), (_LINE_END, LINE), (_SPACE, WORD)):
        gaps = [match.span() for match in rule.finditer(text, atom.start, atom.end)]
        if gaps:
            starts = [atom.start, *(end for _, end in gaps)]
            spans = list(zip(starts, [*(start for start, _ in gaps), atom.end], strict=True))
            length = (atom.end - atom.start) * room // (tokens * _GRAIN)
            return _cut(text, atom, _clustered(spans, length) if cut == WORD else spans, cut)
    return _cut(text, atom, _letters(text, atom, -(-tokens // max(room, 1))), LETTER)


def _clustered(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Neighbouring words joined up to a length: counting each by itself would take long and gain little."""
    joined = [spans[0]]
    for start, end in spans[1:]:
        if end - joined[-1][0] <= length:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _cut(text: str, atom: Atom, spans: Sequence[tuple[int, int]], cut: int) -> list[Atom]:
    """An atom for each of the spans that is not white space; `cut` is for all but the first."""
    inside = [trimmed for start, end in spans if (trimmed := trim(text, start, end))]
    first, *rest = [atom._replace(start=start, end=end, whole=False) for start, end in inside]
    return [first, *(piece._replace(cut=cut) for piece in rest)]


def trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without the white space at its ends, or None if there is nothing else."""
    inside = text[start:end]
    if not inside or inside.isspace():
        return None
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def _rows(text: str, atom: Atom) -> list[Atom]:
    """A table by its rows: the first is kept with the line below it, and every later one knows it."""
    lines = text[atom.start : atom.end].split("\n")
    head = lines[0].strip()
    stops = [atom.start]
    for line in lines:
        stops.append(stops[-1] + len(line) + 1)
    spans = [(stops[0], stops[min(2, len(lines))] - 1)]
    spans += [(start, start + len(line)) for start, line in zip(stops[2:], lines[2:], strict=False)]
    rows = [row._replace(head=head) for row in _cut(text, atom, spans, ROW)]
    return [rows[0], *(row._replace(cut=STICK) for row in rows[1:2]), *rows[2:]]


def _letters(text: str, atom: Atom, parts: int) -> list[tuple[int, int]]:
    """A word in so many parts of about the same length; a mark stays with the letter that it belongs to."""
    length = atom.end - atom.start
    step = max(1, length // max(parts, 2))
    starts = [atom.start]
    for start in range(atom.start + step, atom.end, step):
        while start < atom.end and unicodedata.combining(text[start]):
            start += 1
        if starts[-1] < start < atom.end:
            starts.append(start)
    return list(zip(starts, [*starts[1:], atom.end], strict=True))
