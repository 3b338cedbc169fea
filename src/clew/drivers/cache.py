"""A key-value cache in one SQLite file for vectors or answers of a language model, shared by threads and processes.

Each call opens and closes the file. That is cheap compared with a model, no fork inherits a connection, and there is
nothing to close. A deleted file is created again.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from clew.core.errors import DriverFailed

LOCK_TIMEOUT = 60.0  # seconds to wait for another writer
BATCH = 500  # keys in one statement; older SQLite allows 999
VERSION = 2

_TABLE = "CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
# Version 1 had one table for each kind of cache; its rows are migrated when the file is first opened.
_MIGRATIONS = {
    "answers": "SELECT key, answer FROM answers",
    "vectors": "SELECT model || char(31) || role || char(31) || digest, vector FROM vectors",
}
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ENVIRONMENT = (  # the file itself is in order
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)


class CacheFile:
    """A key-value file, created if missing; DriverFailed if it cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # SQLite raises the error
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # readable only by its owner
        except OSError as error:
            raise DriverFailed(f"{path}: the cache file cannot be created ({error}); name another file") from error
        with self._connect():
            pass  # a broken file fails now, not at the first search

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of the keys that are cached."""
        found: dict[str, bytes] = {}
        with self._connect() as db:
            for start in range(0, len(keys), BATCH):
                batch = keys[start : start + BATCH]
                marks = ",".join("?" * len(batch))
                found.update(db.execute(f"SELECT key, value FROM entries WHERE key IN ({marks})", batch))
        return found

    def put(self, values: Mapping[str, bytes]) -> None:
        """Upsert values by key."""
        with self._connect() as db, _transaction(db):
            db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", values.items())

    def clear(self) -> int:
        """Delete all entries, and overwrite their bytes in the file; return how many there were."""
        with self._connect() as db:
            db.execute("PRAGMA secure_delete = ON")
            count = db.execute("DELETE FROM entries").rowcount
            db.execute("VACUUM")
            return count

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = NORMAL")
                self._create_or_check_table(db)
                yield db
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
            if code in _LOCKED:
                problem = f"is locked by another process ({error}); try again"
            elif code in _ENVIRONMENT:
                problem = f"cannot be used ({error}); check the disk and the permissions, or name another file"
            else:
                problem = f"is damaged ({error}); delete the file, it will be created again"
            raise DriverFailed(f"{self.path}: the cache file {problem}") from error

    def _create_or_check_table(self, db: sqlite3.Connection) -> None:
        """Create the table in a new file; reject a database of another program or a newer version."""
        tables, version = _read_schema(db)
        if version > VERSION:
            raise DriverFailed(f"{self.path}: the cache file is of a newer version of Clew; delete the file")
        if "entries" in tables:
            return
        if tables - _MIGRATIONS.keys():
            raise DriverFailed(f"{self.path} is a database, but not a cache file of Clew; name another file")
        with _transaction(db):
            tables, _ = _read_schema(db)
            if "entries" in tables:  # another process was faster
                return
            db.execute(_TABLE)
            for table in tables:
                db.execute(f"INSERT INTO entries {_MIGRATIONS[table]}")
                db.execute(f"DROP TABLE {table}")
            db.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits, or rolls back
        yield


def _read_schema(db: sqlite3.Connection) -> tuple[set[str], int]:
    """Read the names of the tables and the version of the file; 0 for a new file."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return tables, version
