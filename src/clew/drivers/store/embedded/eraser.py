"""What deletions leave on the disk: takes it out of the files of a collection.

A deleted row stays in free pages and in the write-ahead log until it is overwritten, its terms in a tombstone, its
vector in the files of the index.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from clew.core.errors import DriverFailed
from clew.core.jobs import FINISHED
from clew.core.receipt import Purge
from clew.drivers.store.embedded import connection, schema
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.sums import read_checked_text


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

    def drop_jobs(self, matches: Callable[[str, str], bool]) -> tuple[int, list[str]]:
        """Deletes the jobs that match and have ended; how many, and the ids of those that match and have not."""
        with self._database.write_transaction() as db:
            jobs = db.execute("SELECT id, state, request, result, error FROM jobs").fetchall()
            found = {job: state in FINISHED for job, state, *texts in jobs if matches(job, "\n".join(texts))}
            db.executemany("DELETE FROM jobs WHERE id = ?", [(job,) for job, has_ended in found.items() if has_ended])
        return sum(found.values()), [job for job, has_ended in found.items() if not has_ended]

    def purge(self) -> Purge:
        """Takes what was deleted from the disk: tombstones, the index, free pages, the log."""
        with self._database.write_transaction() as db:
            _drop_tombstones(db)
        if self._folder is None:
            return Purge()
        index, database = self._indexes.discard(), rewrite_database(self._folder)
        done = (
            *(() if index else ("the files of the index: deleted and built again",)),
            *(() if database else (f"{schema.FILE}: rewritten (secure_delete, VACUUM), its log emptied",)),
        )
        return Purge(done, again=(*index, *database))

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
