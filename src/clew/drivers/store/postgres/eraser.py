"""What deletions leave in the tables: rewrites them without dead rows, and reads every value of a collection."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from psycopg import Connection, errors, sql

from clew.drivers.store.postgres import binary, partitions
from clew.drivers.store.postgres.connect.errors import translate_errors
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows

ENDED = ("done", "failed", "cancelled")  # states of jobs that may be deleted
LOCK_TIMEOUT = "60s"  # to wait for those who use a table
BATCH = 1000  # rows that are read at once
# Words of our own: they are the same whatever is stored.
_OWN = {("jobs", "kind"), ("jobs", "state"), ("jobs", "stage"), ("erasures", "text"), ("documents", "kind")}
_OWN |= {("records", "kind")}


class PostgresEraser:
    """The eraser of one collection on a server."""

    def __init__(self, pool: Pool, number: int) -> None:
        self._pool = pool
        self._number = number

    def pending(self) -> str:
        """The text about an unfinished erasure, or an empty one."""
        found = self._pool.fetch_rows("SELECT text FROM erasures WHERE collection = %s", (self._number,))
        return str(found[0][0]) if found else ""

    def set_pending(self, text: str) -> None:
        """Keeps a text about an unfinished erasure; an empty one deletes it, and its dead row where the role may."""

        def replace(connection: Connection) -> None:
            connection.execute("DELETE FROM erasures WHERE collection = %s", (self._number,))
            if text:
                connection.execute("INSERT INTO erasures(collection, text) VALUES(%s, %s)", (self._number, text))

        self._pool.run_transaction(replace)
        if not text:
            with translate_errors(self._pool.place), self._pool.open_connection() as connection:
                if _owns_tables(connection):
                    _rewrite_tables(connection, ("erasures",))

    def drop_jobs(self, matches: Callable[[str], bool]) -> int:
        """Deletes the finished jobs of whose request, result or error something matches; how many."""

        def drop(connection: Connection) -> int:
            columns = "id, state, request, result, error"
            found = fetch_rows(connection, f"SELECT {columns} FROM jobs WHERE collection = %s", (self._number,))
            ids = [job for job, state, *texts in found if state in ENDED and matches("\n".join(texts))]
            if ids:
                connection.execute("DELETE FROM jobs WHERE collection = %s AND id = ANY(%s)", (self._number, ids))
            return len(ids)

        return self._pool.run_transaction(drop)

    def purge(self) -> list[str]:
        """Rewrites the tables without dead rows, and their statistics, as far as the role may; what it could not do."""
        with translate_errors(self._pool.place), self._pool.open_connection() as connection:
            ((role,),) = fetch_rows(connection, "SELECT current_user::text")
            tables = _list_tables(connection, self._number)
            if not _owns_tables(connection):
                names = ", ".join(f"clew.{table}" for table in tables)
                return [
                    f"the role {role} may not rewrite the tables, whose files keep deleted rows until then; their "
                    f"owner runs VACUUM (FULL, ANALYZE) {names}"
                ]
            undone = _rewrite_tables(connection, tables)
            partitions.analyse_whole(connection)
            return [*undone, *_rewrite_statistics(connection, role)]

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Every text, vector and term of the collection, with its column."""
        with translate_errors(self._pool.place), self._pool.open_connection() as connection:
            yield from _read_stored_bytes(connection, self._number)

    def notes(self) -> list[str]:
        """What only the operator of the server can remove."""
        return [
            "the server's write-ahead log, archives of it, replicas, backups and logs are its operator's, and exports "
            "are their owners': they keep what was erased until they are recycled or removed"
        ]


def _list_tables(connection: Connection, number: int) -> list[str]:
    """The tables that hold rows of a collection, and those of its partition."""
    found = fetch_rows(
        connection,
        "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('clew') AND relkind = 'r'"
        " AND relname <> 'format' ORDER BY 1",
    )
    foreign = partitions.list_foreign_partitions(connection, number)
    return [name for (name,) in found if name not in foreign]


