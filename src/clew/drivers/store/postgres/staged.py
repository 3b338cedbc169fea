"""Staged vectors in PostgreSQL, the tables `…shadows`: written in the background, then exchanged with those in use."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.core.types import Matrix
from clew.drivers.store.postgres import binary, read
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.staging import (
    Kind,
    MissingVector,
    OnProgress,
    StagedVectors,
    check_staged_model,
    parse_missing_row,
    stage_missing_vectors,
)

# A document of one chunk may have that chunk's vector for its summary too.
_SHARED = (
    "documents d JOIN summaries u ON u.row = d.row JOIN chunks c ON d.chunks = 1 AND c.doc = d.row"
    " JOIN signals g ON g.row = c.row AND coalesce(g.vector = u.vector, g.half = u.vector::halfvec)"
)
_MISSING = {
    "chunks": "SELECT o.row, o.text, o.headings, o.context FROM chunks o WHERE o.collection = {0} AND o.row > %s"
    " AND NOT EXISTS (SELECT FROM shadows s WHERE s.row = o.row)",
    "summaries": "SELECT o.row, o.summary FROM documents o WHERE o.collection = {0} AND o.row > %s"
    " AND EXISTS (SELECT FROM summaries u WHERE u.row = o.row)"
    " AND NOT EXISTS (SELECT FROM summary_shadows s WHERE s.row = o.row)"
    f" AND NOT EXISTS (SELECT FROM {_SHARED} WHERE d.row = o.row)",
}
_TEXTS = {
    "chunks": "SELECT row, text, headings, context FROM chunks WHERE row = ANY(%s::bigint[]) FOR SHARE",
    "summaries": "SELECT d.row, d.summary FROM documents d JOIN summaries u ON u.row = d.row"
    " WHERE d.row = ANY(%s::bigint[]) FOR SHARE",
}
_TABLE = {"chunks": ("shadows", "signals"), "summaries": ("summary_shadows", "summaries")}
T = TypeVar("T")


class PostgresStagedVectors:
    """The staged vectors of a collection as an open transaction sees them."""

    def __init__(self, connection: Connection, collection: OpenCollection) -> None:
        self._connection, self._collection = connection, collection

    def count_missing(self) -> int:
        """How many rows need a vector from the model."""
        queries = (f"SELECT count(*) FROM ({sql.format(self._collection.number)}) x" for sql in _MISSING.values())
        return sum(int(fetch_rows(self._connection, sql, (0,))[0][0]) for sql in queries)

    def list_missing(self, kind: Kind, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have no staged vector."""
        sql = f"{_MISSING[kind].format(self._collection.number)} ORDER BY o.row LIMIT %s"
        return [parse_missing_row(columns) for columns in fetch_rows(self._connection, sql, (after, limit))]

    def write_vectors(self, kind: Kind, missing: Sequence[MissingVector], vectors: Matrix) -> None:
        """Stores the vectors of rows, except of those whose text has changed since."""
        texts = fetch_rows(self._connection, _TEXTS[kind], (binary.encode_bigints([each.row for each in missing]),))
        now = {row: tuple(columns) for row, *columns in texts}
        unchanged = [at for at, each in enumerate(missing) if now.get(each.row) == each.columns]
        if unchanged:
            self._connection.execute(
                f"INSERT INTO {_TABLE[kind][0]}(row, collection, vector) SELECT u.row, %s, u.vector"
                " FROM unnest(%s::bigint[], %s::vector[]) AS u(row, vector)"
                " ON CONFLICT (row) DO UPDATE SET vector = excluded.vector",
                (
                    self._collection.number,
                    binary.encode_bigints([missing[at].row for at in unchanged]),
                    binary.encode_vectors(vectors[unchanged], self._collection.vector_oid),
                ),
            )

    def copy_chunk_vectors_to_summaries(self) -> None:
        """Stages the vector of a document's only chunk for its summary too, where the two share the one in use."""
        self._connection.execute(
            f"INSERT INTO summary_shadows(row, collection, vector) SELECT d.row, d.collection, s.vector FROM {_SHARED}"
            f" JOIN shadows s ON s.row = c.row WHERE d.collection = {self._collection.number}"
            " ON CONFLICT (row) DO UPDATE SET vector = excluded.vector"
        )


