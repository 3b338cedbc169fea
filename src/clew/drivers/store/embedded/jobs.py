"""The jobs of a collection in its own database."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from clew.drivers.store.embedded.database import Database
from clew.drivers.store.jobs import Execute

T = TypeVar("T")


class EmbeddedJobs:
    """The table `jobs` of a collection's database; SQLite lets one process write at a time.

    A job outlives a switch to another model, which may be its own work.
    """

    own_rows = "true"
    own_columns: Mapping[str, Any] = {}

    def __init__(self, database: Database) -> None:
        self._database = database

    def run_exclusively(self, work: Callable[[Execute], T]) -> T:
        """The result of work in one write transaction."""
        with self._database.write_transaction(any_model=True) as db:
            return work(_make_execute(db))

    def run_read(self, work: Callable[[Execute], T]) -> T:
        """The result of work that only reads."""
        with self._database.reader as db:
            return work(_make_execute(db))

    run_apart = run_exclusively

    def read_clock(self, execute: Execute) -> float:  # noqa: ARG002
        """The seconds of this machine's clock, on which all processes are."""
        return time.time()


def _make_execute(db: sqlite3.Connection) -> Execute:
    def execute(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        return db.execute(sql, params).fetchall()

    return execute
