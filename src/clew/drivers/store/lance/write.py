"""Changes to a collection. Each function decides one transaction, and may be called again if others were faster."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from clew.core.errors import DriverFailed
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, Matrix, Section, Vector
from clew.drivers.store import codec, pieces
from clew.drivers.store.checks import check_append, check_text_unchanged, not_found_error
from clew.drivers.store.entries import DocumentEntries, Entry, make_entries
from clew.drivers.store.lance import rows as made
from clew.drivers.store.lance.content import Draft
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, PIECE, SCALARS, Row
from clew.drivers.store.lance.select import select
from clew.drivers.store.pieces import Piece, Placed

_WHOLE = (*SCALARS, "facets", "vector")  # of the row of a document that is written again
_OLD = ("id", "doc", "print", "length", "text", "headings", "context")  # of a chunk that may stay


def put_document(
    draft: Draft,
    document: Document,
    entries: Sequence[Entry],
    *,
    expected_text: str | None = None,
    summary_vector: Vector | None = None,
    keeps_vector: bool = True,
) -> None:
    """Replaces a document and its chunks; a chunk that has not changed keeps the number of its row."""
    old = draft.find_one(select(DOCUMENT, id=[document.id]), _WHOLE)
    if expected_text is not None:
        check_text_unchanged(document.id, expected_text, _read_text(draft, old))
    chunks = [] if old is None else draft.find(select(CHUNK, doc=[old["row"]]), _OLD)
    if old is not None:
        draft.remove([old, *draft.find(select(PIECE, doc=[old["row"]]), ("doc",))])
    vector = summary_vector
    if vector is None and keeps_vector and old and document.summary and document.summary == old["summary"]:
        vector = old.get("vector")
    number = old["row"] if old else draft.number()
    split = pieces.split_document(document, [entry.chunk for entry in entries])
    row = made.make_document_row(
        document,
        len(entries),
        row=number,
        created=old["created"] if old else None,
        revision=draft.head.change + 1,
        vector=vector,
    )
    draft.add([row])
    add_pieces(draft, number, split.pieces)
    replace_chunks(draft, number, chunks, entries, split.places)


def put_documents(draft: Draft, documents: Sequence[DocumentEntries]) -> None:
    """Replaces documents; what is stored of them is read in one scan of each kind, not in some for each of them."""
    chunk_ids = {entry.chunk.id for each in documents for entry in each.entries}
    docs = [
        row["row"] for row in draft.read_ahead(select(DOCUMENT, id={each.document.id for each in documents}), _WHOLE)
    ]
    draft.read_ahead(select(CHUNK, id=chunk_ids), ("id",))
    draft.read_ahead(select(PIECE, doc=docs), ("doc",))
    draft.read_ahead(select(CHUNK, doc=docs), _OLD)
    for each in documents:
        put_document(draft, each.document, each.entries, summary_vector=each.summary_vector)


def add_pieces(draft: Draft, doc: int, given: Sequence[Piece]) -> None:
    """Adds pieces of a document."""
    draft.add([made.make_piece_row(piece, row=draft.number(), doc=doc) for piece in given])


def replace_chunks(
    draft: Draft, doc: int, old: Sequence[Row], entries: Sequence[Entry], places: Sequence[Placed]
) -> None:
    """Replaces chunks of a document; one that has not changed keeps the number of its row."""
    draft.remove(old)
    _check_ids(draft, [entry.chunk.id for entry in entries])
    known = {row["id"]: row for row in old}
    for entry, place in zip(entries, places, strict=True):
        before = known.get(entry.chunk.id)
        number = before["row"] if before and _is_unchanged(before, entry) else draft.number()
        draft.add([made.make_chunk_row(entry, place, row=number, doc=doc)])


def _is_unchanged(row: Row, entry: Entry) -> bool:
    chunk = entry.chunk
    shown = (entry.fingerprint, chunk.text, codec.headings_to_json(chunk.headings), chunk.context)
    return shown == (row["print"], row["text"], row["headings"], row["context"])


def _check_ids(draft: Draft, ids: Sequence[str]) -> None:
    taken = draft.find(select(CHUNK, id=set(ids)), ("id",))
    twice = [each for each in ids if ids.count(each) > 1] if len(set(ids)) < len(ids) else []
    if taken or twice:
        name = twice[0] if twice else taken[0]["id"]
        raise DriverFailed(f"a chunk id is given twice, or is taken by another document ({name!r}); nothing was stored")


def append_to_document(
    draft: Draft,
    doc_id: str,
    text: str,
    sections: Sequence[Section],
    chunks: Sequence[Chunk],
    vectors: Matrix,
    terms: Sequence[Any],
) -> None:
    """Extends a document at its end."""
    old = draft.find_one(select(DOCUMENT, id=[doc_id]), _WHOLE)
    if old is None:
        raise not_found_error(doc_id)
    check_append(doc_id, sections, old["chars"], text)
    record = made.parse_record(old)
    appended = Document(doc_id, text, tuple(sections), kind=record.kind, meta=record.meta, access=record.access)
    entries = make_entries(appended, chunks, vectors, terms)
    numbers = sorted(
        (row["n"], row["message"]) for row in draft.find(select(PIECE, doc=[old["row"]]), ("n", "message"))
    )
    before = [(n, message) for n, message in numbers if message is not None]
    split = pieces.split_append(
        appended, list(chunks), start=old["chars"], number=numbers[-1][0] + 1 if numbers else 0, before=before
    )
    add_pieces(draft, old["row"], split.pieces)
    replace_chunks(draft, old["row"], [], entries, split.places)
    sizes = {"chars": old["chars"] + len(text), "chunks": old["chunks"] + len(entries)}
    change_document(draft, old, **sizes, **_no_summary(draft))


def _no_summary(draft: Draft) -> Row:
    """What changes of a document with its text: it has another revision and time, and no summary any more."""
    return {
        "updated": to_iso(datetime.now(UTC)),
        "revision": draft.head.change + 1,
        "summary": "",
        "summary_by": "",
        "vector": None,
    }


def change_document(draft: Draft, old: Row, **columns: Any) -> None:
    """Replaces the row of a document by one with other columns."""
    new = made.seal_document({**{name: old.get(name) for name in _WHOLE}, **columns})
    if isinstance(new["facets"], frozenset):
        new["facets"] = sorted(new["facets"])
    draft.remove([old])
    draft.add([new])


def change_named_document(draft: Draft, doc_id: str, *, expected_text: str | None = None, **columns: Any) -> None:
    """Replaces columns of a document; NotFound if it is not there, ConcurrentChange if its text is another."""
    old = draft.find_one(select(DOCUMENT, id=[doc_id]), _WHOLE)
    if old is None:
        raise not_found_error(doc_id)
    if expected_text is not None:
        check_text_unchanged(doc_id, expected_text, _read_text(draft, old))
    change_document(draft, old, **columns)


def set_stamp(draft: Draft, doc_id: str, stamp: str) -> None:
    """Sets the stamp of a document, if it is there."""
    old = draft.find_one(select(DOCUMENT, id=[doc_id]), _WHOLE)
    if old is not None:
        change_document(draft, old, stamp=stamp)


def drop_documents(draft: Draft, doc_ids: Sequence[str]) -> int:
    """Removes documents with everything that belongs to them; how many existed."""
    found = draft.find(select(DOCUMENT, id=set(doc_ids)), ("id",))
    docs = [row["row"] for row in found]
    draft.remove(found)
    draft.remove(draft.find(select(PIECE, doc=docs), ("doc",)))
    draft.remove(draft.find(select(CHUNK, doc=docs), ("doc", "length")))
    return len(found)


def _read_text(draft: Draft, document: Row | None) -> str:
    if document is None:
        return ""
    found = draft.find(select(PIECE, doc=[document["row"]]), ("n", "text"))
    return "".join(row["text"] for row in sorted(found, key=lambda row: int(row["n"])))


def remove_messages(draft: Draft, document: Row, numbers: Sequence[int]) -> None:
    """Removes messages of a thread with their chunks; a thread that is left empty stays for now."""
    gone = draft.find(select(PIECE, doc=[document["row"]], n=set(numbers)), ("doc", "chars"))
    chunks = draft.find(select(CHUNK, doc=[document["row"]], piece=set(numbers)), ("doc", "length"))
    draft.remove([*gone, *chunks])
    sizes = {"chars": document["chars"] - sum(row["chars"] for row in gone)}
    change_document(draft, document, **sizes, chunks=document["chunks"] - len(chunks))


def write_messages(draft: Draft, document: Row, edit: Any, entries: Sequence[Entry]) -> None:
    """Writes the messages of an edit with their chunks; a thread that is left empty goes."""
    split = pieces.split_edit(edit)
    numbers, doc = {piece.n for piece in split.pieces}, document["row"]
    old_pieces = draft.find(select(PIECE, doc=[doc], n=numbers), ("doc", "chars"))
    old_chunks = draft.find(select(CHUNK, doc=[doc], piece=numbers), (*_OLD, "piece"))
    draft.remove(old_pieces)
    add_pieces(draft, doc, split.pieces)
    replace_chunks(draft, doc, old_chunks, entries, split.places)
    chars = sum(piece.chars for piece in split.pieces) - sum(row["chars"] for row in old_pieces)
    columns: Row = {
        **_no_summary(draft),
        "chars": document["chars"] + chars,
        "chunks": document["chunks"] + len(entries) - len(old_chunks),
    }
    if not edit.is_append:
        columns |= {"title": edit.document.title, "hash": ""}
    change_document(draft, document, **columns)
    if edit.removed and not draft.find(select(PIECE, doc=[doc]), ("doc",)):
        drop_documents(draft, [edit.document.id])


def find_threads(draft: Draft, doc_ids: Sequence[str]) -> dict[str, Row]:
    """The rows of documents, by id."""
    return {row["id"]: row for row in draft.find(select(DOCUMENT, id=set(doc_ids)), _WHOLE)}
