"""Parts of threads out of the database, and edits of them. Each function runs inside one transaction."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from clew.core.thread_edit import ThreadEdit, ThreadPart, Waiting
from clew.core.thread_view import ThreadView
from clew.core.time import to_iso
from clew.drivers.store import codec, pieces
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.embedded import read, sums, write
from clew.drivers.store.entries import Entry
from clew.drivers.store.pieces import Piece

# Without statistics, SQLite would read all messages of the thread instead of looking a few up.
_PIECES = f"SELECT {codec.PIECE_COLUMNS} FROM pieces{{0}} WHERE doc = ?"


class _PieceReader:
    def __init__(self, db: sqlite3.Connection, doc: int, doc_id: str) -> None:
        self._db, self._doc, self._doc_id = db, doc, doc_id

    def by_message(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(
            " AND message IN (SELECT value FROM json_each(?))", json.dumps(list(ids)), by="pieces_message"
        )

    def children(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(" AND parent IN (SELECT value FROM json_each(?))", json.dumps(list(ids)), by="pieces_parent")

    def before(self, n: int | None, count: int) -> list[Piece]:
        return self._fetch(" AND n < ? ORDER BY n DESC LIMIT ?", 1 << 62 if n is None else n, count)

    def after(self, n: int | None, count: int) -> list[Piece]:
        return self._fetch(" AND n > ? ORDER BY n LIMIT ?", -(1 << 62) if n is None else n, count)

    def _fetch(self, condition: str, *params: str | int, by: str = "") -> list[Piece]:
        sql = _PIECES.format(f" INDEXED BY {by}" if by else "")
        return pieces.parse_pieces(self._doc_id, self._db.execute(f"{sql}{condition}", (self._doc, *params)))


def is_split(db: sqlite3.Connection, doc_id: str) -> bool:
    """Whether a thread has a piece for each message; NotFound if it is not there."""
    found = db.execute(
        "SELECT p.message FROM documents d JOIN pieces p ON p.doc = d.row WHERE d.id = ? LIMIT 1", (doc_id,)
    ).fetchone()
    if not found:
        raise not_found_error(doc_id)
    return found[0] is not None


def split_thread(db: sqlite3.Connection, doc_id: str) -> None:
    """Gives a thread that an earlier version wrote a piece for each message; its content stays as it is."""
    document, chunks = read.read_document(db, doc_id), read.read_document_chunks(db, doc_id)
    split = pieces.split_document(document, chunks)
    (doc,) = db.execute("SELECT row FROM documents WHERE id = ?", (doc_id,)).fetchone()
    db.execute("DELETE FROM pieces WHERE doc = ?", (doc,))
    write.write_pieces(db, doc, split.pieces)
    db.executemany(
        f"UPDATE chunks SET piece = ?1, idx = ?2, start = ?3, stop = ?4, sum = {sums.PLACED_SUM} WHERE id = ?5",
        [(*place, chunk.id) for chunk, place in zip(chunks, split.places, strict=True)],
    )


def read_thread_part(db: sqlite3.Connection, doc_id: str, ids: Sequence[str], reach: int) -> ThreadPart:
    """The part of a thread that an edit of some messages needs."""
    found = db.execute(
        f"SELECT d.row, d.revision, {codec.RECORD_COLUMNS} FROM documents d WHERE d.id = ?", (doc_id,)
    ).fetchone()
    if not found:
        raise not_found_error(doc_id)
    doc, revision, *record = found
    return pieces.read_part(_PieceReader(db, doc, doc_id), codec.parse_record(record), revision, ids, reach)


def read_thread_view(db: sqlite3.Connection, doc_id: str) -> ThreadView:
    """A thread whose messages are parsed when they are asked for, or NotFound."""
    found = db.execute(f"SELECT d.row, {codec.RECORD_COLUMNS} FROM documents d WHERE d.id = ?", (doc_id,)).fetchone()
    if not found:
        raise not_found_error(doc_id)
    doc, *record = found
    read = db.execute(f"SELECT {codec.PIECE_COLUMNS} FROM pieces WHERE doc = ? ORDER BY n", (doc,)).fetchall()
    return pieces.build_thread_view(codec.parse_record(record), read)


def read_waiting_messages(db: sqlite3.Connection, ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
    """The messages of a channel that answer those, by the id of the one that they answer."""
    waiting: dict[str, list[Waiting]] = {}
    for awaited, message, doc_id, meta in db.execute(
        "SELECT p.awaits, p.message, d.id, d.meta FROM pieces p INDEXED BY pieces_awaits"
        " JOIN documents d ON d.row = p.doc WHERE p.awaits IN (SELECT value FROM json_each(?)) ORDER BY d.row, p.n",
        (json.dumps(list(ids)),),
    ):
        if json.loads(meta).get("channel") == channel:
            waiting.setdefault(awaited, []).append(Waiting(message, doc_id))
    return waiting


def check_revisions(db: sqlite3.Connection, edits: Sequence[ThreadEdit]) -> None:
    """ConcurrentChange unless all threads are those that were read."""
    for edit in edits:
        found = db.execute("SELECT revision FROM documents WHERE id = ?", (edit.document.id,)).fetchone()
        pieces.check_revision(edit.document.id, edit.revision, found[0] if found else 0)


def remove_from_thread(db: sqlite3.Connection, edit: ThreadEdit) -> None:
    """Removes the messages that an edit takes out, with their chunks; a thread that is left empty stays for now."""
    (doc,) = db.execute("SELECT row FROM documents WHERE id = ?", (edit.document.id,)).fetchone()
    keys = [(doc, n) for n in edit.removed]
    rows = [row for key in keys for (row,) in db.execute("SELECT row FROM chunks WHERE doc = ? AND piece = ?", key)]
    length = write.remove_chunks(db, rows)
    chars = sum(size for key in keys for (size,) in db.execute("SELECT chars FROM pieces WHERE doc = ? AND n = ?", key))
    db.executemany("DELETE FROM pieces WHERE doc = ? AND n = ?", keys)
    db.execute("UPDATE documents SET chars = chars - ?, chunks = chunks - ? WHERE row = ?", (chars, len(rows), doc))
    write.refresh_blocks(db, doc, edit.removed)
    write.update_counts(db, removed=len(rows), removed_length=length)


def write_edit(db: sqlite3.Connection, edit: ThreadEdit, entries: Sequence[Entry]) -> None:
    """Writes the messages of an edit with their chunks; a thread that is left empty goes."""
    document = edit.document
    (doc,) = db.execute("SELECT row FROM documents WHERE id = ?", (document.id,)).fetchone()
    split = pieces.split_edit(edit)
    old, chars = dict[str, tuple[int, int]](), 0
    for piece in split.pieces:
        for (size,) in db.execute("SELECT chars FROM pieces WHERE doc = ? AND n = ?", (doc, piece.n)):
            chars -= size
        chunks = db.execute("SELECT id, row, print FROM chunks WHERE doc = ? AND piece = ?", (doc, piece.n))
        old.update((chunk_id, (row, fingerprint)) for chunk_id, row, fingerprint in chunks)
    chars += sum(piece.chars for piece in split.pieces)
    write.write_pieces(db, doc, split.pieces)
    added, removed, length = write.write_chunks(db, doc, old, entries, split.places)
    db.execute(
        f"UPDATE documents SET chars = chars + ?, chunks = chunks + ?, updated = ?, {write.NEW_REVISION}, summary = '',"
        " summary_by = '', vector = NULL WHERE row = ?",
        (chars, len(entries) - len(old), to_iso(datetime.now(UTC)), doc),
    )
    if not edit.is_append:
        db.execute("UPDATE documents SET title = ?, hash = '' WHERE row = ?", (document.title, doc))
    write.update_counts(db, added=added, removed=removed, removed_length=length)
    if edit.removed and not db.execute("SELECT 1 FROM pieces WHERE doc = ? LIMIT 1", (doc,)).fetchone():
        write.drop_documents(db, [document.id])
