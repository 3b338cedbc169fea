"""An open collection database: one SQLite connection, its transactions, and the state of the collection."""

import json
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.drivers.store import checksums
from clew.drivers.store.backend import Head
from clew.drivers.store.embed import check_model_in_use, model_switched_error
from clew.drivers.store.sqlite import schema
from clew.drivers.store.sqlite.folder import (
    MARKER,
    check_database_exists,
    has_marker,
    is_foreign_log,
    lost_error,
    read_last_change,
    write_last_change,
    write_marker,
)

MAX_CHECKED = 100_000  # rows to remember as checked
_STATE = f"SELECT {', '.join(schema.META)}, sum, data_version FROM meta, pragma_data_version"


@dataclass(frozen=True, slots=True)
class CollectionState(Head):
    """The head of a collection, with further values for indexes."""

    pruned: int = 0  # tombstones up to this change have been deleted
    collection_id: str = ""  # random, new after every model switch; an index records it


class FrozenFile:
    """A read-only database without a log, which is read without locks; detects when another process opens it."""

    def __init__(self, file: Path, prepare: Callable[[sqlite3.Connection], None]) -> None:
        self._file, self._prepare = file, prepare
        self._seen = _describe_file(file)

    def has_changed(self) -> bool:
        """Return whether a process with write access has opened the file since this object was made."""
        return not schema.is_frozen(self._file) or _describe_file(self._file) != self._seen

    def reopen(self, old: sqlite3.Connection) -> tuple[sqlite3.Connection, "FrozenFile | None"]:
        """Replace an old connection by a new one; also return a FrozenFile if the file is still frozen."""
        frozen = FrozenFile(self._file, self._prepare) if schema.is_frozen(self._file) else None
        opened = schema.open_read_only_connection(self._file)
        self._prepare(opened)
        old.close()
        return opened, frozen


class Reader:
    """`with reader as connection`: for one thread at a time, with errors of SQLite as DriverFailed. Reentrant."""

    __slots__ = ("_connection", "_depth", "_frozen", "_lock", "_place")

    def __init__(self, opened: sqlite3.Connection, place: str, frozen: FrozenFile | None = None) -> None:
        self._connection, self._place, self._frozen = opened, place, frozen
        self._lock, self._depth = threading.RLock(), 0

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        try:
            if self._frozen and not self._depth and self._frozen.has_changed():
                self._connection, self._frozen = self._frozen.reopen(self._connection)
        except BaseException:
            self._lock.release()
            raise
        self._depth += 1
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._depth -= 1
        frozen = self._frozen
        self._lock.release()
        if frozen and isinstance(error, (sqlite3.Error, CollectionDamaged)) and frozen.has_changed():
            raise DriverFailed(f"{self._place}: another process began to write while it was read; try again") from error
        if error:
            schema.raise_if_sqlite_error(self._place, error)


class CheckedRows(dict[int, int]):
    """The checksums of checked signals, by row."""

    def add(self, row: int, stored: int) -> None:
        """Remember a row; forget all others if there are too many."""
        if len(self) >= MAX_CHECKED:
            self.clear()
        self[row] = stored


