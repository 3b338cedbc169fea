"""Parts of threads out of a collection, and edits of them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg import Connection

from clew.core.thread_edit import ThreadEdit, ThreadPart, Waiting
from clew.drivers.store import codec, pieces
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.entries import DocumentEntries, Entry
from clew.drivers.store.pieces import Piece
from clew.drivers.store.postgres import insert, read, write
from clew.drivers.store.postgres.connect.pool import fetch_rows, read_one_state
from clew.drivers.store.postgres.connect.setup import OpenCollection

_PIECES = f"SELECT {codec.PIECE_COLUMNS} FROM pieces WHERE doc = %s"
_MAX_INT = (1 << 31) - 1


class _PieceReader:
    def __init__(self, connection: Connection, doc: int, doc_id: str) -> None:
        self._connection, self._doc, self._doc_id = connection, doc, doc_id

    def by_message(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(" AND message = ANY(%s)", list(ids)) if ids else []

    def children(self, ids: Sequence[str]) -> list[Piece]:
        return self._fetch(" AND parent = ANY(%s)", list(ids)) if ids else []

    def before(self, n: int | None, count: int) -> list[Piece]:
        return self._fetch(" AND n < %s ORDER BY n DESC LIMIT %s", _MAX_INT if n is None else n, count)

    def after(self, n: int | None, count: int) -> list[Piece]:
        return self._fetch(" AND n > %s ORDER BY n LIMIT %s", -_MAX_INT if n is None else n, count)

    def _fetch(self, condition: str, *params: Any) -> list[Piece]:
        read = fetch_rows(self._connection, f"{_PIECES}{condition}", (self._doc, *params))
        return pieces.parse_pieces(self._doc_id, read)


def is_split(connection: Connection, number: int, doc_id: str) -> bool:
    """Whether a thread has a piece for each message; NotFound if it is not there."""
    found = fetch_rows(
        connection,
        "SELECT p.message FROM documents d JOIN pieces p ON p.doc = d.row"
        " WHERE d.collection = %s AND d.id = %s LIMIT 1",
        (number, doc_id),
    )
    if not found:
        raise not_found_error(doc_id)
    return found[0][0] is not None


def split_thread(connection: Connection, collection: OpenCollection, doc_id: str) -> None:
    """Gives a thread that an earlier version wrote a piece for each message; its content stays as it is."""
    number = collection.number
    write.lock_documents(connection, number, [doc_id])
    if is_split(connection, number, doc_id):
        return
    document = read.read_document(connection, number, doc_id)
    chunks = read.read_document_chunks(connection, number, doc_id)
    split = pieces.split_document(document, chunks)
    ((doc,),) = fetch_rows(connection, "SELECT row FROM documents WHERE collection = %s AND id = %s", (number, doc_id))
    connection.execute("DELETE FROM pieces WHERE doc = %s", (doc,))
    insert.write_pieces(connection, number, doc, split.pieces)
    connection.execute(
        "UPDATE chunks c SET piece = u.piece, idx = u.idx, start = u.start, stop = u.stop"
        " FROM unnest(%s::text[], %s::int[], %s::int[], %s::bigint[], %s::bigint[]) AS u(id, piece, idx, start, stop)"
        " WHERE c.collection = %s AND c.id = u.id",
        ([chunk.id for chunk in chunks], *map(list, zip(*split.places, strict=True)), number),
    )


def read_thread_part(connection: Connection, number: int, doc_id: str, ids: Sequence[str], reach: int) -> ThreadPart:
    """The part of a thread that an edit of some messages needs, all of one state."""
    with read_one_state(connection):
        found = fetch_rows(
            connection,
            f"SELECT d.row, d.revision, {codec.RECORD_COLUMNS} FROM documents d WHERE d.collection = %s AND d.id = %s",
            (number, doc_id),
        )
        if not found:
            raise not_found_error(doc_id)
        ((doc, revision, *record),) = found
        return pieces.read_part(_PieceReader(connection, doc, doc_id), codec.parse_record(record), revision, ids, reach)


def read_waiting_messages(
    connection: Connection, number: int, ids: Sequence[str], channel: str
) -> dict[str, list[Waiting]]:
    """The messages of a channel that answer those, by the id of the one that they answer."""
    waiting: dict[str, list[Waiting]] = {}
    for awaited, message, doc_id, meta in fetch_rows(
        connection,
        "SELECT p.awaits, p.message, d.id, d.meta FROM pieces p JOIN documents d ON d.row = p.doc"
        " WHERE p.collection = %s AND p.awaits = ANY(%s) ORDER BY d.row, p.n",
        (number, list(ids)),
    ):
        if json.loads(meta).get("channel") == channel:
            waiting.setdefault(awaited, []).append(Waiting(message, doc_id))
    return waiting


def write_edits(
    connection: Connection,
    collection: OpenCollection,
    edits: Sequence[ThreadEdit],
    entries: Sequence[Sequence[Entry]],
) -> None:
    """Changes threads; what goes is removed first, so that it may come into another."""
    ids = [edit.document.id for edit in edits]
    write.lock_documents(connection, collection.number, ids)
    read.check_model_unchanged(connection, collection)
    found = fetch_rows(
        connection,
        "SELECT id, row, revision FROM documents WHERE collection = %s AND id = ANY(%s)",
        (collection.number, ids),
    )
    rows = {doc_id: (row, revision) for doc_id, row, revision in found}
    for edit in edits:
        pieces.check_revision(edit.document.id, edit.revision, rows.get(edit.document.id, (0, 0))[1])
    for edit in edits:
        if edit.removed:
            _remove_from_thread(connection, collection, edit, rows[edit.document.id][0])
    for edit, own in zip(edits, entries, strict=True):
        if edit.revision:
            _write_edit(connection, collection, edit, own, rows[edit.document.id][0])
        else:
            write.put_documents(connection, collection, [DocumentEntries(edit.document, own)])


def _remove_from_thread(connection: Connection, collection: OpenCollection, edit: ThreadEdit, doc: int) -> None:
    """Removes the messages that an edit takes out, with their chunks; a thread that is left empty stays for now."""
    key = (doc, list(edit.removed))
    lengths = fetch_rows(connection, "DELETE FROM chunks WHERE doc = %s AND piece = ANY(%s) RETURNING length", key)
    sizes = fetch_rows(connection, "DELETE FROM pieces WHERE doc = %s AND n = ANY(%s) RETURNING chars", key)
    connection.execute(
        "UPDATE documents SET chars = chars - %s, chunks = chunks - %s WHERE row = %s",
        (sum(size for (size,) in sizes), len(lengths), doc),
    )
    insert.refresh_blocks(connection, collection.number, doc, edit.removed)
    removed_length = sum(length for (length,) in lengths)
    write.update_counts(connection, collection, removed=len(lengths), removed_length=removed_length)


def _write_edit(
    connection: Connection, collection: OpenCollection, edit: ThreadEdit, entries: Sequence[Entry], doc: int
) -> None:
    """Writes the messages of an edit with their chunks; a thread that is left empty goes."""
    split = pieces.split_edit(edit)
    key = (doc, [piece.n for piece in split.pieces])
    sizes = fetch_rows(connection, "SELECT chars FROM pieces WHERE doc = %s AND n = ANY(%s)", key)
    old = fetch_rows(connection, "SELECT id, row, print, length FROM chunks WHERE doc = %s AND piece = ANY(%s)", key)
    insert.write_pieces(connection, collection.number, doc, split.pieces)
    added, removed, length = write.write_chunks(connection, collection, doc, old, entries, split.places)
    chars = sum(piece.chars for piece in split.pieces) - sum(size for (size,) in sizes)
    connection.execute(
        "UPDATE documents SET chars = chars + %s, chunks = chunks + %s, updated = %s,"
        f" revision = {insert.NEW_REVISION}, summary = '', summary_by = '' WHERE row = %s",
        (chars, len(entries) - len(old), datetime.now(UTC).isoformat(), doc),
    )
    connection.execute("DELETE FROM summaries WHERE row = %s", (doc,))
    if not edit.is_append:
        connection.execute("UPDATE documents SET title = %s, hash = '' WHERE row = %s", (edit.document.title, doc))
    if edit.removed and not fetch_rows(connection, "SELECT 1 FROM pieces WHERE doc = %s LIMIT 1", (doc,)):
        write.drop_documents(connection, collection, [edit.document.id])
    write.update_counts(connection, collection, added=added, removed=removed, removed_length=length)
