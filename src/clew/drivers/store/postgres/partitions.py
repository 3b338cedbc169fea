"""Partitions: the postings of each collection have a table of their own, `postings_NUMBER`."""

from collections.abc import Sequence

from psycopg import Connection, errors, sql

from clew.drivers.store.postgres.connect.pool import fetch_rows

ALL = "*"  # what a connection names to see which collections there are; no collection can have this name
LOCK_TIMEOUT = "500ms"  # for which searches of other collections may have to wait while a partition is dropped


def empty_partition(connection: Connection, number: int) -> None:
    """Empties the partition of a collection, in a transaction; other roles than its owner delete row by row."""
    if _owns_partition(connection, number):
        connection.execute(f"TRUNCATE clew.postings_{number}")


def drop_partition(connection: Connection, number: int) -> bool:
    """Drops the partition of a collection that is gone, outside of a transaction; False if that must wait."""
    if not _owns_partition(connection, number):
        return False
    try:
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
            connection.execute(f"DROP TABLE IF EXISTS clew.postings_{number}")
    except (errors.LockNotAvailable, errors.DeadlockDetected):  # upkeep drops it later
        return False
    return True


def drop_leftovers(connection: Connection) -> int:
    """Drops partitions of collections that are gone; how many. For the owner of the tables."""
    with connection.transaction():
        connection.execute("SELECT set_config('clew.collection', %s, true)", (ALL,))
        found = fetch_rows(
            connection,
            "SELECT substring(relname from 10)::int AS number FROM pg_class WHERE relnamespace = 'clew'::regnamespace"
            " AND relispartition AND relkind = 'r' AND relname ~ '^postings_[0-9]+$'"
            " EXCEPT SELECT number FROM clew.collections ORDER BY 1",
        )
    return sum(drop_partition(connection, number) for (number,) in found)


def list_foreign_partitions(connection: Connection, number: int) -> Sequence[str]:
    """The partitions that hold no row of a collection."""
    found = fetch_rows(
        connection,
        "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('clew') AND relispartition"
        " AND relkind = 'r' AND relname <> %s",
        (f"postings_{number}",),
    )
    return [name for (name,) in found]


def analyse_whole(connection: Connection) -> None:
    """Makes the statistics of the whole table anew, which are kept apart from those of its partitions."""
    connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("clew", "postings")))


def _owns_partition(connection: Connection, number: int) -> bool:
    statement = (
        "SELECT coalesce((SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class"
        " WHERE oid = to_regclass(%s)), false)"
    )
    return bool(fetch_rows(connection, statement, (f"clew.postings_{number}",))[0][0])
