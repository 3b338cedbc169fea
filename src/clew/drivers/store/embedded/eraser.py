"""What deletions leave on the disk: takes it out of the files of a collection, and reads every byte that is there.

A deleted row stays in free pages and in the write-ahead log until it is overwritten, its terms in a tombstone, its
vector in the files of the index.
"""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from clew.core.errors import DriverFailed
from clew.core.fingerprint import OVERLAP
from clew.drivers.store.embedded import connection, schema
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.files import list_files
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.sums import read_checked_text

BLOCK = 1 << 20  # bytes that are read at once
ENDED = ("done", "failed", "cancelled")  # states of jobs that may be deleted
# A process that closes a file of SQLite loses the locks that its connections have on it, so another one reads them.
_COPY = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer, 1 << 20)"
_FILES_OF_SQLITE = tuple(f"{schema.FILE}{suffix}" for suffix in ("", "-wal", "-shm", "-journal"))


class EmbeddedEraser:
    """The eraser of a collection in a folder, or in memory."""

    def __init__(self, database: Database, folder: Path | None, indexes: IndexManager) -> None:
        self._database = database
        self._folder = folder
        self._indexes = indexes

    def pending(self) -> str:
        """The text about an unfinished erasure, or an empty one."""
        with self._database.reader as db:
            return read_checked_text(db, "erasing", "the record of an unfinished erasure")

    def set_pending(self, text: str) -> None:
        """Replaces the text about an unfinished erasure; an empty one deletes it, and its bytes."""
        with self._database.reader as db:
            db.execute("PRAGMA secure_delete = ON")
            try:
                with self._database.write_transaction():
                    db.execute("DELETE FROM erasing")
                    if text:
                        db.execute("INSERT INTO erasing(one, text) VALUES(1, ?)", (text,))
                if not text and self._folder:
                    _truncate_log(db)
            finally:
                db.execute("PRAGMA secure_delete = OFF")

    def drop_jobs(self, matches: Callable[[str], bool]) -> int:
        """Deletes the finished jobs of whose request, result or error something matches; how many."""
        with self._database.write_transaction() as db:
            found = db.execute("SELECT id, state, request, result, error FROM jobs").fetchall()
            ids = [job for job, state, *texts in found if state in ENDED and matches("\n".join(texts))]
            db.executemany("DELETE FROM jobs WHERE id = ?", [(job,) for job in ids])
        return len(ids)

    def purge(self) -> list[str]:
        """Takes what was deleted from the disk: tombstones, the index, free pages, the log; what it could not do."""
        with self._database.write_transaction() as db:
            _drop_tombstones(db)
        if self._folder is None:
            return []
        return [*self._indexes.discard(), *rewrite_database(self._folder)]

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Every byte of the folder, with the file it is in; of a collection in memory there are none."""
        return _read_stored_bytes(self._database, self._folder) if self._folder else iter(())

    def notes(self) -> list[str]:
        """What is beyond the folder."""
        if self._folder is None:
            return []
        return ["backups and exports of the collection, and the free blocks of the disk, are beyond this erasure"]


def _drop_tombstones(db: sqlite3.Connection) -> None:
    """Deletes all tombstones; every index that is open anywhere is then too far behind, and is rebuilt."""
    db.execute("DELETE FROM gone")
    db.execute("UPDATE meta SET change = change + 1, pruned = change + 1")


def measure_free_share(db: sqlite3.Connection, folder: Path) -> float:
    """The share of the database's file that it does not use: free pages, and what a rewrite could not cut off yet."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    whole = max(pages * size, (folder / schema.FILE).stat().st_size)
    return 1 - (pages - free) * size / whole


def rewrite_database(folder: Path) -> list[str]:
    """Rewrites the database without free pages and empties its log; what could not be done, as sentences."""
    file = folder / schema.FILE
    try:
        with closing(connection.connect(folder)) as db:
            db.execute("PRAGMA secure_delete = ON")  # for new pages too: they would hold what was in memory before
            db.execute("VACUUM")
            if not _truncate_log(db):
                return [f"{file}: another process is reading, so the log was not emptied; do it again later"]
    except (sqlite3.Error, DriverFailed) as error:
        return [f"{file}: the free pages were not removed ({error}); do it again later"]
    return []


def _read_stored_bytes(database: Database, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every byte of every file in a folder, with its path; two blocks of one file overlap.

    The text of the tables' own definitions is blanked: it is the same in every collection.
    """
    with database.reader as db:
        definitions = [sql.encode() for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    for path, _ in list_files(folder):
        name = path.relative_to(folder).as_posix()
        for block in _read_blocks(path, in_child=name in _FILES_OF_SQLITE):
            data = block
            if name in _FILES_OF_SQLITE:
                for sql in definitions:
                    data = data.replace(sql, bytes(len(sql)))
            yield name, data


def _truncate_log(db: sqlite3.Connection) -> bool:
    """Copies the whole log into the database and empties it; False if a reader did not let it for too long."""
    deadline = time.monotonic() + schema.WRITE_TIMEOUT
    while True:
        ((is_blocked, _, _),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not is_blocked:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


def _read_blocks(path: Path, *, in_child: bool) -> Iterator[bytes]:
    """The bytes of a file in blocks that overlap; a file that is removed meanwhile has none."""
    if in_child:
        command = [sys.executable, "-I", "-S", "-c", _COPY, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            assert child.stdout is not None
            yield from _overlap(iter(partial(child.stdout.read, BLOCK), b""))
        if child.returncode and path.exists():
            raise DriverFailed(f"{path}: the file cannot be read; check its permissions and run the erasure again")
        return
    try:
        with path.open("rb") as file:
            yield from _overlap(iter(partial(file.read, BLOCK), b""))
    except FileNotFoundError:
        return
    except OSError as error:
        raise DriverFailed(f"{path}: the file cannot be read ({error}); run the erasure again") from error


def _overlap(blocks: Iterator[bytes]) -> Iterator[bytes]:
    tail = b""
    for block in blocks:
        yield tail + block
        tail = (tail + block)[-OVERLAP:]
