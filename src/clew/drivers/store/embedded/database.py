"""An open collection database: one SQLite connection, its transactions, and the state of the collection."""

import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from clew.drivers.store.embedded import schema
from clew.drivers.store.embedded.folder import MARKER, check_database_exists, has_marker, lost_error, write_marker
from clew.drivers.store.staging import model_switched_error


@dataclass(frozen=True, slots=True)
class CollectionState:
    """The state of a collection: its change number, its last row, and the counts that BM25 needs."""

    change: int
    documents: int
    chunks: int
    length: int
    last_row: int
    pruned: int  # tombstones up to this change have been deleted
    collection_id: str  # random, new with every switch of model: an index records which one it is of
    data_version: int  # changes when another connection writes anything, even where the change number stays

    @property
    def average_chunk_length(self) -> float:
        """The mean number of terms of a chunk."""
        return self.length / self.chunks if self.chunks else 0.0


class Reader:
    """`with reader as connection`: one thread at a time, errors of SQLite as DriverFailed. Nests."""

    __slots__ = ("_connection", "_lock", "_place")

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection, self._place = connection, place
        self._lock = threading.RLock()

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._lock.release()
        if error:
            schema.raise_if_sqlite_error(self._place, error)


class Database:
    """The database of a collection. `folder=None` keeps it in memory. Several threads may use it."""

    def __init__(self, folder: Path | None, *, embedder: str, dim: int) -> None:
        self.dim = dim
        self.embedder = embedder
        self.place = str(folder / schema.FILE) if folder else "the collection in memory"
        if folder:
            check_database_exists(folder)
        self._connection = schema.connect(folder)
        self.reader = Reader(self._connection, self.place)
        try:
            if folder and has_marker(folder) and not schema.has_tables(self._connection, self.place):
                raise lost_error(folder, "has no tables", [MARKER])
            schema.prepare_tables(
                self._connection, self.place, embedder=embedder, dim=dim, collection_id=uuid.uuid4().hex
            )
            if folder:
                write_marker(folder)
            self.collection_id = _read_state(self._connection).collection_id
        except BaseException:
            self._connection.close()
            raise

    def read_state(self) -> CollectionState:
        """The state now; StoreMismatch if it was switched to another model since it was opened."""
        with self.reader as db:
            return self.check_model_unchanged(db)

    def check_model_unchanged(self, db: sqlite3.Connection) -> CollectionState:
        """The state inside a transaction; StoreMismatch if it was switched to another model since it was opened."""
        state = _read_state(db)
        if state.collection_id != self.collection_id:
            (embedder,) = db.execute("SELECT embedder FROM meta").fetchone()
            raise model_switched_error(self.place, embedder, self.embedder)
        return state

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: several reads that see the same state, of the model with which this was opened."""
        with self.reader as db:
            try:
                db.execute("BEGIN")
                self.check_model_unchanged(db)
                yield db
            finally:
                if db.in_transaction:  # an interrupt may come before BEGIN, or right after it
                    db.execute("COMMIT")

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed as a whole, or rolled back where anything raises."""
        with self.reader as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                self.check_model_unchanged(db)
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def reopen_for_model(self, *, embedder: str, dim: int, collection_id: str) -> Self:
        """A copy of this on the same connection, for another model; this one raises StoreMismatch from then on."""
        other = copy(self)
        other.embedder, other.dim, other.collection_id = embedder, dim, collection_id
        return other

    def flush(self) -> None:
        """Copies the write-ahead log into the database as far as readers allow."""
        with self.reader as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Closes the connection."""
        with self.reader as db:
            db.close()


def read_stored_embedder_name(folder: Path) -> str | None:
    """The name of the embedder that a folder's collection was filled with; None if there is no collection."""
    check_database_exists(folder)
    file = folder / schema.FILE
    if not file.exists():
        return None
    with schema.translate_errors(str(file)), closing(schema.open_read_only_connection(file)) as db:
        if not schema.has_tables(db, str(file)):
            return None
        name: str = db.execute("SELECT embedder FROM meta").fetchone()[0]
        return name


def _read_state(db: sqlite3.Connection) -> CollectionState:
    return CollectionState(
        *db.execute(
            "SELECT change, documents, chunks, length, last, pruned, birth, data_version FROM meta, pragma_data_version"
        ).fetchone()
    )
