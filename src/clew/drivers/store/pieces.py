"""Pieces: the rows that a document's text and sections are stored in, one for each message of a thread, else one."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from clew.core.errors import ConcurrentChange
from clew.core.thread import is_thread
from clew.core.types import Chunk, Document
from clew.drivers.store import codec


class Piece(NamedTuple):
    """A row of pieces, without its document."""

    n: int
    text: str
    sections: str
    chars: int = 0
    chunks: int = 0
    message: str | None = None
    parent: str | None = None
    awaits: str | None = None


class Placed(NamedTuple):
    """Where a chunk is stored: its piece, and number and span counted from the start of the piece; None: of a page."""

    piece: int | None
    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Split:
    """A document as pieces, and the places of its chunks."""

    pieces: list[Piece]
    places: list[Placed]


def split_document(document: Document, chunks: Sequence[Chunk]) -> Split:
    """One piece for each message of a thread, or one for a page."""
    if _is_splittable(document, chunks):
        return split_messages(document, range(len(document.sections)), range(len(document.sections)), chunks)
    piece = Piece(0, document.text, codec.sections_to_json(document.sections))
    return Split([piece], [Placed(None, chunk.index, chunk.start, chunk.end) for chunk in chunks])


def split_messages(
    document: Document, numbers: Sequence[int], positions: Iterable[int], chunks: Sequence[Chunk]
) -> Split:
    """The messages at some positions of a thread as pieces with these numbers, and the places of their chunks."""
    starts = [section.start for section in document.sections]
    counts: dict[int, int] = {}
    places: list[Placed] = []
    for chunk in chunks:
        position = bisect_right(starts, chunk.start) - 1
        index = counts[position] = counts.get(position, -1) + 1
        start = starts[position]
        places.append(Placed(numbers[position], index, chunk.start - start, chunk.end - start))
    pieces = []
    for position in positions:
        section = document.sections[position]
        parent = None if section.parent is None else document.sections[section.parent].id
        own = replace(section, start=0, end=section.end - section.start, parent=None)
        pieces.append(
            Piece(
                numbers[position],
                document.text[section.start : section.end],
                codec.sections_to_json([own]),
                section.end - section.start,
                counts.get(position, -1) + 1,
                section.id,
                parent,
                section.awaits,
            )
        )
    return Split(pieces, places)


def _is_splittable(document: Document, chunks: Sequence[Chunk]) -> bool:
    """Whether the sections are messages that cover the whole text, each id once, and every chunk is of one of them."""
    sections = document.sections
    if not is_thread(document) or len({section.id for section in sections}) != len(sections):
        return False
    ends = [0, *(section.end for section in sections)]
    if ends[-1] != len(document.text) or any(a != b.start for a, b in zip(ends, sections, strict=False)):
        return False
    if any(section.end <= section.start for section in sections):
        return False
    spans = ((bisect_right(ends, chunk.start), chunk.end) for chunk in chunks)
    return all(position < len(ends) and end <= ends[position] for position, end in spans)


def check_revision(doc_id: str, expected: int, stored: int) -> None:
    """ConcurrentChange unless a thread has the revision that the caller has read; 0: it is not there."""
    if expected != stored:
        raise ConcurrentChange(
            f"the thread {doc_id!r} changed since it was read; read it again and change that; nothing was stored"
        )
