"""Changes to a collection. Each function runs inside one transaction that the caller has begun."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.stored import StoredDocument
from clew.core.types import Chunk, Document, Section, Vector
from clew.drivers.store import codec, pieces
from clew.drivers.store.checks import check_append, check_text_unchanged, not_found_error
from clew.drivers.store.entries import DocumentEntries, Entry
from clew.drivers.store.postgres import binary, insert
from clew.drivers.store.postgres.connect.pool import Row, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.read import EMBEDDER, check_embedder_unchanged, read_document_text
from clew.drivers.store.postgres.staged import make_switch_lock_key, share_switch_lock

_INSERT_SUMMARY = (
    "INSERT INTO summaries(row, collection, facets, vector)"
    " SELECT row, collection, facets, %s::vector FROM documents WHERE"
)
_REPLACE_SUMMARY = "ON CONFLICT (row) DO UPDATE SET vector = excluded.vector"
DROP_BATCH = 500  # documents of a transaction; each holds a lock, of which a server has some thousands


def lock_documents(connection: Connection, number: int, doc_ids: Sequence[str]) -> None:
    """Takes the advisory locks of documents until the transaction ends, and shares that of a switch of model.

    Every transaction takes them in the same order, so that none can deadlock.
    """
    keys = {xxh3_64_intdigest(f"{number}\x1f{each}".encode("utf-8", "surrogatepass")) - (1 << 63) for each in doc_ids}
    connection.execute(
        "SELECT pg_advisory_xact_lock_shared(%s)::text"
        " UNION ALL SELECT pg_advisory_xact_lock(key)::text FROM unnest(%s::bigint[]) AS key",
        (make_switch_lock_key(number), binary.encode_bigints(sorted(keys))),
    )


def put_documents(
    connection: Connection,
    collection: OpenCollection,
    given: Sequence[DocumentEntries],
    *,
    expected_text: str | None = None,
) -> None:
    """Replaces documents and their chunks; a chunk whose fingerprint has not changed keeps its row."""
    lock_documents(connection, collection.number, [each.document.id for each in given])
    for each in given:
        document = each.document
        if expected_text is not None:
            stored_text = read_document_text(connection, collection.number, document.id)
            check_text_unchanged(document.id, expected_text, stored_text)
        _put_document(connection, collection, document, each.entries)
        if each.summary_vector is not None:
            _write_summary(connection, collection, document, each.summary_vector)


def _put_document(
    connection: Connection, collection: OpenCollection, document: Document, entries: Sequence[Entry]
) -> None:
    """Replaces a document that is locked, and its chunks."""
    if insert.insert_document(connection, collection, document, entries):
        return
    doc, is_new = _write_document_row(connection, collection, document, len(entries))
    split = pieces.split_document(document, [each.chunk for each in entries])
    insert.write_pieces(connection, collection.number, doc, split.pieces)
    read = [] if is_new else fetch_rows(connection, "SELECT id, row, print, length FROM chunks WHERE doc = %s", (doc,))
    added, removed, removed_length = write_chunks(connection, collection, doc, read, entries, split.places)
    update_counts(
        connection,
        collection,
        documents=int(is_new),
        added=added,
        removed=removed,
        removed_length=removed_length,
    )


def write_chunks(
    connection: Connection,
    collection: OpenCollection,
    doc: int,
    read: Sequence[Row],
    entries: Sequence[Entry],
    places: Sequence[pieces.Placed],
) -> tuple[list[Entry], int, int]:
    """Replaces the chunks that were read (id, row, fingerprint, length); those added, how many went, and their length.

    A chunk whose fingerprint has not changed keeps its row.
    """
    old = {chunk_id: (row, fingerprint) for chunk_id, row, fingerprint, _ in read}
    kept = {each.chunk.id for each in entries if old.get(each.chunk.id, (0, None))[1] == each.fingerprint}
    removed = [(row, length) for chunk_id, row, _, length in read if chunk_id not in kept]
    if removed:
        connection.execute("DELETE FROM chunks WHERE row = ANY(%s)", ([row for row, _ in removed],))
    pairs = list(zip(entries, places, strict=True))
    _update_moved_chunks(
        connection, [(each.chunk, place, old[each.chunk.id][0]) for each, place in pairs if each.chunk.id in kept]
    )
    added = [(each, place) for each, place in pairs if each.chunk.id not in kept]
    new = [each for each, _ in added]
    insert.insert_chunks(connection, collection, doc, new, [place for _, place in added])
    return new, len(removed), sum(length for _, length in removed)


def put_stored_document(
    connection: Connection, collection: OpenCollection, stored: StoredDocument, entries: Sequence[Entry]
) -> None:
    """Replaces a document by one from another store, with the vector of its summary."""
    put_documents(connection, collection, [DocumentEntries(stored.document, entries, stored.summary_vector)])
    if stored.summary_vector is None:
        connection.execute(
            "DELETE FROM summaries WHERE row = (SELECT row FROM documents WHERE collection = %s AND id = %s)",
            (collection.number, stored.document.id),
        )


def prepare_append(
    connection: Connection, number: int, doc_id: str, text: str, sections: Sequence[Section]
) -> Document:
    """Locks a document, checks that an append fits it, and returns what is appended as a Document of its kind."""
    lock_documents(connection, number, [doc_id])
    sql = "SELECT kind, meta, chars, access FROM documents WHERE collection = %s AND id = %s"
    found = fetch_rows(connection, sql, (number, doc_id))
    if not found:
        raise not_found_error(doc_id)
    ((kind, meta, chars, access),) = found
    check_append(doc_id, sections, chars, text)
    return Document(doc_id, text, tuple(sections), kind=kind, meta=json.loads(meta), access=codec.parse_access(access))


def append_to_document(
    connection: Connection, collection: OpenCollection, appended: Document, entries: Sequence[Entry]
) -> None:
    """Extends the document of that id by text, sections and chunks."""
    found = fetch_rows(
        connection,
        "UPDATE documents SET chars = chars + %s, chunks = chunks + %s, pieces = pieces + 1, updated = %s,"
        f" revision = {insert.NEW_REVISION}, summary = '', summary_by = ''"  # it says nothing of what came after it
        f" WHERE collection = %s AND id = %s RETURNING row, chars - %s, {EMBEDDER}",
        (
            len(appended.text),
            len(entries),
            datetime.now(UTC).isoformat(),
            collection.number,
            appended.id,
            len(appended.text),
            collection.number,
        ),
    )
    if not found:
        raise not_found_error(appended.id)
    ((doc, start, embedder),) = found
    check_embedder_unchanged(collection, embedder)
    ((number,),) = fetch_rows(connection, "SELECT max(n) + 1 FROM pieces WHERE doc = %s", (doc,))
    sql = "SELECT n, message FROM pieces WHERE doc = %s AND message IS NOT NULL ORDER BY n"
    before = [(n, message) for n, message in fetch_rows(connection, sql, (doc,))]
    chunks = [each.chunk for each in entries]
    split = pieces.split_append(appended, chunks, start=start, number=number, before=before)
    insert.write_pieces(connection, collection.number, doc, split.pieces)
    connection.execute("DELETE FROM summaries WHERE row = %s", (doc,))
    insert.insert_chunks(connection, collection, doc, entries, split.places)
    update_counts(connection, collection, added=entries)


def set_summary(
    connection: Connection,
    collection: OpenCollection,
    doc_id: str,
    summary: str,
    vector: Vector,
    *,
    by: str,
    expected_text: str | None = None,
) -> None:
    """Sets the summary of a document, its vector and who made it; ConcurrentChange unless the text is as expected."""
    lock_documents(connection, collection.number, [doc_id])
    found = fetch_rows(
        connection,
        "UPDATE documents SET summary = %s, summary_by = %s WHERE collection = %s AND id = %s"
        f" RETURNING row, {EMBEDDER}",
        (summary, by, collection.number, doc_id, collection.number),
    )
    if not found:
        raise not_found_error(doc_id)
    check_embedder_unchanged(collection, found[0][1])
    if expected_text is not None:
        check_text_unchanged(doc_id, expected_text, read_document_text(connection, collection.number, doc_id))
    connection.execute(f"{_INSERT_SUMMARY} row = %s {_REPLACE_SUMMARY}", (binary.encode_vector(vector), found[0][0]))
    update_counts(connection, collection)


def _write_summary(connection: Connection, collection: OpenCollection, document: Document, vector: Vector) -> None:
    """Writes the vector of the summary that a document was written with just now."""
    connection.execute(
        f"{_INSERT_SUMMARY} collection = %s AND id = %s {_REPLACE_SUMMARY}",
        (binary.encode_vector(vector), collection.number, document.id),
    )


def set_calibration(connection: Connection, collection: OpenCollection, text: str) -> None:
    """Replaces the text about the collection."""
    share_switch_lock(connection, collection)
    connection.execute(
        "UPDATE collections SET calibration = %s, change = change + 1 WHERE number = %s", (text, collection.number)
    )


def drop_documents(connection: Connection, collection: OpenCollection, doc_ids: Sequence[str]) -> int:
    """Removes documents with everything that belongs to them; how many existed."""
    lock_documents(connection, collection.number, doc_ids)
    found = fetch_rows(
        connection,
        "SELECT row FROM documents WHERE collection = %s AND id = ANY(%s)",
        (collection.number, list(doc_ids)),
    )
    if not found:
        return 0
    docs = [row for (row,) in found]
    lengths = fetch_rows(connection, "DELETE FROM chunks WHERE doc = ANY(%s) RETURNING length", (docs,))
    connection.execute("DELETE FROM documents WHERE row = ANY(%s)", (docs,))
    removed_length = sum(length for (length,) in lengths)
    update_counts(connection, collection, documents=-len(docs), removed=len(lengths), removed_length=removed_length)
    return len(docs)


def update_counts(
    connection: Connection,
    collection: OpenCollection,
    *,
    documents: int = 0,
    added: Sequence[Entry] = (),
    removed: int = 0,
    removed_length: int = 0,
) -> None:
    """Increments the change number and updates the counts; done last, because others wait for this row's lock."""
    connection.execute(
        "UPDATE collections SET change = change + 1, documents = documents + %s, chunks = chunks + %s,"
        " length = length + %s WHERE number = %s",
        (documents, len(added) - removed, sum(each.length for each in added) - removed_length, collection.number),
    )


