"""Signals: what an index knows of chunks, column by column, as it is read from the truth."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Matrix
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.term_ids import Counts, Hashes

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of some chunks, in the order of their rows. `sizes` says how many of the terms are each one's."""

    rows: Rows
    ids: list[str]
    facets: list[list[str]]
    seconds: Floats  # nan: no time
    lengths: Floats
    terms: Hashes
    counts: Counts
    sizes: Rows
    vectors: Matrix


@dataclass(frozen=True, slots=True)
class Worded:
    """The terms of some chunks. `sizes` says how many of them are each one's."""

    rows: list[int]
    ids: list[str]
    lengths: Floats
    terms: Hashes
    counts: Counts
    sizes: Rows


@dataclass(frozen=True, slots=True)
class Batch:
    """A stretch of the rows that were there at a state: the signals of those that still are, the terms of others."""

    there: Signals
    missed: list[Hashes]
    last: int


@dataclass(frozen=True, slots=True)
class State:
    """Where the truth stands: its change number, its last row, and the numbers that BM25 is made of."""

    change: int
    documents: int
    chunks: int
    length: int
    last: int
    pruned: int  # up to this change the log of removed rows has been forgotten
    birth: str  # told to the collection when it was made, so that an index of another one is recognised

    @property
    def average(self) -> float:
        """The mean number of terms of a chunk."""
        return self.length / self.chunks if self.chunks else 0.0


def state(db: sqlite3.Connection) -> State:
    """Where the truth stands now."""
    read = db.execute("SELECT change, documents, chunks, length, last, pruned, birth FROM meta")
    return State(*read.fetchone())


def after(db: sqlite3.Connection, row: int, upto: State, limit: int, dim: int) -> Batch:
    """The next of the rows after one that were there at a state. Runs inside a transaction."""
    columns = "row, id, facets, seconds, length, terms, counts, vector"
    given = (row, upto.last, limit)
    read = db.execute(
        f"SELECT {columns} FROM signals WHERE row > ? AND row <= ? ORDER BY row LIMIT ?", given
    ).fetchall()
    last = read[-1][0] if len(read) == limit else upto.last
    gone = db.execute("SELECT terms FROM gone WHERE change > ? AND row > ? AND row <= ?", (upto.change, row, last))
    return Batch(_signals(read, dim), [np.frombuffer(terms, np.int64) for (terms,) in gone], last)


def gone(db: sqlite3.Connection, change: int, upto: State) -> list[tuple[int, Hashes]] | None:
    """The rows that were removed after a change up to a state, with their terms; None if that has been forgotten.

    What is forgotten only grows, so if it does not reach the change after the rows were read, they were all there.
    """
    read = db.execute("SELECT row, terms FROM gone WHERE change > ? AND change <= ?", (change, upto.change)).fetchall()
    if state(db).pruned > change:
        return None
    return [(row, np.frombuffer(terms, np.int64)) for row, terms in read]


def vectors(db: sqlite3.Connection, rows: Sequence[int], dim: int) -> tuple[list[int], list[str], Matrix]:
    """Those of the rows that are still there, the ids of their chunks, and their vectors."""
    read = db.execute(f"SELECT row, id, vector FROM signals WHERE row IN ({marks(rows)})", rows).fetchall()
    matrix = np.frombuffer(b"".join([each[2] for each in read]), np.float32).reshape(len(read), dim)
    return [each[0] for each in read], [each[1] for each in read], matrix


def worded(db: sqlite3.Connection, rows: Sequence[int]) -> Worded:
    """The terms of those of the rows that are still there."""
    sql = f"SELECT row, id, length, terms, counts FROM signals WHERE row IN ({marks(rows)})"
    read = db.execute(sql, rows).fetchall()
    return Worded(
        [each[0] for each in read],
        [each[1] for each in read],
        np.array([each[2] for each in read], np.float64),
        np.frombuffer(b"".join([each[3] for each in read]), np.int64),
        np.frombuffer(b"".join([each[4] for each in read]), np.uint16),
        np.array([len(each[3]) // 8 for each in read], np.int64),
    )


def marks(rows: Sequence[int]) -> str:
    """As many question marks as rows: quicker than a list in JSON, which SQLite would have to read and to sort."""
    return ",".join("?" * len(rows))


def _signals(read: list[Any], dim: int) -> Signals:
    rows, ids, facets, seconds, lengths, terms, counts, vectors = zip(*read, strict=True) if read else ((),) * 8
    return Signals(
        np.array(rows, np.int64),
        list(ids),
        _words(facets),
        np.array([np.nan if at is None else at for at in seconds], np.float64),
        np.array(lengths, np.float64),
        np.frombuffer(b"".join(terms), np.int64),
        np.frombuffer(b"".join(counts), np.uint16),
        np.array([len(each) // 8 for each in terms], np.int64),
        np.frombuffer(b"".join(vectors), np.float32).reshape(len(read), dim),
    )


def _words(texts: Sequence[str]) -> list[list[str]]:
    """The facets of each chunk; parsed all at once, which is three times as fast as one by one."""
    read: list[list[str]] = json.loads(f"[{','.join(texts)}]")
    return read
