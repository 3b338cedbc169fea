"""Searches on a copy of the server: a streaming replica, which follows the server after a moment."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from psycopg import Connection

from clew.core.errors import DriverFailed, SettingsError
from clew.drivers.store.postgres.connect.labels import Access
from clew.drivers.store.postgres.connect.pool import Pool

RETRY_SECONDS = 30.0  # after a failure, in which the server answers
T = TypeVar("T")
log = logging.getLogger("clew")


def open_replica(url: str, collection: str, *, access: Access) -> Pool | None:
    """The connections to a replica; None without an address."""
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise SettingsError("store.replica is not the address of a PostgreSQL server; give postgresql://…")
    return Pool(url, collection, access=access) if url else None


class SearchPool:
    """Runs searches on the replica, if there is one, and on the server while that cannot be used."""

    def __init__(self, server: Pool, replica: Pool | None) -> None:
        self._server, self._replica = server, replica
        self._retry_at = 0.0

    def run(self, work: Callable[[Connection], T]) -> T:
        """The result of a search that sets its kind of plan itself."""
        if self._replica is not None and monotonic() >= self._retry_at:
            try:
                return self._replica.run_read_with_own_plan(work)
            except DriverFailed as error:
                self._retry_at = monotonic() + RETRY_SECONDS
                log.warning("the replica cannot be searched: %s; the server answers meanwhile", error)
        return self._server.run_read_with_own_plan(work)

    def close(self) -> None:
        """Closes the connections to the replica."""
        if self._replica is not None:
            self._replica.close()
