"""Searches on a copy of the server: a streaming replica, which follows the server after a moment."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import TypeVar

from psycopg import Connection

from clew.core.errors import DriverFailed, SettingsError
from clew.drivers.store.postgres.connect.errors import translate_errors
from clew.drivers.store.postgres.connect.labels import Access
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows

RETRY_SECONDS = 30.0  # after a failure, in which the server answers
_IDENTITY = (
    "SELECT (SELECT system_identifier FROM pg_control_system()),"
    " (SELECT oid::int8 FROM pg_database WHERE datname = current_database()), pg_is_in_recovery(),"
    " pg_postmaster_start_time()"
)
T = TypeVar("T")
log = logging.getLogger("clew")


def open_replica(url: str, collection: str, *, access: Access) -> Pool | None:
    """The connections to a replica; None without an address."""
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise SettingsError("store.replica is not the address of a PostgreSQL server; give postgresql://…")
    return Pool(url, collection, access=access) if url else None


class SearchPool:
    """Runs searches on the replica, if there is one, and on the server while that cannot be used.

    The replica is checked on opening and whenever it comes back: it must follow this database, and be no copy of it.
    """

    def __init__(self, server: Pool, replica: Pool | None) -> None:
        self._server, self._replica = server, replica
        self._is_checked, self._retry_at = False, 0.0
        if replica is not None:
            try:
                self._check(replica)
            except SettingsError:
                replica.close()
                raise
            except DriverFailed as error:
                self._wait(error)

    def run(self, work: Callable[[Connection], T]) -> T:
        """The result of a search that sets its kind of plan itself."""
        if self._replica is not None and monotonic() >= self._retry_at:
            try:
                self._check(self._replica)
                return self._replica.run_read_with_own_plan(work)
            except (DriverFailed, SettingsError) as error:
                self._wait(error)
        return self.run_on_server(work)

    def run_on_server(self, work: Callable[[Connection], T]) -> T:
        """The result of a read that must see every change that was made through this store."""
        return self._server.run_read_with_own_plan(work)

    def close(self) -> None:
        """Closes the connections to the replica."""
        if self._replica is not None:
            self._replica.close()

    def _check(self, replica: Pool) -> None:
        if not self._is_checked:
            check_replica(self._server, replica)
            self._is_checked = True

    def _wait(self, error: Exception) -> None:
        self._is_checked, self._retry_at = False, monotonic() + RETRY_SECONDS
        log.warning("the replica cannot be searched: %s; the server answers meanwhile", error)


def check_replica(server: Pool, replica: Pool) -> None:
    """SettingsError unless a pool leads to a replica of the database of the server, or to the database itself."""
    name = f"store.replica, {replica.place},"
    here, there = read_identity(server), read_identity(replica)
    if (here.system, here.database) != (there.system, there.database):
        raise SettingsError(
            f"{name} is another database than {server.place}, or a copy of it; give the address of a streaming replica"
        )
    if not there.follows and there.started != here.started:
        raise SettingsError(
            f"{name} does not follow {server.place}: it was a replica and takes changes of its own now; make it a "
            "replica again, or give the address of another"
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Which database of which server a connection leads to; the first two are the same on its streaming replicas."""

    system: int
    database: int
    follows: bool
    started: datetime  # a server that takes changes is the same one if it was started at the same moment


def read_identity(pool: Pool) -> Identity:
    """The identity of the database that a pool leads to, by a new connection: one that fails says why at once."""
    with translate_errors(pool.place), pool.open_connection() as connection:
        (row,) = fetch_rows(connection, _IDENTITY)
    return Identity(*row)
