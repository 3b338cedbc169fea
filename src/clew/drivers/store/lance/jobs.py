"""The jobs of a collection: the rows of the queue are changed in a table in memory, and committed as one."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from clew.drivers.store.jobs import COLUMNS, Execute
from clew.drivers.store.lance.entries import Entries, EntryTable

T = TypeVar("T")


class LanceJobs:
    """The rows of the queue as entries, by the id of the job; see `JobDatabase`."""

    own_rows = "true"
    own_columns: Mapping[str, Any] = {}

    def __init__(self, entries: EntryTable, check_writable: Callable[[], None]) -> None:
        self._entries, self._check_writable = entries, check_writable

    def run_exclusively(self, work: Callable[[Execute], T]) -> T:
        """The result of work in one transaction; it is done again if another process was faster.

        ReadOnlyStore for a version of the past: jobs have no versions, so it would be of the present.
        """
        self._check_writable()

        def decide(entries: Entries) -> T:
            with closing(_load(entries)) as db:
                result = work(_make_execute(db))
                rows = db.execute(f"SELECT {COLUMNS} FROM jobs ORDER BY number").fetchall()
            entries.clear()
            entries.update({row[0]: list(row[1:]) for row in rows})
            return result

        return self._entries.change(decide)

    def run_read(self, work: Callable[[Execute], T]) -> T:
        """The result of work that only reads."""
        with closing(_load(self._entries.read())) as db:
            return work(_make_execute(db))

    run_apart = run_exclusively

    def read_clock(self, execute: Execute) -> float:  # noqa: ARG002
        """The seconds of this machine's clock: those of all machines that work at one queue must agree."""
        return time.time()


def _load(entries: Entries) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(f"CREATE TABLE jobs(number INTEGER PRIMARY KEY, {COLUMNS})")
    values = ", ".join("?" * len(COLUMNS.split(", ")))
    db.executemany(f"INSERT INTO jobs({COLUMNS}) VALUES({values})", [(name, *row) for name, row in entries.items()])
    return db


def _make_execute(db: sqlite3.Connection) -> Execute:
    def execute(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        return db.execute(sql, params).fetchall()

    return execute