class Database:
    """The database of a collection, in memory for `folder=None`. Several threads may use it."""

    def __init__(self, folder: Path | None, *, embedder: str, dim: int) -> None:
        self.dim = dim
        self.embedder = embedder
        self.place = str(folder / schema.FILE) if folder else "the collection in memory"
        self._folder = folder
        self._known: tuple[tuple[Any, ...], CollectionState] = ((), CollectionState("", 0))  # the last checked record
        self.checked = CheckedRows()
        if folder:
            check_database_exists(folder)
        last = read_last_change(folder) if folder else None  # read it before the database, since it is written after
        if folder and last and is_foreign_log(folder, last[0]):  # before connecting, since closing would merge the log
            raise CollectionDamaged(_describe_foreign_log(self.place))
        frozen = FrozenFile(folder / schema.FILE, self._prepare) if folder and _is_frozen(folder) else None
        self._connection = schema.connect(folder)
        self.reader = Reader(self._connection, self.place, frozen)
        try:
            if folder and has_marker(folder) and not schema.has_tables(self._connection, self.place):
                raise lost_error(folder, "has no tables", [MARKER])
            self._prepare(self._connection)
            if folder:
                write_marker(folder)
            with self.reader as db:
                state = self.read_any_state(db)
            self.collection_id = state.collection_id
            if last and last[0] == state.collection_id and last[1] > state.change:
                raise CollectionDamaged(_describe_lost_changes(self.place, last[1] - state.change))
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, opened: sqlite3.Connection) -> None:
        schema.prepare_tables(opened, self.place, embedder=self.embedder, dim=self.dim, collection_id=uuid.uuid4().hex)

    def read_state(self) -> CollectionState:
        """Read the current state; ModelSwitched after a model switch."""
        with self.reader as db:
            return self.check_model_unchanged(db)

    def check_model_unchanged(self, db: sqlite3.Connection) -> CollectionState:
        """Return the state inside a transaction; ModelSwitched after a model switch."""
        state = self.read_any_state(db)
        if state.collection_id != self.collection_id:
            (embedder,) = db.execute("SELECT embedder FROM meta").fetchone()
            raise model_switched_error(self.place, embedder, self.embedder)
        return state

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction: several reads of the same state, of any model."""
        with self.reader as db:
            is_outer = not db.in_transaction
            try:
                if is_outer:
                    db.execute("BEGIN")
                yield db
            finally:
                if is_outer and db.in_transaction:  # an interrupt may come before BEGIN, or right after it
                    db.execute("COMMIT")

    @contextmanager
    def read_transaction(self) -> Iterator[tuple[sqlite3.Connection, CollectionState]]:
        """Open a read transaction and yield it with its state; ModelSwitched after a model switch."""
        with self.read() as db:
            yield db, self.check_model_unchanged(db)

    @contextmanager
    def write_transaction(self, *, any_model: bool = False) -> Iterator[tuple[sqlite3.Connection, CollectionState]]:
        """Open a write transaction, which is rolled back if the block raises.

        any_model: Allow it after a model switch, too, for changes that do not concern vectors.
        """
        with self.reader as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                before = self.read_any_state(db) if any_model else self.check_model_unchanged(db)
                yield db, before
                birth, change = db.execute("SELECT birth, change FROM meta").fetchone()
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            if self._folder and change != before.change:
                write_last_change(self._folder, birth, change)

    def reopen_for_model_in_use(self, embedder: Embedder) -> Self:
        """Return a copy on the same connection for the current model; the old object keeps raising ModelSwitched."""
        with self.reader as db:
            name, dim, collection_id = db.execute("SELECT embedder, dim, birth FROM meta").fetchone()
        check_model_in_use(self.place, embedder, name, dim)
        other = copy(self)
        other.embedder, other.dim, other.collection_id = name, dim, collection_id
        return other

    def flush(self) -> None:
        """Checkpoint the write-ahead log as far as readers allow."""
        with self.reader as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection."""
        with self.reader as db:
            schema.close_connection(db, self._folder)

    def read_any_state(self, db: sqlite3.Connection) -> CollectionState:
        """Read the state from the collection's record; CollectionDamaged if it is corrupt."""
        found = db.execute(_STATE).fetchone()
        if found is None:
            raise checksums.damaged_error(f"{self.place}: the record of the collection")
        known, state = self._known
        if found == known:
            return state
        *columns, stored, data_version = found
        if found[:-1] != known[:-1]:
            schema.check_record(self.place, stored, columns)
        embedder, dim, change, documents, chunks, length, last, pending, pruned, birth, _, staged = columns
        model = StagedModel(**json.loads(staged)) if staged else None
        counts = (change, documents, chunks, length, last, pending)
        state = CollectionState(embedder, dim, *counts, model, data_version, pruned, birth)
        self._known = found, state
        return state


def read_stored_embedder_name(folder: Path) -> str | None:
    """Read the name of the embedder of a folder's collection; None if there is no collection."""
    check_database_exists(folder)
    file = folder / schema.FILE
    if not file.exists():
        return None
    with schema.translate_errors(str(file)), closing(schema.open_read_only_connection(file)) as db:
        if not schema.has_tables(db, str(file)):
            return None
        (name,) = schema.read_meta(db, str(file), "embedder")
        return str(name)


def _is_frozen(folder: Path) -> bool:
    return (folder / schema.FILE).exists() and schema.is_frozen(folder / schema.FILE)


def _describe_file(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _describe_foreign_log(place: str) -> str:
    return (
        f"{place}: the log beside it ({schema.LOG}) is of another collection; put its own log back, or restore a "
        "backup of the folder; if the files were put here on purpose, `clew doctor --repair` goes on with what is there"
    )


def _describe_lost_changes(place: str, lost: int) -> str:
    return (
        f"{place}: the last {lost} changes are missing: the log beside it is damaged or gone, or an older copy was put "
        "in its place; put the newer one back, or run `clew doctor --repair` to go on with what is there, then add the "
        "sources again"
    )