def read_staged_model(connection: Connection, number: int) -> StagedModel | None:
    """The model of the staged vectors, if there are any."""
    ((name, dim, was_used),) = fetch_rows(
        connection, "SELECT shadow, shadow_dim, shadow_was_used FROM collections WHERE number = %s", (number,)
    )
    return StagedModel(name, dim, was_used) if name else None


def stage_vectors(pool: Pool, collection: OpenCollection, embedder: Embedder, on_progress: OnProgress | None) -> int:
    """Makes the staged vectors of a model that are missing, one transaction per batch; how many were made."""

    def begin(connection: Connection) -> None:
        share_switch_lock(connection, collection)
        connection.execute(
            "UPDATE collections SET shadow = %s, shadow_dim = %s, shadow_was_used = false"
            " WHERE number = %s AND shadow IS NULL",
            (embedder.name, embedder.dim, collection.number),
        )

    def run(work: Callable[[StagedVectors], T]) -> T:
        def check_and_work(connection: Connection) -> T:  # others may switch or discard between two batches
            share_switch_lock(connection, collection)
            check_staged_model(collection.place, read_staged_model(connection, collection.number), embedder)
            return work(PostgresStagedVectors(connection, collection))

        return pool.run_transaction(check_and_work)

    pool.run_transaction(begin)
    return stage_missing_vectors(run, embedder, on_progress)


def switch_to_staged_model(connection: Connection, collection: OpenCollection, embedder: Embedder) -> None:
    """Puts the staged vectors in use; what is still missing is made first, while changes wait."""
    take_switch_lock(connection, collection)
    check_staged_model(collection.place, read_staged_model(connection, collection.number), embedder)
    stage_missing_vectors(lambda work: work(PostgresStagedVectors(connection, collection)), embedder)
    swap_staged_vectors(connection, collection)


def discard_staged_vectors(connection: Connection, collection: OpenCollection) -> bool:
    """Deletes the staged vectors; whether there were any."""
    take_switch_lock(connection, collection)
    for table, _ in _TABLE.values():
        connection.execute(f"DELETE FROM {table} WHERE collection = %s", (collection.number,))
    sql = "UPDATE collections SET shadow = NULL, shadow_dim = NULL WHERE number = %s AND shadow IS NOT NULL RETURNING 1"
    return bool(fetch_rows(connection, sql, (collection.number,)))


def share_switch_lock(connection: Connection, collection: OpenCollection) -> None:
    """Blocks a switch of model until the transaction ends; StoreMismatch if there was one since it was opened."""
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (make_switch_lock_key(collection.number),))
    read.check_model_unchanged(connection, collection)


def take_switch_lock(connection: Connection, collection: OpenCollection) -> None:
    """Waits for running changes and blocks new ones until the transaction ends; StoreMismatch as above."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (make_switch_lock_key(collection.number),))
    read.check_model_unchanged(connection, collection)


def swap_staged_vectors(connection: Connection, collection: OpenCollection) -> None:
    """Exchange the vectors in use with the staged ones, in the form that the collection keeps them in."""
    connection.execute("SELECT set_config('clew.switching', 'on', true)")
    number = collection.number
    for table, used in _TABLE.values():
        is_half = collection.is_half and used == "signals"
        new, old = ("half = s.vector::halfvec", "u.half::vector") if is_half else ("vector = s.vector", "u.vector")
        connection.execute(  # one statement sees both as they were
            f"WITH a AS (UPDATE {used} u SET {new} FROM {table} s WHERE s.row = u.row AND u.collection = {number}),"
            f" b AS (UPDATE {table} s SET vector = {old} FROM {used} u"
            f" WHERE u.row = s.row AND s.collection = {number}) SELECT 1"
        )
    connection.execute(
        "UPDATE collections SET embedder = shadow, dim = shadow_dim, shadow = embedder, shadow_dim = dim,"
        " shadow_was_used = true, change = change + 1 WHERE number = %s",
        (number,),
    )


def make_switch_lock_key(number: int) -> int:
    """The key of the advisory lock that every change shares and a switch holds exclusively."""
    return xxh3_64_intdigest(f"switch {number}".encode()) - (1 << 63)
