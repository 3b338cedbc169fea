"""Reads of documents, chunks and vectors, as they were put. Each function is one statement."""

from collections.abc import Iterator, Sequence
from typing import Any

from psycopg import Connection

from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.thread_view import ThreadView
from clew.core.types import Chunk, Document, DocumentRecord, Vector
from clew.drivers.store import codec
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.pieces import build_thread_view
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.search import filters
from clew.drivers.store.staging import model_switched_error

MAX_SUBSET = 100_000  # rows that a scan gathers by the postings of one condition
_CHUNKS = f"SELECT {codec.PROVED_CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc"
PIECE_ARRAYS = ", ".join(
    f"(SELECT array_agg(p.{name} ORDER BY n) FROM pieces p WHERE p.doc = d.row)"
    for name in codec.PIECE_COLUMNS.split(", ")
)
PIECE_WIDTH = len(codec.PIECE_COLUMNS.split(", "))
CHUNK_VECTOR = "coalesce(s.vector, s.half::vector)"  # in the column of the collection's form
EMBEDDER = "(SELECT embedder FROM collections WHERE number = %s)"


class FilteredChunks:
    """Reads the chunks that a filter admits, for a scan; each call is one statement."""

    def __init__(self, pool: Pool, number: int, where: Filter) -> None:
        self._pool, self._number = pool, number
        alternatives = expand_filter(where)
        self._conditions = filters.build_filter_conditions(alternatives)
        self._subset = pool.run_read(
            lambda connection: filters.find_narrow_subset(connection, number, alternatives, MAX_SUBSET)
        )
        self._signals = " JOIN signals s ON s.row = c.row" if self._conditions.sql else ""

    def read_chunk_page(self, after: str | None, limit: int) -> list[Chunk]:
        """The first `limit` chunks of the documents after one (None: of all), by document id and index."""
        source, params = "documents d JOIN chunks c ON c.doc = d.row", tuple[Any, ...]()
        if self._subset:
            rows = f"(SELECT DISTINCT x.row FROM ({self._subset.sql}) x) y"
            source = f"{rows} JOIN chunks c ON c.row = y.row JOIN documents d ON d.row = c.doc"
            params = self._subset.params
        start, after_id = (" AND d.id > %s", (after,)) if after is not None else ("", ())
        return self._fetch_chunks(
            f"SELECT {codec.PROVED_CHUNK_COLUMNS} FROM {source}{self._signals} WHERE d.collection = %s{start}"
            f"{self._conditions.sql} ORDER BY d.id, c.piece, c.idx LIMIT %s",
            (*params, self._number, *after_id, *self._conditions.params, limit),
        )

    def read_chunk_ids(self, doc_id: str) -> list[str]:
        """The ids of the chunks of a document, in order."""
        sql = (
            f"SELECT c.id FROM documents d JOIN chunks c ON c.doc = d.row{self._signals}"
            f" WHERE d.collection = %s AND d.id = %s{self._conditions.sql} ORDER BY c.piece, c.idx"
        )
        params = (self._number, doc_id, *self._conditions.params)
        return [chunk_id for (chunk_id,) in self._pool.run_read(lambda connection: fetch_rows(connection, sql, params))]

    def read_chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids that are still there, by id."""
        chunks = self._fetch_chunks(
            f"{_CHUNKS}{self._signals} WHERE c.collection = %s AND c.id = ANY(%s){self._conditions.sql}",
            (self._number, list(chunk_ids), *self._conditions.params),
        )
        return {chunk.id: chunk for chunk in chunks}

    def _fetch_chunks(self, sql: str, params: Sequence[Any]) -> list[Chunk]:
        read = self._pool.run_read(lambda connection: fetch_rows(connection, sql, params))
        return [codec.parse_chunk(columns) for columns in read]


def read_document(connection: Connection, number: int, doc_id: str) -> Document:
    """The document with its text, or NotFound."""
    record, rows = _read_pieces(connection, number, doc_id)
    return codec.build_whole_document(record, rows)


def read_thread_view(connection: Connection, number: int, doc_id: str) -> ThreadView:
    """A thread whose messages are parsed when they are asked for, or NotFound."""
    record, rows = _read_pieces(connection, number, doc_id)
    return build_thread_view(record, rows)


def _read_pieces(connection: Connection, number: int, doc_id: str) -> tuple[DocumentRecord, Sequence[Any]]:
    """The record of a document and the PIECE_COLUMNS of its pieces."""
    found = fetch_rows(
        connection,
        f"SELECT {codec.RECORD_COLUMNS}, {PIECE_ARRAYS} FROM documents d WHERE d.collection = %s AND d.id = %s",
        (number, doc_id),
    )
    if not found:
        raise not_found_error(doc_id)
    columns = found[0]
    return codec.parse_record(columns[:-PIECE_WIDTH]), zip_pieces(columns[-PIECE_WIDTH:])


def zip_pieces(arrays: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of PIECE_ARRAYS; none if the pieces are lost."""
    return list(zip(*arrays, strict=True)) if arrays[0] is not None else []


def list_records(connection: Connection, number: int, where: Filter) -> Iterator[DocumentRecord]:
    """The records of the documents that a filter admits, by uri and id."""
    alternatives = expand_document_filter(where)
    if not alternatives:
        return iter(())
    conditions = filters.build_filter_conditions(alternatives, table="d")
    read = fetch_rows(
        connection,
        f"SELECT {codec.RECORD_COLUMNS} FROM documents d WHERE d.collection = %s{conditions.sql} ORDER BY d.uri, d.id",
        (number, *conditions.params),
    )
    return map(codec.parse_record, read)


