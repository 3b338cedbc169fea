"""Connections to the database of a collection: to one that can be written, and to one that can only be read."""

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from clew.core.errors import DriverFailed
from clew.drivers.store.sqlite import schema
from clew.drivers.store.sqlite.files import PRIVATE_FILE, make_private_folder
from clew.drivers.store.sqlite.schema import FILE, translate_errors
from clew.drivers.store.sqlite.sums import register_functions

LOG = f"{FILE}-wal"
PAGE_SIZE = 8192  # a row with a vector of 384 and its terms takes 2.5 kB


def connect(folder: Path | None) -> sqlite3.Connection:
    """A connection to the collection in a folder, created if missing (None: one in memory)."""
    if folder is None:
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        register_functions(connection)
        return connection
    try:
        make_private_folder(folder)
    except OSError as error:
        raise DriverFailed(f"{folder}: the collection cannot be created ({error}); give another folder") from error
    if (folder / FILE).exists() and not is_writable(folder):
        return open_read_only_connection(folder / FILE)
    with translate_errors(str(folder / FILE)):
        with suppress(OSError):  # SQLite says why it cannot be created; its log gets the same permissions
            os.close(os.open(folder / FILE, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
        connection = sqlite3.connect(
            folder / FILE, timeout=schema.WRITE_TIMEOUT, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            _enable_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cell_size_check = ON")  # a damaged page is noticed when it is loaded
            connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: each time waits for the disk
            connection.execute("PRAGMA cache_size = -16000")
            connection.execute("PRAGMA mmap_size = 268435456")  # a hit reads a few rows all over a large file
            register_functions(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def is_writable(folder: Path) -> bool:
    """Whether a collection can be changed: False on a read-only disk, a snapshot or a folder without permission."""
    return os.access(folder, os.W_OK)


def is_frozen(file: Path) -> bool:
    """Whether a database that cannot be written has no log: SQLite then reads the file alone, and without locks."""
    return not is_writable(file.parent) and not file.with_name(LOG).exists()


def open_read_only_connection(file: Path) -> sqlite3.Connection:
    """A connection that only reads, with the log that a writer keeps beside the file."""
    with translate_errors(str(file)):
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode=ro{'&immutable=1' if is_frozen(file) else ''}",
            uri=True,
            timeout=schema.WRITE_TIMEOUT,
            check_same_thread=False,
            isolation_level=None,
            factory=_ReadOnlyConnection,
        )
        register_functions(connection)
        return connection


class _ReadOnlyConnection(sqlite3.Connection):
    """A connection that waits while the first writer opens the log.

    For that moment, which may come before any transaction, SQLite wants to recover the log and may not write.
    """

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        deadline = time.monotonic() + schema.WRITE_TIMEOUT
        while True:
            try:
                return super().execute(*statement)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_RECOVERY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def close_connection(connection: sqlite3.Connection, folder: Path | None) -> None:
    """Closes a connection. The log is emptied and kept: without it, who may only read could not follow a writer."""
    with suppress(sqlite3.Error, OSError, UnicodeDecodeError):
        if folder and is_writable(folder) and not connection.in_transaction:
            connection.execute("PRAGMA busy_timeout = 0")  # whoever else has it open does this later
            with closing(open_read_only_connection(folder / FILE)) as last:
                last.execute("SELECT count(*) FROM sqlite_master").fetchone()
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.close()
    connection.close()


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Turns the write-ahead log on; SQLite does not wait for this lock, so we retry."""
    deadline = time.monotonic() + schema.WRITE_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
