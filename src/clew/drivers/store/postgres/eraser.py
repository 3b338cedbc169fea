"""What deletions leave in the tables: rewrites them without dead rows."""

from collections.abc import Callable, Sequence

from psycopg import Connection, errors, sql

from clew.core.jobs import FINISHED
from clew.core.receipt import Purge
from clew.drivers.store.postgres import partitions
from clew.drivers.store.postgres.connect.errors import translate_errors
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows

LOCK_TIMEOUT = "60s"  # to wait for those who use a table


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

    def drop_jobs(self, matches: Callable[[str, str], bool]) -> tuple[int, list[str]]:
        """Deletes the jobs that match and have ended; how many, and the ids of those that match and have not."""

        def drop(connection: Connection) -> tuple[int, list[str]]:
            columns = "id, state, request, result, error"
            jobs = fetch_rows(connection, f"SELECT {columns} FROM jobs WHERE collection = %s", (self._number,))
            found = {job: state in FINISHED for job, state, *texts in jobs if matches(job, "\n".join(texts))}
            ended = [job for job, has_ended in found.items() if has_ended]
            connection.execute("DELETE FROM jobs WHERE collection = %s AND id = ANY(%s)", (self._number, ended))
            return len(ended), [job for job, has_ended in found.items() if not has_ended]

        return self._pool.run_transaction(drop)

    def purge(self) -> Purge:
        """Rewrites the tables without dead rows, and their statistics, as far as the role may."""
        with translate_errors(self._pool.place), self._pool.open_connection() as connection:
            ((role,),) = fetch_rows(connection, "SELECT current_user::text")
            tables = _list_tables(connection, self._number)
            if not _owns_tables(connection):
                names = ", ".join(f"clew.{table}" for table in tables)
                text = (
                    f"the role {role} may not rewrite the tables, whose files keep deleted rows until then; their "
                    f"owner runs VACUUM (FULL, ANALYZE) {names}"
                )
                return Purge(forbidden=(text,))
            again = _rewrite_tables(connection, tables)
            partitions.analyse_whole(connection)
            rewritten = f"VACUUM (FULL, ANALYZE) of {len(tables) - len(again)} of {len(tables)} tables"
            return Purge((rewritten,), tuple(again), tuple(_rewrite_statistics(connection, role)))

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
