"""What deletions leave on the disk: takes it out of the files of a collection.

A deleted row stays in free pages and in the write-ahead log until it is overwritten, its terms in a tombstone, its
vector in the files of the index.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from clew.core.errors import DriverFailed
from clew.drivers.store.sqlite import connection, schema


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
            if not truncate_log(db):
                return [f"{file}: another process is reading, so the log was not emptied; do it again later"]
    except (sqlite3.Error, DriverFailed) as error:
        return [f"{file}: the free pages were not removed ({error}); do it again later"]
    return []


def truncate_log(db: sqlite3.Connection) -> bool:
    """Copies the whole log into the database and empties it; False if a reader did not let it for too long."""
    deadline = time.monotonic() + schema.WRITE_TIMEOUT
    while True:
        ((is_blocked, _, _),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not is_blocked:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