def _write_document_row(
    connection: Connection, collection: OpenCollection, document: Document, chunks: int
) -> tuple[int, bool]:
    """Upserts a document's row and deletes its pieces; the row, and whether it is new."""
    found = fetch_rows(
        connection,
        "SELECT d.row, d.summary, c.embedder, d.created FROM collections c LEFT JOIN documents d"
        " ON d.collection = c.number AND d.id = %s WHERE c.number = %s",
        (document.id, collection.number),
    )
    for _, _, embedder, _ in found:
        check_embedder_unchanged(collection, embedder)
    params = insert.make_document_params(document, chunks, found[0][3] if found else None)
    if not found or found[0][0] is None:
        ((doc,),) = fetch_rows(
            connection,
            f"INSERT INTO documents(collection, id, {insert.RECORD_NAMES})"
            f" VALUES(%(number)s, %(id)s, {insert.RECORD_VALUES}) RETURNING row",
            {**params, "number": collection.number, "id": document.id},
        )
        return doc, True
    ((doc, summary, *_),) = found
    connection.execute(
        f"UPDATE documents SET ({insert.RECORD_NAMES}) = ROW({insert.RECORD_VALUES}) WHERE row = %(doc)s",
        {**params, "doc": doc},
    )
    connection.execute("DELETE FROM pieces WHERE doc = %s", (doc,))
    connection.execute("DELETE FROM blocks WHERE doc = %s", (doc,))
    if document.summary and document.summary == summary:
        connection.execute("UPDATE summaries SET facets = %s::bigint[] WHERE row = %s", (params["facets"], doc))
    else:
        connection.execute("DELETE FROM summaries WHERE row = %s", (doc,))
    return doc, False


def _update_moved_chunks(connection: Connection, moved: Sequence[tuple[Chunk, pieces.Placed, int]]) -> None:
    """Rewrites what a reader is shown of chunks that keep their rows, where it has changed."""
    if not moved:
        return
    of_new, of_old = (", ".join(f"{table}.{name}" for name in insert.CHUNK_FIELDS) for table in ("n", "c"))
    connection.execute(
        f"UPDATE chunks c SET ({insert.CHUNK_NAMES}) = ROW({of_new})"
        f" FROM unnest(%(rows)s::bigint[], {insert.CHUNK_VALUES}) AS n(row, {insert.CHUNK_NAMES})"
        f" WHERE c.row = n.row AND ({of_old}) IS DISTINCT FROM ({of_new})",
        {
            "rows": binary.encode_bigints([row for *_, row in moved]),
            **insert.make_chunk_params([chunk for chunk, *_ in moved], [place for _, place, _ in moved]),
        },
    )
