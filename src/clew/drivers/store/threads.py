"""Reads of parts of threads from a state of a collection."""

import json
from collections.abc import Sequence
from typing import Any

from clew.core.thread_edit import ThreadPart, Waiting
from clew.core.thread_view import ThreadView, view_document
from clew.drivers.store import pieces, read
from clew.drivers.store import rows as made
from clew.drivers.store.backend import DOCUMENT, PIECE, Select, Snapshot, select
from clew.drivers.store.filtered import FilteredSnapshot
from clew.drivers.store.pieces import Piece


class _PieceReader:
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
        return pieces.parse_pieces(self._doc_id, found)


def read_thread_part(snapshot: Snapshot, doc_id: str, message_ids: Sequence[str], reach: int) -> ThreadPart:
    """The named messages of a thread and all that an edit of them needs, or NotFound."""
    *columns, revision = read.find_document(snapshot, doc_id, (*made.RECORD, "revision"))
    reader = _PieceReader(snapshot, columns[made.ROW], doc_id)
    return pieces.read_part(reader, columns, revision, message_ids, reach)


def read_thread_view(snapshot: Snapshot, doc_id: str) -> ThreadView:
    """A thread whose messages are parsed when they are asked for, or NotFound."""
    columns = read.find_document(snapshot, doc_id, made.RECORD)
    if isinstance(snapshot, FilteredSnapshot):
        if snapshot.shows_part(columns[made.ROW]):
            return view_document(read.read_document(snapshot, doc_id))
        snapshot = snapshot.whole
    found = read.find_pieces(snapshot, [columns[made.ROW]])
    return pieces.build_thread_view(columns, found)


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
