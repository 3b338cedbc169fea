"""Staged vectors in SQLite, the tables `shadow…`: written in the background, then exchanged with those in use."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from clew.core.errors import CollectionDamaged
from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.core.types import Matrix
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.sums import FIXED
from clew.drivers.store.embedded.vectors import pack_vectors
from clew.drivers.store.staging import (
    Kind,
    MissingVector,
    OnProgress,
    StagedVectors,
    check_staged_model,
    parse_missing_row,
    stage_missing_vectors,
)

# A document of one chunk may have that chunk's vector for its summary too.
_SHARED = (
    "documents d JOIN chunks c ON d.chunks = 1 AND c.doc = d.row"
    " JOIN signals g ON g.row = c.row AND g.vector = d.vector"
)
_MISSING = {
    "chunks": "SELECT c.row, c.text, c.headings, c.context FROM chunks c"
    " WHERE c.row > ? AND NOT EXISTS (SELECT 1 FROM shadows s WHERE s.row = c.row) ORDER BY c.row LIMIT ?",
    "summaries": "SELECT o.row, o.summary FROM documents o WHERE o.row > ? AND o.vector IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM summary_shadows s WHERE s.row = o.row)"
    f" AND NOT EXISTS (SELECT 1 FROM {_SHARED} WHERE d.row = o.row) ORDER BY o.row LIMIT ?",
}
_TEXTS = {
    "chunks": "SELECT row, text, headings, context FROM chunks WHERE row IN (SELECT value FROM json_each(?))",
    "summaries": "SELECT row, summary FROM documents WHERE row IN (SELECT value FROM json_each(?))",
}
_TABLE = {"chunks": "shadows", "summaries": "summary_shadows"}
T = TypeVar("T")


class SqliteStagedVectors:
    """The staged vectors as an open transaction sees them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def count_missing(self) -> int:
        """How many rows need a vector from the model."""
        return sum(
            self._db.execute(f"SELECT count(*) FROM ({sql})", (0, -1)).fetchone()[0] for sql in _MISSING.values()
        )

    def list_missing(self, kind: Kind, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have no staged vector."""
        return [parse_missing_row(columns) for columns in self._db.execute(_MISSING[kind], (after, limit))]

    def write_vectors(self, kind: Kind, missing: Sequence[MissingVector], vectors: Matrix) -> None:
        """Stores the vectors of rows, except of those whose text has changed since."""
        rows = json.dumps([each.row for each in missing])
        now = {row: tuple(columns) for row, *columns in self._db.execute(_TEXTS[kind], (rows,))}
        packed = pack_vectors(vectors)
        self._db.executemany(
            f"INSERT OR REPLACE INTO {_TABLE[kind]}(row, vector, sum) VALUES(?1, ?2, row_sum(?1, ?2))",
            [
                (each.row, vector)
                for each, vector in zip(missing, packed, strict=True)
                if now.get(each.row) == each.columns
            ],
        )

    def copy_chunk_vectors_to_summaries(self) -> None:
        """Stages the vector of a document's only chunk for its summary too, where the two share the one in use."""
        self._db.execute(
            f"INSERT OR REPLACE INTO summary_shadows SELECT d.row, s.vector, row_sum(d.row, s.vector) FROM {_SHARED}"
            " JOIN shadows s ON s.row = c.row"
        )


def read_staged_model(db: sqlite3.Connection) -> StagedModel | None:
    """The model of the staged vectors, if there are any."""
    found = db.execute("SELECT embedder, dim, was_used FROM shadow").fetchone()
    return StagedModel(found[0], found[1], bool(found[2])) if found else None


def stage_vectors(database: Database, embedder: Embedder, on_progress: OnProgress | None) -> int:
    """Makes the staged vectors of a model that are missing, one transaction per batch; how many were made."""
    with database.write_transaction() as db:
        if not read_staged_model(db):
            db.execute(
                "INSERT INTO shadow(one, embedder, dim, was_used) VALUES(1, ?, ?, 0)", (embedder.name, embedder.dim)
            )

    def run(work: Callable[[StagedVectors], T]) -> T:
        with database.write_transaction() as db:  # another process may discard them between two batches
            check_staged_model(database.place, read_staged_model(db), embedder)
            return work(SqliteStagedVectors(db))

    return stage_missing_vectors(run, embedder, on_progress)


def switch_to_staged_model(database: Database, embedder: Embedder) -> Database:
    """The database under the model of the staged vectors; what is still missing is made first, in one transaction."""
    collection_id = uuid.uuid4().hex
    with database.write_transaction() as db:
        check_staged_model(database.place, read_staged_model(db), embedder)
        stage_missing_vectors(lambda work: work(SqliteStagedVectors(db)), embedder)
        swap_staged_vectors(db, collection_id)
    return database.reopen_for_model(embedder=embedder.name, dim=embedder.dim, collection_id=collection_id)


def discard_staged_vectors(db: sqlite3.Connection) -> bool:
    """Deletes the staged vectors; whether there were any."""
    for table in _TABLE.values():
        db.execute(f"DELETE FROM {table}")
    return db.execute("DELETE FROM shadow").rowcount > 0


def swap_staged_vectors(db: sqlite3.Connection, collection_id: str) -> None:
    """Exchanges the vectors in use with the staged ones.

    The collection gets a new id, so that no old index is taken for one of the new vectors. The fingerprints of chunks
    stay those of the old vectors: a chunk that is put again is rewritten, once.
    """
    for table in _TABLE.values():
        damaged = db.execute(
            f"SELECT 1 FROM {table} WHERE sum <> -1 AND sum <> row_sum(row, vector) LIMIT 1"
        ).fetchone()
        if damaged:
            raise CollectionDamaged(
                "a vector of the model to switch to is damaged; `clew reembed --discard` deletes those vectors, and "
                "`clew reembed --to` makes them again"
            )
    db.execute("CREATE TEMP TABLE used AS SELECT row, vector FROM signals")
    db.execute("UPDATE signals SET vector = (SELECT s.vector FROM shadows s WHERE s.row = signals.row)")
    db.execute(f"UPDATE signals SET sum = {FIXED['signals']}")
    db.execute("DELETE FROM shadows")
    db.execute("INSERT INTO shadows SELECT row, vector, row_sum(row, vector) FROM used")
    db.execute("DROP TABLE used")
    db.execute(
        "CREATE TEMP TABLE used AS SELECT d.row, d.vector AS old, s.vector AS new"
        " FROM documents d JOIN summary_shadows s ON s.row = d.row WHERE d.vector IS NOT NULL"
    )
    db.execute("UPDATE documents SET vector = u.new FROM used u WHERE u.row = documents.row")
    db.execute("DELETE FROM summary_shadows")
    db.execute("INSERT INTO summary_shadows SELECT row, old, row_sum(row, old) FROM used")
    db.execute("DROP TABLE used")
    ((embedder, dim),) = db.execute("SELECT embedder, dim FROM meta").fetchall()
    db.execute(
        "UPDATE meta SET (embedder, dim) = (SELECT embedder, dim FROM shadow), birth = ?, change = change + 1",
        (collection_id,),
    )
    db.execute("UPDATE shadow SET embedder = ?, dim = ?, was_used = 1", (embedder, dim))
