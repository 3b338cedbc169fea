"""Pieces: the rows that a document's text and sections are stored in, one for each message of a thread, else one.

Also which messages an edit of a thread needs, by the few reads that every store offers of its pieces.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from clew.core.errors import ConcurrentChange
from clew.core.thread import is_thread
from clew.core.thread_edit import ThreadPart
from clew.core.thread_view import Head, ThreadView, view_document
from clew.core.types import Chunk, Document, Section
from clew.drivers.store import checksums, codec
from clew.drivers.store.checksums import UNCHECKED

MAX_PART = 512  # messages of a part; where an edit needs more, the whole thread is read at once


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


def build_thread_view(columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> ThreadView:
    """The view of a thread by its RECORD and the PIECE_COLUMNS of its pieces; of a page, from the whole.

    A piece is compared with its checksum when its message is asked for.
    """
    ids = [row[5] for row in rows if row[5] is not None]
    if len(ids) != len(rows):
        return view_document(codec.build_document(columns, rows))
    record = codec.parse_record(columns)
    places: dict[str | None, int] = {message: place for place, message in enumerate(ids)}

    def parse_section(place: int) -> Section:
        *piece, doc, stored = rows[place]
        checksums.check(f"the text of the document {record.id!r}", stored, doc, *piece)
        return codec.parse_sections(piece[2])[0]

    def read_heads() -> Sequence[Head]:
        try:
            return codec.parse_heads([row[2] for row in rows])
        except (ValueError, TypeError, IndexError) as error:
            raise checksums.damaged_error(f"the text of the document {record.id!r}") from error

    answered = [places.get(row[6]) for row in rows]  # no place is kept for None, as for a message that is gone
    texts = [row[1] for row in rows]
    return ThreadView(record.id, record.title, record.meta, ids, texts, answered, parse_section, read_heads)


class PieceReader(Protocol):
    """Reads of the pieces of one thread; each is one statement."""

    def by_message(self, ids: Sequence[str]) -> list[Piece]:
        """The pieces of these messages."""

    def children(self, ids: Sequence[str]) -> list[Piece]:
        """The pieces of the messages that answer these."""

    def before(self, n: int | None, count: int) -> list[Piece]:
        """The last pieces before a number (None: of all)."""

    def after(self, n: int | None, count: int) -> list[Piece]:
        """The first pieces after a number (None: of all)."""


def parse_pieces(doc_id: str, read: Iterable[Sequence[Any]]) -> list[Piece]:
    """Pieces of a document from PIECE_COLUMNS; CollectionDamaged if one is not as written."""
    found = []
    for columns in read:
        if not checksums.matches(columns[-1], columns[-2], *columns[:-2]):
            raise checksums.damaged_error(f"the text of the document {doc_id!r}")
        found.append(Piece._make(columns[:-2]))
    return found


def read_part(reader: PieceReader, columns: Sequence[Any], revision: int, ids: Sequence[str], reach: int) -> ThreadPart:
    """The part of a thread that `Store.thread_part` promises, by its RECORD."""
    found = {piece.n: piece for piece in _collect_pieces(reader, ids, reach)}
    pieces = [found[n] for n in sorted(found)]
    first, last = reader.after(None, 1), reader.before(None, 1)
    checked = [(*piece, 0, UNCHECKED) for piece in pieces]
    document = codec.build_document(columns, checked, is_whole=False)
    return ThreadPart(document, tuple(piece.n for piece in pieces), first[0].n, last[0].n, revision)


def _collect_pieces(reader: PieceReader, ids: Sequence[str], reach: int) -> list[Piece]:
    near = 2 * reach
    named = reader.by_message(ids)
    found = {piece.message: piece for piece in (*named, *reader.after(None, len(ids) + 1), *reader.before(None, near))}
    centres, level = list(named), list(named)
    for _ in range(reach):
        level = [piece for piece in reader.children([str(piece.message) for piece in level]) if piece not in centres]
        if not level:
            break
        centres += level
        if len(centres) * (near + 1) > MAX_PART:
            return reader.after(None, 1 << 31)
    for number, piece in enumerate(centres):
        found.update((each.message, each) for each in (piece, *reader.before(piece.n, near)))
        if number < len(named):
            found.update((each.message, each) for each in reader.after(piece.n, near))
    for _ in range(reach + len(ids) + 1):
        missing = {piece.parent for piece in found.values() if piece.parent} - found.keys()
        above = reader.by_message([parent for parent in missing if parent])
        if not above:
            break
        found.update((piece.message, piece) for piece in above)
    return list(found.values())


def check_revision(doc_id: str, expected: int, stored: int) -> None:
    """ConcurrentChange unless a thread has the revision that the caller has read; 0: it is not there."""
    if expected != stored:
        raise ConcurrentChange(
            f"the thread {doc_id!r} changed since it was read; read it again and change that; nothing was stored"
        )
