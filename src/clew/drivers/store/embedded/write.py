"""Changes to the database. Each function runs inside one transaction that the caller has begun."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from clew.core.errors import DriverFailed
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, Section, Vector
from clew.drivers.store import checksums, codec, pieces
from clew.drivers.store.checks import check_append, check_text_unchanged, not_found_error
from clew.drivers.store.embedded.vectors import pack_bytes, pack_vector
from clew.drivers.store.entries import Entry

NEW_REVISION = "revision = (SELECT change + 1 FROM meta)"  # never that of another state of the document
MAX_TOMBSTONES = 20_000  # of removed rows, so that an index can catch up instead of being rebuilt


Added = tuple[int, Entry, pieces.Placed]  # a chunk to be inserted: the row of its document, and its place in it


def write_pieces(db: sqlite3.Connection, doc: int, given: Sequence[pieces.Piece]) -> None:
    """Writes pieces of a document, in place of those with their numbers."""
    write_pieces_of_many(db, [(doc, given)])


def write_pieces_of_many(db: sqlite3.Connection, given: Sequence[tuple[int, Sequence[pieces.Piece]]]) -> None:
    """Writes pieces of documents, each given with its row, in place of those with their numbers."""
    db.executemany(
        "INSERT OR REPLACE INTO pieces(doc, n, text, sections, chars, chunks, message, parent, awaits, sum)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(doc, *each, checksums.hash_values(doc, *each)) for doc, own in given for each in own],
    )
    for doc, own in given:
        if numbers := [each.n for each in own if each.message is not None]:
            refresh_blocks(db, doc, numbers)


def refresh_blocks(db: sqlite3.Connection, doc: int, numbers: Iterable[int]) -> None:
    """Adds up again the blocks of messages that these numbers are in."""
    for block, start, end in pieces.list_block_ranges(numbers):
        db.execute(
            f"INSERT OR REPLACE INTO blocks SELECT doc, block, chars, chunks, {codec.sum_block()} FROM"
            " (SELECT ? AS doc, ? AS block, coalesce(sum(chars), 0) AS chars, coalesce(sum(chunks), 0) AS chunks"
            " FROM pieces WHERE doc = ? AND n >= ? AND n < ? AND message IS NOT NULL)",
            (doc, block, doc, start, end),
        )


def write_chunks(
    db: sqlite3.Connection,
    doc: int,
    old: Mapping[str, tuple[int, int]],
    entries: Sequence[Entry],
    places: Sequence[pieces.Placed],
) -> tuple[list[Entry], int, int]:
    """Replaces the chunks in `old` (row and fingerprint by id); those added, how many were removed, and their length.

    A chunk whose fingerprint has not changed keeps its row.
    """
    added, removed, removed_length = replace_chunks(db, doc, old, entries, places)
    insert_chunks(db, added)
    return [entry for _, entry, _ in added], removed, removed_length


def replace_chunks(
    db: sqlite3.Connection,
    doc: int,
    old: Mapping[str, tuple[int, int]],
    entries: Sequence[Entry],
    places: Sequence[pieces.Placed],
) -> tuple[list[Added], int, int]:
    """Removes the chunks in `old` that are not among the entries; those to insert, how many went, and their length."""
    if not old:
        return [(doc, entry, place) for entry, place in zip(entries, places, strict=True)], 0, 0
    kept = {entry.chunk.id for entry in entries if old.get(entry.chunk.id, (0, None))[1] == entry.fingerprint}
    removed = [row for chunk_id, (row, _) in old.items() if chunk_id not in kept]
    removed_length = remove_chunks(db, removed)
    pairs = list(zip(entries, places, strict=True))
    added = [(doc, entry, place) for entry, place in pairs if entry.chunk.id not in kept]
    moved = [(entry.chunk, place) for entry, place in pairs if entry.chunk.id in kept]
    db.executemany(
        "UPDATE chunks SET piece = ?, idx = ?, start = ?, stop = ?, headings = ?, context = ?, at = ?, meta = ?,"
        " text = ?, sum = ? WHERE row = ?",
        [(*_chunk_to_columns(old[chunk.id][0], doc, chunk, place), old[chunk.id][0]) for chunk, place in moved],
    )
    return added, len(removed), removed_length


def read_document_text(db: sqlite3.Connection, doc_id: str) -> str:
    """The stored text of a document; empty if there is no document."""
    read = db.execute(
        "SELECT p.text FROM pieces p JOIN documents d ON d.row = p.doc WHERE d.id = ? ORDER BY p.n", (doc_id,)
    )
    return "".join(text for (text,) in read)


def prepare_append(db: sqlite3.Connection, doc_id: str, text: str, sections: Sequence[Section]) -> Document:
    """Checks that an append fits the document, and returns what is appended as a Document of its kind and meta."""
    found = db.execute("SELECT kind, meta, chars, access FROM documents WHERE id = ?", (doc_id,)).fetchone()
    if not found:
        raise not_found_error(doc_id)
    kind, meta, chars, access = found
    check_append(doc_id, sections, chars, text)
    return Document(doc_id, text, tuple(sections), kind=kind, meta=json.loads(meta), access=codec.parse_access(access))


def append_to_document(db: sqlite3.Connection, appended: Document, entries: Sequence[Entry]) -> None:
    """Extends the document of that id by text, sections and chunks."""
    doc, chars, number = db.execute(
        "SELECT d.row, d.chars, max(p.n) + 1 FROM documents d JOIN pieces p ON p.doc = d.row WHERE d.id = ?",
        (appended.id,),
    ).fetchone()
    chunks = [entry.chunk for entry in entries]
    before = db.execute("SELECT n, message FROM pieces WHERE doc = ? AND message IS NOT NULL ORDER BY n", (doc,))
    split = pieces.split_append(appended, chunks, start=chars, number=number, before=before.fetchall())
    write_pieces(db, doc, split.pieces)
    db.execute(
        "UPDATE documents SET chars = chars + ?, chunks = chunks + ?, pieces = pieces + ?, updated = ?,"
        f" {NEW_REVISION}, summary = '', summary_by = '', vector = NULL"  # it says nothing of what came after it
        " WHERE row = ?",
        (len(appended.text), len(entries), len(split.pieces), to_iso(datetime.now(UTC)), doc),
    )
    insert_chunks(db, [(doc, entry, place) for entry, place in zip(entries, split.places, strict=True)])
    update_counts(db, added=entries)


def set_summary(
    db: sqlite3.Connection, doc_id: str, summary: str, vector: Vector, *, by: str, expected_text: str | None = None
) -> None:
    """Sets the summary of a document, its vector and who made it; ConcurrentChange unless the text is as expected."""
    if not db.execute("SELECT 1 FROM documents WHERE id = ?", (doc_id,)).fetchone():
        raise not_found_error(doc_id)
    if expected_text is not None:
        check_text_unchanged(doc_id, expected_text, read_document_text(db, doc_id))
    db.execute(
        "UPDATE documents SET summary = ?, vector = ?, summary_by = ? WHERE id = ?",
        (summary, pack_vector(vector), by, doc_id),
    )
    update_counts(db)


def clear_summary_vector(db: sqlite3.Connection, doc_id: str) -> None:
    """Removes the vector of a document's summary."""
    db.execute("UPDATE documents SET vector = NULL WHERE id = ?", (doc_id,))