def _owns_tables(connection: Connection) -> bool:
    """Whether the role of a connection may rewrite the tables."""
    ((owns,),) = fetch_rows(
        connection,
        "SELECT bool_and(pg_has_role(current_user, relowner, 'USAGE')) FROM pg_class"
        " WHERE relnamespace = to_regnamespace('clew') AND relkind = 'r'",
    )
    return bool(owns)


def _rewrite_tables(connection: Connection, tables: Sequence[str]) -> list[str]:
    """Rewrites tables, their indexes and statistics without what was deleted; which were in use for too long.

    Every table is locked while it is rewritten, so other programs wait.
    """
    # Without parallel workers: with them, some packages of pgvector crash when they build a graph.
    connection.execute(
        "SELECT set_config('lock_timeout', %s, false), set_config('max_parallel_maintenance_workers', '0', false)",
        (LOCK_TIMEOUT,),
    )
    undone: list[str] = []
    for table in tables:
        try:
            connection.execute(sql.SQL("VACUUM (FULL, ANALYZE) {}").format(sql.Identifier("clew", table)))
        except errors.LockNotAvailable:
            undone.append(f"clew.{table} was in use and is not rewritten; run the erasure again")
    return undone


def _rewrite_statistics(connection: Connection, role: str) -> list[str]:
    """Removes the statistics before the last ones, which hold samples of the values of every column."""
    ((allowed,),) = fetch_rows(
        connection,
        "SELECT r.rolsuper OR pg_has_role(current_user, d.datdba, 'USAGE') FROM pg_roles r, pg_database d"
        " WHERE r.rolname = current_user AND d.datname = current_database()",
    )
    statement = "VACUUM (FULL) pg_catalog.pg_statistic"
    if not allowed:
        return [
            f"the role {role} may not rewrite the server's statistics, which sample values; an administrator runs "
            f"{statement}"
        ]
    try:
        connection.execute(statement)
    except errors.LockNotAvailable:
        return [f"the server's statistics were in use and are not rewritten; an administrator runs {statement}"]
    return []


def _read_stored_bytes(connection: Connection, number: int) -> Iterator[tuple[str, bytes]]:
    """Every text, vector and term that the tables hold of a collection, a batch of a column at a time."""
    columns = fetch_rows(
        connection,
        "SELECT table_name::text, column_name::text, udt_name::text FROM information_schema.columns"
        " WHERE table_schema = 'clew' AND table_name = ANY(%s)"
        " AND udt_name IN ('text', 'bytea', 'jsonb', 'vector', 'halfvec', '_int8', '_text')"
        " UNION ALL SELECT 'postings', 'word', 'int8' ORDER BY 1, 2",
        (_list_tables(connection, number),),
    )
    for table, column, kind in columns:
        if (table, column) in _OWN:
            continue
        owner = "number" if table == "collections" else "collection"
        value = f"{column}::text" if kind in ("jsonb", "_text") else column
        every = "DISTINCT " if kind == "int8" else ""
        statement = f"SELECT {every}{value} FROM clew.{table} WHERE {owner} = {number} AND {column} IS NOT NULL"
        with connection.transaction(), connection.cursor(f"{table}_{column}", binary=True) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(BATCH):
                yield f"{table}.{column}", b"\0".join(_encode(value, kind) for (value,) in rows)


def _encode(value: object, kind: str) -> bytes:
    """A value as the bytes in which fingerprints are looked for."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if kind == "vector" and isinstance(value, bytes):
        return binary.decode_vector(value).astype("<f4").tobytes()
    if kind == "halfvec" and isinstance(value, bytes):
        return np.frombuffer(value, ">f2", offset=4).astype("<f4").tobytes()
    if isinstance(value, bytes):
        return value
    return np.array(value, "<i8").tobytes()
