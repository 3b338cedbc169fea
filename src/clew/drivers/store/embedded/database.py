"""An open database of a collection: its transactions, and the vectors of another model beside those in use."""

import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Self, TypeVar

from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.drivers.store.embedded import schema, signals
from clew.drivers.store.embedded import staged as shadows
from clew.drivers.store.embedded.signals import State
from clew.drivers.store.staging import Shades, Told, agreed, fill, moved

T = TypeVar("T")


class Database:
    """One connection, used by one thread at a time; `folder=None` keeps the database in memory."""

    def __init__(self, folder: Path | None, *, embedder: str, dim: int) -> None:
        self.dim = dim
        self.embedder = embedder
        self._place = str(folder / schema.FILE) if folder else "the collection in memory"
        self._lock = threading.RLock()
        self._db = schema.connect(folder)
        try:
            schema.prepare(self._db, self._place, embedder=embedder, dim=dim, birth=uuid.uuid4().hex)
            self._birth = signals.state(self._db).birth
        except BaseException:
            self._db.close()
            raise

    def state(self) -> State:
        """Where the truth stands now; StoreMismatch where it was given another model since it was opened."""
        with self._read() as db:
            return self._still_ours(db)

    def shadow(self) -> StagedModel | None:
        """The model whose vectors stand beside those in use."""
        with self._read() as db:
            return shadows.shadow(db)

    def overlay(self, embedder: Embedder, told: Told | None) -> int:
        """How many vectors of another model were made, for all that lacked one."""
        with self._change() as db:
            if not shadows.shadow(db):
                shadows.begin(db, embedder.name, embedder.dim)

        def shaded(work: Callable[[Shades], T]) -> T:
            with self._change() as db:  # others may discard between two pieces of work
                agreed(self._place, shadows.shadow(db), embedder)
                return work(shadows.TruthShades(db))

        return fill(shaded, embedder, told)

    def switched(self, embedder: Embedder) -> Self:
        """The same truth under the model whose vectors stood beside; what lacked one has it made first."""
        birth = uuid.uuid4().hex
        with self._change() as db:
            agreed(self._place, shadows.shadow(db), embedder)
            fill(lambda work: work(shadows.TruthShades(db)), embedder)
            shadows.swap(db, birth)
        other = copy(self)
        other.embedder, other.dim, other._birth = embedder.name, embedder.dim, birth
        return other

    def discard(self) -> bool:
        """Forgets the vectors of the other model; whether there were any."""
        with self._change() as db:
            return shadows.discard(db)

    def flush(self) -> None:
        """Returns when every change is safe on disk."""
        with self._read() as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Closes the database."""
        with self._lock, schema.failing(self._place):
            self._db.close()

    def _still_ours(self, db: sqlite3.Connection) -> State:
        state = signals.state(db)
        if state.birth != self._birth:
            raise moved(self._place, db.execute("SELECT embedder FROM meta").fetchone()[0], self.embedder)
        return state

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self._lock, schema.failing(self._place):
            yield self._db

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Several reads that see the same."""
        with self._read() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("COMMIT")

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: whole, or not at all."""
        with self._lock, schema.failing(self._place):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._still_ours(self._db)
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
