"""Reads of parts of threads from a state of a collection."""

import json
from collections.abc import Sequence
from typing import Any

from clew.core.thread_edit import ThreadPart, Waiting
from clew.core.thread_view import Head, ThreadView, view_document
from clew.core.types import Section
from clew.drivers.store import checksums, codec, read
from clew.drivers.store import rows as made
from clew.drivers.store.backend import DOCUMENT, PIECE, Select, Snapshot, select
from clew.drivers.store.filtered import FilteredSnapshot
from clew.drivers.store.pieces import Piece

MAX_PART = 512  # messages of a part; where an edit needs more, the whole thread is read at once


class _PieceReader:
    """Reads of the pieces of one thread; each is one statement."""

    def __init__(self, snapshot: Snapshot, doc: int, doc_id: str) -> None:
        self._snapshot, self._doc, self._doc_id = snapshot, doc, doc_id

    def by_message(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(("message", "in", set(ids)))

    def children(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(("parent", "in", set(ids)))

    def before(self, n: int | None, count: int) -> list[Piece]:
        return self._fetch(*([] if n is None else [("n", "<", n)]), order="-n", limit=count)

    def after(self, n: int | None, count: int) -> list[Piece]:
        return self._fetch(*([] if n is None else [("n", ">", n)]), order="n", limit=count)

    def _fetch(self, *conditions: Any, order: str = "n", limit: int | None = None) -> list[Piece]:
        wanted = Select(PIECE, (("doc", "in", [self._doc]), *conditions), order=order, limit=limit)
        found = self._snapshot.find(wanted, made.PIECE_COLUMNS)
        if not all(map(made.matches_piece, found)):
            raise checksums.damaged_error(f"the text of the document {self._doc_id!r}")
        return [Piece._make(columns[:-2]) for columns in found]


def read_thread_part(snapshot: Snapshot, doc_id: str, message_ids: Sequence[str], reach: int) -> ThreadPart:
    """The named messages of a thread and all that an edit of them needs, or NotFound."""
    *columns, revision = read.find_document(snapshot, doc_id, (*made.RECORD, "revision"))
    reader = _PieceReader(snapshot, columns[made.ROW], doc_id)
    found = {piece.n: piece for piece in _collect_pieces(reader, message_ids, reach)}
    ordered = [found[n] for n in sorted(found)]
    first, last = reader.after(None, 1), reader.before(None, 1)
    checked = [(*piece, 0, checksums.UNCHECKED) for piece in ordered]
    part = codec.build_document(columns, checked, is_whole=False)
    return ThreadPart(part, tuple(piece.n for piece in ordered), first[0].n, last[0].n, revision)


def _collect_pieces(reader: _PieceReader, ids: Sequence[str], reach: int) -> list[Piece]:
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


def read_thread_view(snapshot: Snapshot, doc_id: str) -> ThreadView:
    """A thread whose messages are parsed when they are asked for, or NotFound."""
    columns = read.find_document(snapshot, doc_id, made.RECORD)
    if isinstance(snapshot, FilteredSnapshot):
        if snapshot.shows_part(columns[made.ROW]):
            return view_document(read.read_document(snapshot, doc_id))
        snapshot = snapshot.whole
    return _build_view(columns, read.find_pieces(snapshot, [columns[made.ROW]]))


def _build_view(columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> ThreadView:
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


def find_waiting_messages(snapshot: Snapshot, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
    """The messages of a channel that answer those, which were not stored when they came, by the id of those."""
    found = snapshot.find(select(PIECE, awaits=set(message_ids)), ("doc", "n", "message", "awaits"))
    wanted = select(DOCUMENT, row={doc for doc, *_ in found})
    documents = {row: of for row, *of in snapshot.find(wanted, ("row", "id", "meta"))}
    waiting: dict[str, list[Waiting]] = {}
    for doc, _, message, awaits in sorted(found):
        doc_id, meta = documents[doc]
        if json.loads(meta).get("channel") == channel:
            waiting.setdefault(awaits, []).append(Waiting(message, doc_id))
    return waiting