def set_calibration(db: sqlite3.Connection, text: str) -> None:
    """Replaces the text about the collection."""
    db.execute("INSERT OR REPLACE INTO calibration(one, text) VALUES(1, ?)", (text,))
    update_counts(db)


def drop_documents(db: sqlite3.Connection, doc_ids: Iterable[str]) -> int:
    """Removes documents with everything that belongs to them; how many existed."""
    docs = []
    for doc_id in dict.fromkeys(doc_ids):
        docs += db.execute("SELECT row FROM documents WHERE id = ?", (doc_id,)).fetchall()
    if not docs:
        return 0
    rows = [row for doc in docs for (row,) in db.execute("SELECT row FROM chunks WHERE doc = ?", doc)]
    length = remove_chunks(db, rows)
    db.executemany("DELETE FROM documents WHERE row = ?", docs)
    update_counts(db, documents=-len(docs), removed=len(rows), removed_length=length)
    return len(docs)


def prune_tombstones(db: sqlite3.Connection) -> None:
    """Deletes the oldest tombstones; an index that is further behind is rebuilt."""
    oldest = db.execute("SELECT change FROM gone ORDER BY change DESC LIMIT 1 OFFSET ?", (MAX_TOMBSTONES,)).fetchone()
    if oldest:
        db.execute("DELETE FROM gone WHERE change <= ?", oldest)
        db.execute("UPDATE meta SET pruned = ?", oldest)


