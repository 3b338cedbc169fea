"""The vectors of another model in the truth: read, written and exchanged inside a transaction that the caller began."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from clew.core.stored import StagedModel
from clew.core.types import Chunk, Matrix
from clew.drivers.store.staging import Kind, Lack, as_bytes

# A document of one chunk may have that chunk's vector for its summary too.
_MIRRORS = (
    "documents d JOIN chunks c ON d.chunks = 1 AND c.doc = d.row"
    " JOIN signals g ON g.row = c.row AND g.vector = d.vector"
)
_LACKING = {
    "chunks": "SELECT c.row, c.text, c.headings, c.context FROM chunks c"
    " WHERE c.row > ? AND NOT EXISTS (SELECT 1 FROM shadows s WHERE s.row = c.row) ORDER BY c.row LIMIT ?",
    "summaries": "SELECT o.row, o.summary FROM documents o WHERE o.row > ? AND o.vector IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM summary_shadows s WHERE s.row = o.row)"
    f" AND NOT EXISTS (SELECT 1 FROM {_MIRRORS} WHERE d.row = o.row) ORDER BY o.row LIMIT ?",
}
_SAID = {
    "chunks": "SELECT row, text, headings, context FROM chunks WHERE row IN (SELECT value FROM json_each(?))",
    "summaries": "SELECT row, summary FROM documents WHERE row IN (SELECT value FROM json_each(?))",
}
_TABLE = {"chunks": "shadows", "summaries": "summary_shadows"}


class TruthShades:
    """The shadows as an open transaction sees them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def count(self) -> int:
        """How many rows lack one that a model must make."""
        return sum(
            self._db.execute(f"SELECT count(*) FROM ({sql})", (0, -1)).fetchone()[0] for sql in _LACKING.values()
        )

    def lacking(self, kind: Kind, after: int, many: int) -> list[Lack]:
        """The next rows after one that lack theirs."""
        return [lack(columns) for columns in self._db.execute(_LACKING[kind], (after, many))]

    def write(self, kind: Kind, lacks: Sequence[Lack], vectors: Matrix) -> None:
        """Gives rows their shadows, but for those that say something else by now."""
        now = {row: tuple(said) for row, *said in self._db.execute(_SAID[kind], (json.dumps([e.row for e in lacks]),))}
        self._db.executemany(
            f"INSERT OR REPLACE INTO {_TABLE[kind]} VALUES(?, ?)",
            [
                (each.row, vector)
                for each, vector in zip(lacks, as_bytes(vectors), strict=True)
                if now.get(each.row) == each.said
            ],
        )

    def mirror(self) -> None:
        """Gives the summaries that share the vector of their document's only chunk the shadow of that chunk."""
        self._db.execute(
            f"INSERT OR REPLACE INTO summary_shadows SELECT d.row, s.vector FROM {_MIRRORS}"
            " JOIN shadows s ON s.row = c.row"
        )


def lack(columns: Sequence[Any]) -> Lack:
    """What a row says, from its columns: of a chunk text, headings and context, of a summary itself."""
    row, *said = columns
    if len(said) == 1:
        return Lack(row, tuple(said), said[0])
    text, headings, context = said
    chunk = Chunk("", "", 0, 0, text, 0, 0, tuple(json.loads(headings)), context)
    return Lack(row, tuple(said), chunk.embed_text)


def shadow(db: sqlite3.Connection) -> StagedModel | None:
    """The model whose vectors stand beside those in use."""
    found = db.execute("SELECT embedder, dim, was_used FROM shadow").fetchone()
    return StagedModel(found[0], found[1], bool(found[2])) if found else None


def begin(db: sqlite3.Connection, embedder: str, dim: int) -> None:
    """Makes room for the vectors of another model."""
    db.execute("INSERT INTO shadow VALUES(1, ?, ?, 0)", (embedder, dim))


def discard(db: sqlite3.Connection) -> bool:
    """Forgets the vectors of the other model; whether there were any."""
    for table in ("shadows", "summary_shadows"):
        db.execute(f"DELETE FROM {table}")
    return db.execute("DELETE FROM shadow").rowcount > 0


def swap(db: sqlite3.Connection, birth: str) -> None:
    """Exchanges the vectors in use for those beside them.

    The collection is as if born again, so that no index is taken for one of the new vectors. The prints of chunks stay
    those of the old ones: a chunk that is put again is then written anew, once.
    """
    db.execute("CREATE TEMP TABLE used AS SELECT row, vector FROM signals")
    db.execute("UPDATE signals SET vector = (SELECT s.vector FROM shadows s WHERE s.row = signals.row)")
    db.execute("DELETE FROM shadows")
    db.execute("INSERT INTO shadows SELECT row, vector FROM used")
    db.execute("DROP TABLE used")
    db.execute(
        "CREATE TEMP TABLE used AS SELECT d.row, d.vector AS old, s.vector AS new"
        " FROM documents d JOIN summary_shadows s ON s.row = d.row WHERE d.vector IS NOT NULL"
    )
    db.execute("UPDATE documents SET vector = u.new FROM used u WHERE u.row = documents.row")
    db.execute("DELETE FROM summary_shadows")
    db.execute("INSERT INTO summary_shadows SELECT row, old FROM used")
    db.execute("DROP TABLE used")
    ((embedder, dim),) = db.execute("SELECT embedder, dim FROM meta").fetchall()
    db.execute(
        "UPDATE meta SET (embedder, dim) = (SELECT embedder, dim FROM shadow), birth = ?, change = change + 1", (birth,)
    )
    db.execute("UPDATE shadow SET embedder = ?, dim = ?, was_used = 1", (embedder, dim))