def read_document_chunks(connection: Connection, number: int, doc_id: str, *, is_limited: bool = False) -> list[Chunk]:
    """The chunks of a document in order, or NotFound; of a connection that is limited to labels, those that it sees."""
    offsets = codec.PIECE_OFFSETS.format("= (SELECT row FROM documents WHERE collection = %s AND id = %s)")
    read = fetch_rows(
        connection,
        f"WITH o AS MATERIALIZED ({offsets})"
        f" SELECT {codec.LISTED_CHUNK_COLUMNS} FROM documents d LEFT JOIN chunks c ON c.doc = d.row"
        " LEFT JOIN o ON o.doc = c.doc AND o.n = c.piece"
        " WHERE d.collection = %s AND d.id = %s ORDER BY c.piece, c.idx",
        (number, doc_id, number, doc_id),
    )
    if not read:
        raise not_found_error(doc_id)
    chunks = [codec.parse_chunk(columns) for columns in read if columns[0] is not None]
    places = [chunk.index for chunk in chunks]
    if places != (sorted(set(places)) if is_limited else list(range(read[0][3]))):
        raise damaged_error(f"the list of the chunks of the document {doc_id!r}")
    return chunks


def read_chunks_by_id(connection: Connection, number: int, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
    """Those of the chunks that exist, by id."""
    read = fetch_rows(
        connection,
        f"{_CHUNKS} WHERE c.collection = %s AND c.id = ANY(%s)",
        (number, list(chunk_ids)),
    )
    return {columns[0]: codec.parse_chunk(columns) for columns in read}


def read_document_text(connection: Connection, number: int, doc_id: str) -> str:
    """The stored text of a document; empty if there is no document."""
    read = fetch_rows(
        connection,
        "SELECT p.text FROM pieces p JOIN documents d ON d.row = p.doc"
        " WHERE d.collection = %s AND d.id = %s ORDER BY p.n",
        (number, doc_id),
    )
    return "".join(text for (text,) in read)


def list_channels(connection: Connection, number: int) -> list[str]:
    """The channels that have chunks, by name: each looked up in the index after the one before it."""
    one = "SELECT min(channel) FROM chunks WHERE collection = %s AND channel"
    read = fetch_rows(
        connection,
        f"WITH RECURSIVE names(name) AS (({one} IS NOT NULL) UNION ALL SELECT ({one} > n.name) FROM names n"
        " WHERE n.name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL",
        (number, number),
    )
    return [name for (name,) in read]


def read_latest_chunks(connection: Connection, number: int, channel: str, k: int) -> list[Chunk]:
    """The k chunks of a channel that were added last, the last one at the end."""
    read = fetch_rows(
        connection,
        f"{_CHUNKS} WHERE c.collection = %s AND c.channel = %s ORDER BY c.row DESC LIMIT %s",
        (number, channel, max(k, 0)),
    )
    return [codec.parse_chunk(columns) for columns in reversed(read)]


def read_vectors_by_chunk_id(
    connection: Connection, collection: OpenCollection, chunk_ids: Sequence[str]
) -> dict[str, Vector]:
    """The vectors of those of the chunks that exist."""
    read = fetch_rows(
        connection,
        f"SELECT c.id, {CHUNK_VECTOR}, {EMBEDDER} FROM chunks c JOIN signals s ON s.row = c.row"
        " WHERE c.collection = %s AND c.id = ANY(%s)",
        (collection.number, collection.number, list(chunk_ids)),
    )
    for *_, embedder in read[:1]:
        check_embedder_unchanged(collection, embedder)
    return {chunk_id: binary.decode_vector(vector) for chunk_id, vector, _ in read}


def read_calibration(connection: Connection, number: int) -> str:
    """The text about the collection; empty if there is none."""
    found = fetch_rows(connection, "SELECT calibration FROM collections WHERE number = %s", (number,))
    return str(found[0][0]) if found else ""


def check_model_unchanged(connection: Connection, collection: OpenCollection) -> None:
    """StoreMismatch if the collection was switched to another model since it was opened."""
    for (embedder,) in fetch_rows(connection, f"SELECT {EMBEDDER}", (collection.number,)):
        check_embedder_unchanged(collection, embedder or collection.embedder)  # none: the collection was removed


def check_embedder_unchanged(collection: OpenCollection, embedder: str) -> None:
    """StoreMismatch if `embedder`, as read now, is not the one with which the collection was opened."""
    if embedder != collection.embedder:
        raise model_switched_error(collection.place, embedder, collection.embedder)


def estimate_disk_usage(connection: Connection, number: int, chunks: int) -> int:
    """About how many bytes of the server's disk a collection takes: its partition, and its share of the other tables.

    The share is by its chunks.
    """
    ((own, shared, all_chunks),) = fetch_rows(
        connection,
        "SELECT sum(pg_total_relation_size(oid)) FILTER (WHERE relname = %s)::int8,"
        " sum(pg_total_relation_size(oid)) FILTER (WHERE NOT relispartition)::int8,"
        " max(reltuples) FILTER (WHERE relname = 'chunks')"
        " FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind = 'r'",
        (f"postings_{number}",),
    )
    return int((own or 0) + shared * chunks / max(all_chunks, chunks, 1))
