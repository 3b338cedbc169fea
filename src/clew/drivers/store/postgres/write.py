"""Changes to a collection. Each function runs inside one transaction that the caller has begun."""

import json
from collections.abc import Sequence

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.stored import StoredDocument
from clew.core.types import Chunk, Document, Section, Vector
from clew.drivers.store import checks
from clew.drivers.store import codec as nouns
from clew.drivers.store.embedded.write import Entry, missing
from clew.drivers.store.postgres import codec, insert
from clew.drivers.store.postgres.connect.pool import rows
from clew.drivers.store.postgres.connect.setup import Opened
from clew.drivers.store.postgres.read import USED, check_model, text_of
from clew.drivers.store.postgres.staged import switch_key

DROPPED_AT_ONCE = 500  # documents of a transaction; each holds a lock, of which a server has some thousands


def lock(connection: Connection, number: int, doc_ids: Sequence[str]) -> None:
    """Waits until no other change of these documents is under way, nor a switch to another model; in one order
    everywhere, so that none wait in a ring."""
    keys = {xxh3_64_intdigest(f"{number}\x1f{name}".encode("utf-8", "surrogatepass")) - (1 << 63) for name in doc_ids}
    connection.execute(
        "SELECT pg_advisory_xact_lock_shared(%s)::text"
        " UNION ALL SELECT pg_advisory_xact_lock(key)::text FROM unnest(%s::bigint[]) AS key",
        (switch_key(number), codec.bigints(sorted(keys))),
    )


def put(
    connection: Connection,
    known: Opened,
    document: Document,
    made: Sequence[Entry],
    *,
    instead_of: str | None = None,
) -> None:
    """Replaces a document and its chunks; a chunk whose signal has not changed keeps its row."""
    lock(connection, known.number, [document.id])
    if instead_of is not None:
        checks.same(document.id, instead_of, text_of(connection, known.number, document.id))
    if insert.new(connection, known, document, made):
        return
    doc, is_new = _place(connection, known, document, len(made))
    connection.execute(
        "INSERT INTO pieces(doc, n, collection, text, sections) VALUES(%s, 0, %s, %s, %s)",
        (doc, known.number, document.text, nouns.sections_text(document.sections)),
    )
    read = [] if is_new else rows(connection, "SELECT id, row, print, length FROM chunks WHERE doc = %s", (doc,))
    old = {name: (row, mark) for name, row, mark, _ in read}
    kept = {each.chunk.id for each in made if old.get(each.chunk.id, (0, None))[1] == each.print}
    removed = [(row, length) for name, row, _, length in read if name not in kept]
    if removed:
        connection.execute("DELETE FROM chunks WHERE row = ANY(%s)", ([row for row, _ in removed],))
    _move(connection, [(each.chunk, old[each.chunk.id][0]) for each in made if each.chunk.id in kept])
    fresh = [each for each in made if each.chunk.id not in kept]
    insert.more(connection, known, doc, fresh)
    settle(connection, known, int(is_new), fresh, len(removed), sum(length for _, length in removed))


def keep(connection: Connection, known: Opened, whole: StoredDocument, made: Sequence[Entry]) -> None:
    """Replaces a document by one that another store kept, with the vector of its summary."""
    put(connection, known, whole.document, made)
    if whole.summary_vector is not None:
        summarise(connection, known, whole.document.id, whole.document.summary, whole.summary_vector)
    else:
        connection.execute(
            "DELETE FROM summaries WHERE row = (SELECT row FROM documents WHERE collection = %s AND id = %s)",
            (known.number, whole.document.id),
        )


def continued(connection: Connection, number: int, doc_id: str, text: str, sections: Sequence[Section]) -> Document:
    """What is to be added to a document, as one of its kind; locked until the transaction ends."""
    lock(connection, number, [doc_id])
    sql = "SELECT kind, meta, chars FROM documents WHERE collection = %s AND id = %s"
    found = rows(connection, sql, (number, doc_id))
    if not found:
        raise missing(doc_id)
    ((kind, meta, chars),) = found
    checks.at_end(doc_id, sections, chars, text)
    return Document(doc_id, text, kind=kind, meta=json.loads(meta))


def append(
    connection: Connection, known: Opened, document: Document, sections: Sequence[Section], made: Sequence[Entry]
) -> None:
    """Extends a document by the text of `document` and by chunks."""
    found = rows(
        connection,
        "UPDATE documents SET chars = chars + %s, chunks = chunks + %s, pieces = pieces + 1"
        f" WHERE collection = %s AND id = %s RETURNING row, pieces - 1, {USED}",
        (len(document.text), len(made), known.number, document.id, known.number),
    )
    if not found:
        raise missing(document.id)
    ((doc, n, used),) = found
    check_model(known, used)
    connection.execute(
        "INSERT INTO pieces(doc, n, collection, text, sections) VALUES(%s, %s, %s, %s, %s)",
        (doc, n, known.number, document.text, nouns.sections_text(sections)),
    )
    insert.more(connection, known, doc, made)
    settle(connection, known, 0, made, 0, 0)


