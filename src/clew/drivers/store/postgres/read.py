"""What is kept, as it was put."""

from collections.abc import Iterator, Sequence

from psycopg import Connection

from clew.core.types import Chunk, Document, DocumentRecord, Filter, Vector
from clew.drivers.store import codec as nouns
from clew.drivers.store.embedded.truth import asked_of_documents
from clew.drivers.store.embedded.write import missing
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.connect.pool import rows
from clew.drivers.store.postgres.connect.setup import Opened
from clew.drivers.store.postgres.search import filters as sieve
from clew.drivers.store.staging import moved

USED = "(SELECT embedder FROM collections WHERE number = %s)"


def document(connection: Connection, number: int, doc_id: str) -> Document:
    """The document with its text, or NotFound."""
    columns = ", ".join(f"d.{name}" for name in nouns.RECORD_COLUMNS.split(", "))
    found = rows(
        connection,
        f"SELECT {columns}, (SELECT array_agg(p.text ORDER BY n) FROM pieces p WHERE p.doc = d.row),"
        " (SELECT array_agg(p.sections ORDER BY n) FROM pieces p WHERE p.doc = d.row)"
        " FROM documents d WHERE d.collection = %s AND d.id = %s",
        (number, doc_id),
    )
    if not found:
        raise missing(doc_id)
    (*record, texts, sections) = found[0]
    known = nouns.record(record)
    return Document(
        known.id,
        "".join(texts),
        nouns.sections(sections),
        known.kind,
        known.title,
        known.uri,
        known.summary,
        known.meta,
        known.hash,
        known.stamp,
    )


def records(connection: Connection, number: int, where: Filter) -> Iterator[DocumentRecord]:
    """The records of the documents that a filter admits, by uri and id."""
    groups = asked_of_documents(where)
    if not all(groups):
        return iter(())
    asked = sieve.conditions(groups)
    read = rows(
        connection,
        f"SELECT {nouns.RECORD_COLUMNS} FROM documents s WHERE collection = %s{asked.sql} ORDER BY uri, id",
        (number, *asked.given),
    )
    return map(nouns.record, read)


def chunks(connection: Connection, number: int, doc_id: str) -> list[Chunk]:
    """The chunks of a document in order, or NotFound."""
    read = rows(
        connection,
        f"SELECT {nouns.CHUNK_COLUMNS} FROM documents d LEFT JOIN chunks c ON c.doc = d.row"
        " WHERE d.collection = %s AND d.id = %s ORDER BY c.idx",
        (number, doc_id),
    )
    if not read:
        raise missing(doc_id)
    return [nouns.chunk(columns) for columns in read if columns[0] is not None]


def named(connection: Connection, number: int, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
    """Those of the chunks that are there, by id."""
    read = rows(
        connection,
        f"SELECT {nouns.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc"
        " WHERE c.collection = %s AND c.id = ANY(%s)",
        (number, list(chunk_ids)),
    )
    return {columns[0]: nouns.chunk(columns) for columns in read}


def text_of(connection: Connection, number: int, doc_id: str) -> str:
    """The text of a document as it is kept; none where there is no document."""
    read = rows(
        connection,
        "SELECT p.text FROM pieces p JOIN documents d ON d.row = p.doc"
        " WHERE d.collection = %s AND d.id = %s ORDER BY p.n",
        (number, doc_id),
    )
    return "".join(text for (text,) in read)


def channels(connection: Connection, number: int) -> list[str]:
    """The channels that have chunks, by name: each looked up in the index after the one before it."""
    one = "SELECT min(channel) FROM chunks WHERE collection = %s AND channel"
    read = rows(
        connection,
        f"WITH RECURSIVE names(name) AS (({one} IS NOT NULL) UNION ALL SELECT ({one} > n.name) FROM names n"
        " WHERE n.name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL",
        (number, number),
    )
    return [name for (name,) in read]


def latest(connection: Connection, number: int, channel: str, k: int) -> list[Chunk]:
    """The k chunks of a channel that were added last, the last one at the end."""
    read = rows(
        connection,
        f"SELECT {nouns.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc"
        " WHERE c.collection = %s AND c.channel = %s ORDER BY c.row DESC LIMIT %s",
        (number, channel, max(k, 0)),
    )
    return [nouns.chunk(columns) for columns in reversed(read)]


def vectors(connection: Connection, known: Opened, chunk_ids: Sequence[str]) -> dict[str, Vector]:
    """The vectors of those of the chunks that are there."""
    read = rows(
        connection,
        f"SELECT c.id, s.vector, {USED} FROM chunks c JOIN signals s ON s.row = c.row"
        " WHERE c.collection = %s AND c.id = ANY(%s)",
        (known.number, known.number, list(chunk_ids)),
    )
    for *_, used in read[:1]:
        check_model(known, used)
    return {name: codec.read_vector(sent) for name, sent, _ in read}


def still_ours(connection: Connection, known: Opened) -> None:
    """Fails where the collection was switched to another model since it was opened."""
    for (used,) in rows(connection, f"SELECT {USED}", (known.number,)):
        check_model(known, used or known.embedder)  # none: it was removed


def check_model(known: Opened, used: str) -> None:
    """The same, where its model has been read."""
    if used != known.embedder:
        raise moved(known.place, used, known.embedder)


def size(connection: Connection, chunks: int) -> int:
    """About how many bytes of the server's disk a collection takes: its share of the tables, by its chunks."""
    ((total, all_chunks),) = rows(
        connection,
        "SELECT sum(pg_total_relation_size(oid))::int8, max(reltuples) FILTER (WHERE relname = 'chunks')"
        " FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind = 'r'",
    )
    return int(total * chunks / max(all_chunks, chunks, 1))
