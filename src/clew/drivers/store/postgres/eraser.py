"""What deletions leave in the tables: rewrites them without dead rows."""

from collections.abc import Sequence

from psycopg import Connection, errors, sql

from clew.core.receipt import Purge
from clew.drivers.store.postgres import partitions
from clew.drivers.store.postgres.connect.errors import translate_errors
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows

LOCK_TIMEOUT = "60s"  # to wait for those who use a table


NOTE = (
    "the server's write-ahead log, archives of it, replicas, backups and logs are its operator's, and exports are "
    "their owners': they keep what was erased until they are recycled or removed"
)


def rewrite_tables(pool: Pool, number: int) -> Purge:
    """Rewrites the tables of a collection without dead rows, and their statistics, as far as the role may."""
    with translate_errors(pool.place), pool.open_connection() as connection:
        ((role,),) = fetch_rows(connection, "SELECT current_user::text")
        tables = _list_tables(connection, number)
        if not _owns_tables(connection):
            names = ", ".join(f"clew.{table}" for table in tables)
            text = (
                f"the role {role} may not rewrite the tables, whose files keep deleted rows until then; their "
                f"owner runs VACUUM (FULL, ANALYZE) {names}"
            )
            return Purge(forbidden=(text,))
        again = _rewrite(connection, tables)
        partitions.analyse_whole(connection)
        rewritten = f"VACUUM (FULL, ANALYZE) of {len(tables) - len(again)} of {len(tables)} tables"
        return Purge((rewritten,), tuple(again), tuple(_rewrite_statistics(connection, role)))


def rewrite_named(pool: Pool) -> None:
    """Removes the dead rows of what is kept by name, where the role may."""
    with translate_errors(pool.place), pool.open_connection() as connection:
        if _owns_tables(connection):
            _rewrite(connection, ("named",))


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


def _rewrite(connection: Connection, tables: Sequence[str]) -> list[str]:
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