def summarise(connection: Connection, known: Opened, doc_id: str, summary: str, vector: Vector) -> None:
    """Gives a document its summary and the summary's vector."""
    lock(connection, known.number, [doc_id])
    found = rows(
        connection,
        f"UPDATE documents SET summary = %s WHERE collection = %s AND id = %s RETURNING row, {USED}",
        (summary, known.number, doc_id, known.number),
    )
    if not found:
        raise missing(doc_id)
    check_model(known, found[0][1])
    connection.execute(
        "INSERT INTO summaries(row, collection, facets, vector) SELECT row, collection, facets, %s::vector"
        " FROM documents WHERE row = %s ON CONFLICT (row) DO UPDATE SET vector = excluded.vector",
        (codec.vector(vector), found[0][0]),
    )
    settle(connection, known, 0, [], 0, 0)


def drop(connection: Connection, known: Opened, doc_ids: Sequence[str]) -> int:
    """How many of the documents were there and are now gone, with all that belongs to them."""
    lock(connection, known.number, doc_ids)
    found = rows(
        connection,
        "SELECT row FROM documents WHERE collection = %s AND id = ANY(%s)",
        (known.number, list(doc_ids)),
    )
    if not found:
        return 0
    docs = [row for (row,) in found]
    lengths = rows(connection, "DELETE FROM chunks WHERE doc = ANY(%s) RETURNING length", (docs,))
    connection.execute("DELETE FROM documents WHERE row = ANY(%s)", (docs,))
    settle(connection, known, -len(docs), [], len(lengths), sum(length for (length,) in lengths))
    return len(docs)


def settle(
    connection: Connection, known: Opened, documents: int, made: Sequence[Entry], removed: int, length: int
) -> None:
    """Brings the change number and the counts up to date; last, because others wait for it."""
    connection.execute(
        "UPDATE collections SET change = change + 1, documents = documents + %s, chunks = chunks + %s,"
        " length = length + %s WHERE number = %s",
        (documents, len(made) - removed, sum(each.length for each in made) - length, known.number),
    )


def _place(connection: Connection, known: Opened, document: Document, chunks: int) -> tuple[int, bool]:
    """The document's row, written anew and without pieces, and whether it is a new one."""
    columns = insert.record(document, chunks)
    found = rows(
        connection,
        "SELECT d.row, d.summary, c.embedder FROM collections c LEFT JOIN documents d"
        " ON d.collection = c.number AND d.id = %s WHERE c.number = %s",
        (document.id, known.number),
    )
    for _, _, used in found:
        check_model(known, used)
    if not found or found[0][0] is None:
        ((doc,),) = rows(
            connection,
            f"INSERT INTO documents(collection, id, {insert.RECORD_NAMES})"
            f" VALUES(%(number)s, %(id)s, {insert.RECORD_VALUES}) RETURNING row",
            {**columns, "number": known.number, "id": document.id},
        )
        return doc, True
    ((doc, summary, _),) = found
    connection.execute(
        f"UPDATE documents SET ({insert.RECORD_NAMES}) = ROW({insert.RECORD_VALUES}) WHERE row = %(doc)s",
        {**columns, "doc": doc},
    )
    connection.execute("DELETE FROM pieces WHERE doc = %s", (doc,))
    if document.summary and document.summary == summary:
        connection.execute("UPDATE summaries SET facets = %s::bigint[] WHERE row = %s", (columns["facets"], doc))
    else:
        connection.execute("DELETE FROM summaries WHERE row = %s", (doc,))
    return doc, False


def _move(connection: Connection, moved: Sequence[tuple[Chunk, int]]) -> None:
    """Writes what is shown of chunks that stay, where it has changed."""
    if not moved:
        return
    of_new, of_old = (", ".join(f"{table}.{name}" for name in insert.SHOWN) for table in ("n", "c"))
    connection.execute(
        f"UPDATE chunks c SET ({insert.SHOWN_NAMES}) = ROW({of_new})"
        f" FROM unnest(%(rows)s::bigint[], {insert.SHOWN_VALUES}) AS n(row, {insert.SHOWN_NAMES})"
        f" WHERE c.row = n.row AND ({of_old}) IS DISTINCT FROM ({of_new})",
        {"rows": codec.bigints([row for _, row in moved]), **insert.shown([chunk for chunk, _ in moved])},
    )
