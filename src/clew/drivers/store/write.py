"""Changes to a collection. Each function runs within a transaction, which may be retried if others commit first."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from clew.core.thread import BLOCK_BITS, ThreadEdit
from clew.core.time import to_iso
from clew.core.types import Document, Vector
from clew.drivers.store import rows as made
from clew.drivers.store.backend import BLOCK, CHUNK, DOCUMENT, PIECE, STAGED, Row, Transaction, select
from clew.drivers.store.checks import check_text_unchanged, not_found_error
from clew.drivers.store.rows import DocumentEntries, Entry, Piece, Placed, is_same_print

_OLD = ("id", "doc", "print", "length", "pending", "text", "headings", "context", "sum")  # of a chunk that may stay
_GONE = ("doc", "length", "pending")  # of a chunk to delete
_OLD_PIECE = ("doc", "n", "block", "chars", "chunks", "sum")


def put_document(
    tx: Transaction,
    document: Document,
    entries: Sequence[Entry],
    *,
    expected_text: str | None = None,
    summary_vector: Vector | None = None,
) -> None:
    """Replace a document and its chunks; a chunk that has not changed keeps the number of its row."""
    old = tx.find_one(select(DOCUMENT, id=[document.id]), made.WHOLE)
    if expected_text is not None:
        check_text_unchanged(document.id, expected_text, _read_text(tx, old))
    chunks: Sequence[Row] = ()
    old_pieces: Sequence[Row] = ()
    vector = summary_vector
    if old is not None:
        doc = [old["row"]]
        chunks = tx.find(select(CHUNK, doc=doc), _OLD)
        old_pieces = tx.find(select(PIECE, doc=doc), _OLD_PIECE)
        tx.remove([old])
        if vector is None and document.summary and document.summary == old["summary"]:
            vector = old["vector"]
        else:
            _drop_staged(tx, old)
    number = old["row"] if old else tx.number()
    split = made.split_document(document, [entry.chunk for entry in entries])
    created, revision = old["created"] if old else None, tx.head.change + 1
    row = made.make_document_row(document, len(entries), row=number, created=created, revision=revision, vector=vector)
    tx.add([row])
    replace_pieces(tx, number, old_pieces, split.pieces)
    replace_chunks(tx, number, chunks, entries, split.places)


def _drop_staged(tx: Transaction, document: Row) -> None:
    """Remove the staged vector of a summary that is deleted or changed."""
    if tx.head.staged is not None:
        tx.remove(tx.find(select(STAGED, row=[document["row"]]), ("row",)))


def put_documents(tx: Transaction, documents: Sequence[DocumentEntries]) -> None:
    """Replace documents, reading their stored rows in one batch."""
    found = tx.read_ahead(select(DOCUMENT, id={each.document.id for each in documents}), made.WHOLE)
    docs = [row["row"] for row in found]
    tx.read_ahead(select(PIECE, doc=docs), _OLD_PIECE)
    tx.read_ahead(select(BLOCK, doc=docs), ("doc", "block"))
    tx.read_ahead(select(CHUNK, doc=docs), _OLD)
    for each in documents:
        put_document(tx, each.document, each.entries, summary_vector=each.summary_vector)


def replace_pieces(tx: Transaction, doc: int, old: Sequence[Row], given: Sequence[Piece]) -> None:
    """Replace pieces of a document, and update the sizes of their blocks; unchanged pieces stay."""
    gone, added = old, [made.make_piece_row(piece, doc) for piece in given]
    if old:
        same = {(row["n"], row["sum"]) for row in old} & {(row["n"], row["sum"]) for row in added}
        gone = [row for row in old if (row["n"], row["sum"]) not in same]
        added = [row for row in added if (row["n"], row["sum"]) not in same]
    tx.remove(gone)
    tx.add(added)
    has_messages = bool(given) and given[0].message is not None
    if has_messages or old:
        refresh_blocks(tx, doc, [row["n"] for row in (*gone, *added)], has_messages=has_messages)


def refresh_blocks(tx: Transaction, doc: int, numbers: Iterable[int], *, has_messages: bool = True) -> None:
    """Recompute the blocks with these message numbers; a document without messages has no blocks."""
    blocks = {n >> BLOCK_BITS for n in numbers}
    if not blocks:
        return
    tx.remove(tx.find(select(BLOCK, doc=[doc], block=blocks), ("doc", "block")))
    if not has_messages:
        return
    sizes: dict[int, list[tuple[int, int, int]]] = {block: [] for block in blocks}
    for row in tx.find(select(PIECE, doc=[doc], block=blocks), ("n", "block", "chars", "chunks")):
        sizes[row["block"]].append((row["n"], row["chars"], row["chunks"]))
    tx.add(made.make_block_row(doc, block, sorted(own)) for block, own in sizes.items() if own)


def rebuild_blocks(tx: Transaction, doc_ids: Collection[str]) -> None:
    """Recompute all blocks of documents."""
    for document in tx.find(select(DOCUMENT, id=doc_ids), ("row",)):
        doc = document["row"]
        tx.remove(tx.find(select(BLOCK, doc=[doc]), ("doc", "block")))
        found = tx.find(select(PIECE, doc=[doc]), ("n", "message"))
        refresh_blocks(tx, doc, [row["n"] for row in found if row["message"] is not None])


def replace_chunks(
    tx: Transaction, doc: int, old: Sequence[Row], entries: Sequence[Entry], places: Sequence[Placed]
) -> None:
    """Replace chunks of a document; an unchanged chunk keeps its row, a moved one its row number."""
    known = {row["id"]: row for row in old}
    added: list[Row] = []
    for entry, place in zip(entries, places, strict=True):
        before = known.get(entry.chunk.id)
        if before is None or not _is_unchanged(before, entry):
            added.append(made.make_chunk_row(entry, place, row=tx.number(), doc=doc))
            continue
        row = made.make_chunk_row(entry, place, row=before["row"], doc=doc)
        if before["sum"] == row["sum"]:
            del known[entry.chunk.id]
        else:  # it has moved: keep its signals, and a vector that was made meanwhile
            added.append({**row, "print": before["print"], "pending": before["pending"]})
    tx.remove(known.values())
    tx.add(added)


def _is_unchanged(row: Row, entry: Entry) -> bool:
    chunk = entry.chunk
    shown = (chunk.text, made.headings_to_json(chunk.headings), chunk.context)
    return is_same_print(row["print"], entry) and shown == (row["text"], row["headings"], row["context"])


def _no_summary(tx: Transaction) -> Row:
    """Return the columns that a change of the text resets: a new revision and time, and no summary."""
    times: Row = {"updated": to_iso(datetime.now(UTC)), "revision": tx.head.change + 1}
    return {**times, "summary": "", "summary_by": "", "vector": None}


def change_document(tx: Transaction, old: Row, **columns: Any) -> None:
    """Replace columns in the row of a document."""
    tx.remove([old])
    if "vector" in columns:
        _drop_staged(tx, old)
    tx.add([made.seal_document({**old, **columns})])


def change_named_document(tx: Transaction, doc_id: str, *, expected_text: str | None = None, **columns: Any) -> None:
    """Replace columns of a document; NotFound if it does not exist, ConcurrentChange if its text has changed."""
    old = tx.find_one(select(DOCUMENT, id=[doc_id]), made.WHOLE)
    if old is None:
        raise not_found_error(doc_id)
    if expected_text is not None:
        check_text_unchanged(doc_id, expected_text, _read_text(tx, old))
    change_document(tx, old, **columns)


def set_stamp(tx: Transaction, doc_id: str, stamp: str) -> None:
    """Set the stamp of a document, if it exists."""
    old = tx.find_one(select(DOCUMENT, id=[doc_id]), made.WHOLE)
    if old is not None:
        change_document(tx, old, stamp=stamp)


def drop_documents(tx: Transaction, doc_ids: Sequence[str]) -> int:
    """Remove documents with everything that belongs to them; return how many existed."""
    found = tx.find(select(DOCUMENT, id=set(doc_ids)), ("row",))
    docs = [row["row"] for row in found]
    tx.remove(found)
    tx.remove(tx.find(select(PIECE, doc=docs), ("doc", "n")))
    tx.remove(tx.find(select(BLOCK, doc=docs), ("doc", "block")))
    tx.remove(tx.find(select(CHUNK, doc=docs), _GONE))
    return len(found)


def _read_text(tx: Transaction, document: Row | None) -> str:
    if document is None:
        return ""
    found = tx.find(replace(select(PIECE, doc=[document["row"]]), order="n"), ("n", "text"))
    return "".join(row["text"] for row in found)


def edit_threads(tx: Transaction, edits: Sequence[tuple[ThreadEdit, Sequence[Entry]]]) -> None:
    """Edit threads; ConcurrentChange if one has changed since it was read."""
    found = _find_threads(tx, edits)
    for edit, _ in edits:
        stored = found.get(edit.document.id)
        made.check_revision(edit.document.id, edit.revision, stored["revision"] if stored else 0)
    removing = [edit for edit, _ in edits if edit.removed]
    for edit in removing:
        _remove_messages(tx, found[edit.document.id], edit.removed)
    found = _find_threads(tx, edits) if removing else found
    for edit, entries in edits:
        if edit.revision:
            _write_messages(tx, found[edit.document.id], edit, entries)
        else:
            put_document(tx, edit.document, entries)


def _find_threads(tx: Transaction, edits: Sequence[tuple[ThreadEdit, Sequence[Entry]]]) -> dict[str, Row]:
    ids = {edit.document.id for edit, _ in edits}
    return {row["id"]: row for row in tx.find(select(DOCUMENT, id=ids), made.WHOLE)}


def _remove_messages(tx: Transaction, document: Row, numbers: Sequence[int]) -> None:
    """Remove messages of a thread with their chunks; an empty thread stays for now."""
    doc = [document["row"]]
    gone = tx.find(select(PIECE, doc=doc, n=set(numbers)), ("doc", "n", "chars"))
    chunks = tx.find(select(CHUNK, doc=doc, piece=set(numbers)), _GONE)
    tx.remove([*gone, *chunks])
    refresh_blocks(tx, document["row"], numbers)
    sizes = {"chars": document["chars"] - sum(row["chars"] for row in gone)}
    change_document(tx, document, **sizes, chunks=document["chunks"] - len(chunks))


def _write_messages(tx: Transaction, document: Row, edit: ThreadEdit, entries: Sequence[Entry]) -> None:
    """Write the messages of an edit with their chunks; drop the thread if it is empty then."""
    split = made.split_messages(edit.document, edit.numbers, edit.positions, edit.chunks)
    numbers, doc = {piece.n for piece in split.pieces}, document["row"]
    old_pieces = tx.find(select(PIECE, doc=[doc], n=numbers), _OLD_PIECE)
    old_chunks = tx.find(select(CHUNK, doc=[doc], piece=numbers), _OLD)
    replace_pieces(tx, doc, old_pieces, split.pieces)
    replace_chunks(tx, doc, old_chunks, entries, split.places)
    chars = sum(piece.chars for piece in split.pieces) - sum(row["chars"] for row in old_pieces)
    columns: Row = {
        **_no_summary(tx),
        "chars": document["chars"] + chars,
        "chunks": document["chunks"] + len(entries) - len(old_chunks),
    }
    if not edit.is_append:
        columns |= {"title": edit.document.title, "uri": edit.document.uri, "hash": ""}
    change_document(tx, document, **columns)
    if edit.removed and not tx.find(replace(select(PIECE, doc=[doc]), limit=1), ("doc", "n")):
        drop_documents(tx, [edit.document.id])
