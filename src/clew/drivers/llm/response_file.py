"""The file that a cache of answers is kept in: one SQLite table, for any number of threads and processes."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from clew.core.errors import DriverFailed

MARK = 0x434C414E  # "CLAN", the application id that tells an answer cache from any other SQLite file
VERSION = 1
WAIT = 60.0  # seconds that one writer waits for another
BATCH = 500  # keys that are looked up at once; older SQLite takes 999
TABLE = "CREATE TABLE answers(key TEXT PRIMARY KEY, model TEXT NOT NULL, answer BLOB NOT NULL) WITHOUT ROWID"


class Kept:
    """Answers by their keys, in an open file. Threads take turns."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self._path = path
        self._lock = threading.Lock()

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Those of the answers that are there."""
        found: dict[str, str] = {}
        with self._lock, failing(self._path):
            for start in range(0, len(keys), BATCH):
                some = keys[start : start + BATCH]
                marks = ",".join("?" * len(some))
                for key, answer in self._db.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", some):
                    found[key] = bytes(answer).decode("utf-8", "surrogatepass")
        return found

    def put(self, key: str, model: str, answer: str) -> None:
        """Keeps an answer; the first one stays."""
        row = (key, model, answer.encode("utf-8", "surrogatepass"))  # a model may send half of a character pair
        with self._lock, failing(self._path):
            self._db.execute("INSERT INTO answers VALUES(?, ?, ?) ON CONFLICT DO NOTHING", row)

    def close(self) -> None:
        """Waits for whoever is at work, then closes the file."""
        with self._lock:
            self._db.close()


@contextmanager
def opened(path: Path) -> Iterator[Kept]:
    """The open file, made if it is not there; refused if it is something else."""
    # Opened for a call and closed after it: it is cheap beside a model, no fork inherits it, none is forgotten.
    with failing(path):
        db = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            _check(db, path)
            db.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            db.close()
            raise
    kept = Kept(db, path)
    try:
        yield kept
    finally:
        kept.close()


@contextmanager
def failing(path: Path) -> Iterator[None]:
    """Turns every error of SQLite into a DriverFailed that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = f"{path}: the answer cache cannot be used now ({error})"
        raise DriverFailed(f"{reason}; check the disk and the permissions, then try again") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DriverFailed(f"{path}: the answer cache is damaged ({error}); delete the file") from error


def _check(db: sqlite3.Connection, path: Path) -> None:
    """Makes the table of a new file, and refuses one that holds something else."""
    if _state(db) == (0, 0, 0):
        with suppress(sqlite3.OperationalError):  # another process is making the file, and does this too
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        if _state(db) == (0, 0, 0):
            db.execute(TABLE)
            db.execute(f"PRAGMA application_id = {MARK}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    mark, version, _ = _state(db)
    if mark != MARK:
        raise DriverFailed(f"{path}: holds something other than answers; give another file for the cache")
    if version != VERSION:
        raise DriverFailed(f"{path}: was made by another version of Clew; delete the file")


def _state(db: sqlite3.Connection) -> tuple[int, int, int]:
    """The mark, the version and the number of tables of a file: all 0 for a new one."""
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return mark, version, tables
