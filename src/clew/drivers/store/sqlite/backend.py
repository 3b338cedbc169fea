"""The SQLite backend: rows, transactions and named values of a collection."""

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import asdict
from pathlib import Path

from clew.core.doctor import Defect, Remedy
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.protocols import Embedder
from clew.core.report import Purge
from clew.core.settings import StoreConfig
from clew.drivers.store.backend import Head, T, Transaction, Values
from clew.drivers.store.base import BaseBackend, NamedTexts, change_texts, check_texts
from clew.drivers.store.inspection import inspect_while_unchanged
from clew.drivers.store.sqlite import inspect, schema
from clew.drivers.store.sqlite.database import Database
from clew.drivers.store.sqlite.folder import measure_disk_usage
from clew.drivers.store.sqlite.index import SqliteIndex
from clew.drivers.store.sqlite.rows import SqliteSnapshot, apply_changes
from clew.drivers.store.store import DEFAULTS, make_opener

MAX_TOMBSTONES = 20_000  # kept so that an index can catch up instead of being rebuilt


class SqliteBackend(BaseBackend):
    """One collection in a folder, or in memory if the folder is None; see `Backend`."""

    remedy_unreadable: Remedy = "copy"

    def __init__(self, folder: Path | None, *, embedder: str, dim: int, config: StoreConfig = DEFAULTS) -> None:
        self._folder, self._config = folder, config
        self._use_database(Database(folder, embedder=embedder, dim=dim))

    def _use_database(self, database: Database) -> None:
        self._database = database
        self.place, self.dim = database.place, database.dim
        self.index: SqliteIndex = SqliteIndex(database, self._folder, self._config)

    def head(self) -> Head:
        """Return the head."""
        return self._database.read_state()

    @contextmanager
    def read(self, since: Head | None = None) -> Iterator[SqliteSnapshot]:
        """Open a snapshot for several reads."""
        with self._database.read() as db:
            yield SqliteSnapshot(self._database, db)

    def write(self, decide: Callable[[Transaction], T], *, is_change: bool = True) -> T:
        """Run a transaction; SQLite lets one process write at a time, so it runs only once."""
        with self._database.write_transaction() as (db, state):
            result, head = self._write(db, state, decide, is_change=is_change)
        if head is not None and head.last > state.last:
            self.index.keep_up(head)
        return result

    def _write(
        self, db: sqlite3.Connection, state: Head, decide: Callable[[Transaction], T], *, is_change: bool
    ) -> tuple[T, Head | None]:
        tx = Transaction(SqliteSnapshot(self._database, db, state))
        result = decide(tx)
        head = tx.finish(is_change=is_change)
        if head is not None:
            apply_changes(db, tx, head, state)
        return result, head

    def named(self, kind: str) -> "SqliteNamed":
        """Return the named values of a kind."""
        return SqliteNamed(self._database, kind)

    def swap_vectors(self, change: int) -> bool:
        """Swap the active vectors with the staged ones; a new collection id makes old indexes invalid."""
        with self._database.write_transaction() as (db, state):
            head = state.swap_models(change)
            if head is None or head.staged is None:
                return False
            if db.execute(f"SELECT 1 FROM staged WHERE sum <> {schema.FIXED['staged']} LIMIT 1").fetchone():
                raise CollectionDamaged(
                    "a vector of the model to switch to is damaged; `clew doctor --repair` deletes it, and "
                    "`clew reembed MODEL` makes it again"
                )
            db.execute(
                "CREATE TEMP TABLE used AS SELECT row, vector FROM signals WHERE length(vector) > 0 UNION ALL"
                " SELECT row, vector FROM documents WHERE vector IS NOT NULL"
            )
            for table in ("signals", "documents"):
                db.execute(f"UPDATE {table} SET vector = (SELECT s.vector FROM staged s WHERE s.row = {table}.row)")
            for table in ("chunks", "documents"):
                db.execute(f"UPDATE {table} SET pending = NULL WHERE pending IS NOT NULL")
            db.execute(f"UPDATE signals SET sum = {schema.FIXED['signals']}")
            db.execute(f"UPDATE documents SET found_sum = row_sum({', '.join(schema.FOUND_BY)})")
            db.execute("DELETE FROM staged")
            db.execute("INSERT INTO staged SELECT row, vector, row_sum(row, vector) FROM used")
            db.execute("DROP TABLE used")
            schema.write_meta(
                db,
                embedder=head.embedder,
                dim=head.dim,
                change=head.change,
                pending=0,
                birth=uuid.uuid4().hex,
                staged=json.dumps(asdict(head.staged)),
            )
        return True

    def reopen(self, embedder: Embedder) -> "SqliteBackend":
        """Open the same collection for the model that it was switched to."""
        other = copy(self)
        other._use_database(self._database.reopen_for_model_in_use(embedder))
        self.index.close()
        return other

    def compact(self) -> Purge:
        """Remove deleted content from the disk: tombstones, the index, free pages, the log."""
        with self._database.write_transaction() as (db, state):
            db.execute("DELETE FROM gone")  # every open index is then too far behind, and is rebuilt
            schema.write_meta(db, change=state.change + 1, pruned=state.change + 1)
        if self._folder is None:
            return Purge()
        index, database = self.index.discard(), rewrite_database(self._folder)
        done = (
            *(() if index else ("the files of the index: deleted and built again",)),
            *(() if database else ("clew.db: rewritten (secure_delete, VACUUM), its log emptied",)),
        )
        return Purge(done, again=(*index, *database))

    def notes(self) -> list[str]:
        """Describe what an erasure of the folder cannot reach."""
        if self._folder is None:
            return []
        return ["backups and exports of the collection, and the free blocks of the disk, are beyond this erasure"]

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Rewrite the database without free pages; return problems, or None if less than `min_share` is free."""
        if self._folder is None:
            return None
        with self._database.reader as db:
            share = measure_free_share(db, self._folder)
        return rewrite_database(self._folder) if share >= min_share else None

    def flush(self, *, with_graph: bool = True) -> None:
        """Write everything to disk and optimise the index."""
        if self.index.flush(with_graph=with_graph):
            self._prune_tombstones()
        self._database.flush()

    def _prune_tombstones(self) -> None:
        """Delete the oldest tombstones; an index that still needs them is rebuilt."""
        with self._database.write_transaction() as (db, _):
            sql = "SELECT change FROM gone ORDER BY change DESC LIMIT 1 OFFSET ?"
            oldest = db.execute(sql, (MAX_TOMBSTONES,)).fetchone()
            if oldest:
                db.execute("DELETE FROM gone WHERE change <= ?", oldest)
                schema.write_meta(db, pruned=oldest[0])

    def maintain(self) -> list[str]:
        """Optimise the index. Nothing else needs upkeep, since SQLite reuses free pages."""
        self.index.flush(is_thorough=True)
        self._prune_tombstones()
        self._database.flush()
        return [f"index kept up: {self.describe()[0]}"]

    def describe(self) -> tuple[str, int]:
        """Return the kind of the search index, and the bytes on disk."""
        return self.index.get_name(), measure_disk_usage(self._folder) if self._folder else 0

    def inspect(self, *, is_quick: bool) -> Iterator[Defect]:
        """Yield the defects of the file and the index."""
        with self._database.read_transaction() as (db, _):
            yield from inspect.inspect_file(db, is_quick=is_quick)
        yield from inspect_while_unchanged(lambda: self.head().change, lambda: self.index.inspect(is_quick=is_quick))

    def repair(self, defects: Sequence[Defect], ids: Sequence[str], mend: Callable[[Transaction], None]) -> None:
        """Repair the tables; the next search rebuilds the index."""
        self.index.discard()
        if any(each.remedy == "copy" for each in defects):
            with self._database.reader as db:
                inspect.rewrite_rows(db)
            return  # the rows are inspected again
        with self._database.write_transaction() as (db, state):
            inspect.prepare_repair(db, ids, state.change + 1)
            self._write(db, state, mend, is_change=False)

    def close(self) -> None:
        """Close the index and the database."""
        self.index.close()
        self._database.close()


class SqliteNamed(NamedTexts):
    """The values of a kind in the table `named`, accessible after a model switch, too: a job may make the switch."""

    def __init__(self, database: Database, kind: str) -> None:
        self._database, self._kind = database, kind

    def load_texts(self, names: Collection[str] | None = None) -> dict[str, str]:
        """Load the existing texts with these names, or all."""
        with self._database.reader as db:
            return self._load(db, names)

    def _load(self, db: sqlite3.Connection, names: Collection[str] | None) -> dict[str, str]:
        condition, params = "", [self._kind]
        if names is not None:
            condition, params = " AND name IN (SELECT value FROM json_each(?))", [self._kind, json.dumps(list(names))]
        sql = f"SELECT name, value, sum FROM named WHERE kind = ?{condition} ORDER BY number"
        return check_texts(self._kind, db.execute(sql, params))

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes the values in place; overwrite deleted ones."""
        with self._database.reader as db:
            db.execute("PRAGMA secure_delete = ON")
            try:
                return self._change(decide, names)
            finally:
                db.execute("PRAGMA secure_delete = OFF")

    def _change(self, decide: Callable[[Values], T], names: Collection[str] | None) -> T:
        with self._database.write_transaction(any_model=True) as (db, _):
            before = self._load(db, names)
            result, after = change_texts(before, decide)
            gone = [(self._kind, name) for name in before.keys() - after.keys()]
            db.executemany("DELETE FROM named WHERE kind = ? AND name = ?", gone)
            db.executemany(
                "INSERT INTO named(kind, name, value, sum) VALUES(?1, ?2, ?3, row_sum(?1, ?2, ?3))"
                " ON CONFLICT(kind, name) DO UPDATE SET value = excluded.value, sum = excluded.sum",
                [(self._kind, name, value) for name, value in after.items() if before.get(name) != value],
            )
        return result

    def purge(self) -> None:
        """Empty the log; the database itself has overwritten deleted values."""
        with self._database.reader as db:
            truncate_log(db)


def measure_free_share(db: sqlite3.Connection, folder: Path) -> float:
    """Return the unused fraction of the database file: free pages, and space beyond the last page."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    whole = max(pages * size, (folder / schema.FILE).stat().st_size)
    return 1 - (pages - free) * size / whole


def rewrite_database(folder: Path) -> list[str]:
    """Rewrite the database without free pages and empty its log; return problems as sentences."""
    file = folder / schema.FILE
    try:
        with closing(schema.connect(folder)) as db:
            db.execute("PRAGMA secure_delete = ON")  # else even new pages could contain old memory
            db.execute("VACUUM")
            if not truncate_log(db):
                return [f"{file}: another process is reading, so the log was not emptied; do it again later"]
    except (sqlite3.Error, DriverFailed) as error:
        return [f"{file}: the free pages were not removed ({error}); do it again later"]
    return []


def truncate_log(db: sqlite3.Connection) -> bool:
    """Checkpoint the whole log and empty it; return False if a reader blocks this for too long."""
    deadline = time.monotonic() + schema.WRITE_TIMEOUT
    while True:
        ((is_blocked, _, _),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not is_blocked:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


open_store = make_opener(SqliteBackend)
