"""The methods of the Lance store that read and change parts of threads."""

import json
from collections.abc import Sequence
from typing import Any

from clew.core.thread_edit import ThreadEdit, ThreadPart, Waiting
from clew.core.thread_view import ThreadView
from clew.drivers.store import checks, pieces
from clew.drivers.store.entries import make_entries
from clew.drivers.store.lance import read, write
from clew.drivers.store.lance import rows as made
from clew.drivers.store.lance.content import Content, Draft
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import DOCUMENT, PIECE
from clew.drivers.store.lance.select import Select, select
from clew.drivers.store.lance.snapshot import Snapshot
from clew.drivers.store.pieces import Piece


class _PieceReader:
    def __init__(self, snapshot: Snapshot, doc: int, doc_id: str) -> None:
        self._snapshot, self._doc, self._doc_id = snapshot, doc, doc_id

    def by_message(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(("message", "in", set(ids)))

    def children(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(("parent", "in", set(ids)))

    def before(self, n: int | None, count: int) -> list[Piece]:
        found = self._fetch(*([] if n is None else [("n", "<", n)]))
        return sorted(found, key=lambda piece: -piece.n)[:count]

    def after(self, n: int | None, count: int) -> list[Piece]:
        found = self._fetch(*([] if n is None else [("n", ">", n)]))
        return sorted(found, key=lambda piece: piece.n)[:count]

    def _fetch(self, *conditions: Any) -> list[Piece]:
        wanted = Select(PIECE, (("doc", "in", [self._doc]), *conditions))
        found = sorted(self._snapshot.find(wanted, made.PIECE_COLUMNS), key=lambda row: int(row["n"]))
        return pieces.parse_pieces(self._doc_id, [made.piece_columns(row) for row in found])


class ThreadMethods:
    """Reads and edits of threads; part of LanceStore."""

    _content: Content

    def thread_part(self, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
        """The named messages of a thread and all that an edit of them needs, or NotFound."""
        snapshot = self._content.read()
        with translate_errors(self._content.place):
            document = read.find_document(snapshot, doc_id)
            reader = _PieceReader(snapshot, document["row"], doc_id)
            record = made.parse_record(document)
            return pieces.read_part(reader, record, document["revision"], message_ids, reach)

    def thread_view(self, doc_id: str) -> ThreadView:
        """A thread whose messages are parsed when they are asked for, or NotFound."""
        snapshot = self._content.read()
        with translate_errors(self._content.place):
            document = read.find_document(snapshot, doc_id)
            found = read.find_pieces(snapshot, [document["row"]])
            return pieces.build_thread_view(made.parse_record(document), [made.piece_columns(row) for row in found])

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Changes threads, all or none; ConcurrentChange if one is not the one that was read."""
        dim = self._content.dim
        prepared = [
            make_entries(e.document, e.chunks, checks.check_vectors(e.vectors, e.chunks, e.terms, dim), e.terms)
            for e in edits
        ]

        def decide(draft: Draft) -> None:
            ids = [edit.document.id for edit in edits]
            found = write.find_threads(draft, ids)
            for edit in edits:
                stored = found.get(edit.document.id)
                pieces.check_revision(edit.document.id, edit.revision, stored["revision"] if stored else 0)
            for edit in edits:
                if edit.removed:
                    write.remove_messages(draft, found[edit.document.id], edit.removed)
            found = write.find_threads(draft, ids)
            for edit, entries in zip(edits, prepared, strict=True):
                if edit.revision:
                    write.write_messages(draft, found[edit.document.id], edit, entries)
                else:
                    write.put_document(draft, edit.document, entries)

        self._content.write(decide)

    def waiting_messages(self, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
        """The messages of a channel that answer those, which were not stored when they came."""
        snapshot = self._content.read()
        with translate_errors(self._content.place):
            found = snapshot.find(select(PIECE, awaits=set(message_ids)), ("doc", "n", "message", "awaits"))
            wanted = select(DOCUMENT, row={row["doc"] for row in found})
            documents = {row["row"]: row for row in snapshot.find(wanted, ("id", "meta"))}
        waiting: dict[str, list[Waiting]] = {}
        for row in sorted(found, key=lambda row: (row["doc"], row["n"])):
            document = documents[row["doc"]]
            if json.loads(document["meta"]).get("channel") == channel:
                waiting.setdefault(row["awaits"], []).append(Waiting(row["message"], document["id"]))
        return waiting
