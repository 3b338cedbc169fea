"""Signals: what an index follows of chunks (vector, terms, facets, time), read from the database column by column."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core import facets
from clew.core.stored import Counts, Hashes
from clew.core.types import Matrix
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.checksums import check, check_signal
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.vectors import unpack_vectors

COLUMNS = "row, id, facets, seconds, length, terms, counts, vector, sum"
TERMS = COLUMNS.split(", ").index("terms")
BATCH = 2000  # signals that are read at once
MESSAGE = json.dumps(facets.MESSAGE)[:-1]  # where it is in the facets of a row, that is a message or a part of one
Rows = NDArray[np.int64]
Tombstone = tuple[int, Hashes]  # a removed row and the words it had


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of some chunks, by row. The first `sizes[0]` of the terms are those of the first chunk, and so on."""

    rows: Rows
    ids: list[str]
    facets: list[list[str]]
    messages: NDArray[np.bool_]  # whether each is a message, or a part of one
    seconds: Floats  # nan: no time
    lengths: Floats
    terms: Hashes
    counts: Counts
    sizes: Rows
    vectors: Matrix


@dataclass(frozen=True, slots=True)
class RowTerms:
    """The terms of some chunks; `sizes` as in Signals."""

    rows: list[int]
    ids: list[str]
    lengths: Floats
    terms: Hashes
    counts: Counts
    sizes: Rows


@dataclass(frozen=True, slots=True)
class SignalBatch:
    """A range of the rows of a state: the signals of those that still exist, the terms of those removed since."""

    signals: Signals
    removed_terms: list[Hashes]
    last_row: int


def read_rows_in_batches(database: Database, row: int, upto: CollectionState) -> Iterator[SignalBatch]:
    """The signals (vector, terms, facets, time) of all rows after one that existed at a state, in batches."""
    while row < upto.last:
        with database.read_transaction() as (db, _):
            read = db.execute(
                f"SELECT {COLUMNS} FROM signals WHERE row > ? AND row <= ? ORDER BY row LIMIT {BATCH}",
                (row, upto.last),
            ).fetchall()
            last = read[-1][0] if len(read) == BATCH else upto.last
            removed = _read_gone(db, "change > ? AND row > ? AND row <= ?", (upto.change, row, last))
        removed_terms = [terms for _, terms in removed]
        _check_signals(database, read)
        yield SignalBatch(_parse_signals(read, database.dim), removed_terms, last)
        row = last


def count_having(database: Database, hashes: Hashes) -> list[int]:
    """How many chunks have each of the terms; for a count or two, as an index takes far longer to fill."""
    order = np.argsort(hashes)
    wanted, counts = hashes[order], np.zeros(len(hashes), np.int64)
    with database.read_transaction() as (db, _):
        found = db.execute(f"SELECT {COLUMNS} FROM signals")
        while read := found.fetchmany(BATCH):
            _check_signals(database, read)
            terms = np.frombuffer(b"".join(columns[TERMS] for columns in read), np.int64)
            places = np.minimum(np.searchsorted(wanted, terms), len(wanted) - 1)
            counts[order] += np.bincount(places[wanted[places] == terms], minlength=len(wanted))
    return [int(each) for each in counts]


def read_tombstones(
    database: Database, change: int, row: int, upto: CollectionState
) -> tuple[list[Tombstone], Signals] | None:
    """The rows that were removed after a change up to a state, and the signals of those up to `row` that were filled.

    None if some of these tombstones have been pruned.
    """
    with database.reader as db:
        tombstones = _read_gone(db, "change > ? AND change <= ?", (change, upto.change))
        filled = [number for number, terms in tombstones if not len(terms)]
        read = list[Any]()
        for start in range(0, len(filled), BATCH):
            some = filled[start : start + BATCH]
            read += db.execute(f"SELECT {COLUMNS} FROM signals WHERE row IN ({make_placeholders(some)})", some)
        pruned = database.check_model_unchanged(db).pruned  # read last: it only grows, so up to it nothing was missed
    if pruned > change:
        return None
    _check_signals(database, read)
    kept = {columns[0] for columns in read}
    signals = _parse_signals([columns for columns in read if columns[0] <= row], database.dim)
    return [each for each in tombstones if each[0] not in kept], signals


def _check_signals(database: Database, read: Sequence[Sequence[Any]]) -> None:
    for columns in read:
        check_signal(columns[:-1], columns[-1])
        database.checked.add(columns[0], columns[-1])


def _read_gone(db: sqlite3.Connection, condition: str, params: Sequence[int]) -> list[Tombstone]:
    """The tombstones that meet a condition; CollectionDamaged if one is not as written."""
    found = []
    for change, row, terms, stored in db.execute(f"SELECT change, row, terms, sum FROM gone WHERE {condition}", params):
        check("the record of a removed chunk", stored, change, row, terms)
        found.append((row, np.frombuffer(terms, np.int64)))
    return found


def make_placeholders(values: Sequence[object]) -> str:
    """As many question marks as values: faster than a JSON list, which SQLite would have to parse and sort."""
    return ",".join("?" * len(values))


def _parse_signals(read: list[Any], dim: int) -> Signals:
    rows, ids, found, seconds, lengths, terms, counts, vectors, _ = zip(*read, strict=True) if read else ((),) * 9
    return Signals(
        np.array(rows, np.int64),
        list(ids),
        _parse_facets(found),
        np.array([MESSAGE in each for each in found], bool),
        np.array([np.nan if at is None else at for at in seconds], np.float64),
        np.array(lengths, np.float64),
        np.frombuffer(b"".join(terms), np.int64),
        np.frombuffer(b"".join(counts), np.uint16),
        np.array([len(each) // 8 for each in terms], np.int64),
        unpack_vectors(vectors, dim),
    )


def _parse_facets(texts: Sequence[str]) -> list[list[str]]:
    """The facets of each chunk; parsed all at once, which is three times as fast as one by one."""
    parsed: list[list[str]] = json.loads(f"[{','.join(texts)}]")
    return parsed
