"""The jobs of a collection on a server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg import Connection

from clew.drivers.store.jobs import Execute
from clew.drivers.store.postgres.connect.pool import Pool

JOBS_LOCK = 0x6A6F6273  # "jobs"; the second half of the key is the number of the collection
MAX_IDLE = "10s"  # after which the server ends the transaction, and with it the lock, of a process that halted
T = TypeVar("T")


class PostgresJobs:
    """The rows of one collection in the table `jobs`; a lock for each transaction makes the workers take turns."""

    def __init__(self, pool: Pool, number: int) -> None:
        self._pool, self._number = pool, number
        self.own_rows = f"collection = {number}"
        self.own_columns: Mapping[str, Any] = {"collection": number}

    def run_exclusively(self, work: Callable[[Execute], T]) -> T:
        """The result of work in one transaction."""

        def run(connection: Connection) -> T:
            connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true), pg_advisory_xact_lock(%s, %s)",
                (MAX_IDLE, JOBS_LOCK, self._number),
            )
            return work(_make_execute(connection))

        return self._pool.run_transaction(run)

    def run_read(self, work: Callable[[Execute], T]) -> T:
        """The result of work that only reads."""
        return self._pool.run_read(lambda connection: work(_make_execute(connection)))

    def run_apart(self, work: Callable[[Execute], T]) -> T:
        """The result of work, each statement of which is a transaction."""
        return self._pool.run_apart(lambda connection: work(_make_execute(connection)))

    def read_clock(self, execute: Execute) -> float:
        """The seconds of the server's clock, since those of the workers' machines differ."""
        ((seconds,),) = execute("SELECT extract(epoch FROM clock_timestamp())::float8", ())
        return float(seconds)


def _make_execute(connection: Connection) -> Execute:
    def execute(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        cursor = connection.execute(sql.replace("?", "%s"), params)
        return cursor.fetchall() if sql.startswith("SELECT") else []

    return execute