def insert_chunks(db: sqlite3.Connection, added: Sequence[Added]) -> None:
    """Inserts chunks with their signals, in new rows."""
    if not added:
        return
    (last,) = db.execute("SELECT last FROM meta").fetchone()
    numbered = [(row, entry) for row, (_, entry, _) in enumerate(added, last + 1)]
    columns = [
        (row, e.chunk.id, doc, e.fingerprint, *_chunk_to_columns(row, doc, e.chunk, place))
        for row, (doc, e, place) in enumerate(added, last + 1)
    ]
    try:
        db.executemany(
            "INSERT INTO chunks(row, id, doc, print, piece, idx, start, stop, headings, context, at, meta, text, sum)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            columns,
        )
    except sqlite3.IntegrityError as error:
        raise DriverFailed(
            f"a chunk id is given twice, or is taken by another document ({error}); nothing was stored"
        ) from error
    vectors = pack_bytes([entry.vector for _, entry in numbered])
    signals = [
        (row, e.chunk.id, e.facets, e.seconds, e.length, e.terms, e.counts, vector)
        for (row, e), vector in zip(numbered, vectors, strict=True)
    ]
    db.executemany(
        "INSERT INTO signals(row, id, facets, seconds, length, terms, counts, vector, sum)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*each, checksums.hash_signal(each)) for each in signals],
    )


def remove_chunks(db: sqlite3.Connection, rows: Sequence[int]) -> int:
    """Removes the chunks in these rows and writes their tombstones; their summed length."""
    if not rows:
        return 0
    keys = [(row,) for row in rows]
    sql = "SELECT length, row, terms FROM signals WHERE row = ?"
    read = [found for key in keys if (found := db.execute(sql, key).fetchone())]  # damage may have taken one
    (change,) = db.execute("SELECT change + 1 FROM meta").fetchone()
    db.executemany(
        "INSERT INTO gone(change, row, terms, sum) VALUES(?, ?, ?, ?)",
        [(change, row, terms, checksums.hash_values(change, row, terms)) for _, row, terms in read],
    )
    db.executemany("DELETE FROM chunks WHERE row = ?", keys)
    return sum(length for length, _, _ in read)


def update_counts(
    db: sqlite3.Connection,
    *,
    documents: int = 0,
    added: Sequence[Entry] = (),
    removed: int = 0,
    removed_length: int = 0,
) -> None:
    """Increments the change number and updates the counts of the collection."""
    db.execute(
        "UPDATE meta SET change = change + 1, documents = documents + ?, chunks = chunks + ?, length = length + ?,"
        " last = last + ? WHERE one = 1",
        (documents, len(added) - removed, sum(entry.length for entry in added) - removed_length, len(added)),
    )


def _chunk_to_columns(row: int, doc: int, chunk: Chunk, place: pieces.Placed) -> tuple[int | str | None, ...]:
    """The columns of a chunk that a reader is shown, and their checksum."""
    shown = (
        codec.headings_to_json(chunk.headings),
        chunk.context,
        to_iso(chunk.at),
        codec.meta_to_json(chunk.meta),
        chunk.text,
    )
    return (*place, *shown, checksums.hash_values(row, doc, *place, *shown, chunk.id))
