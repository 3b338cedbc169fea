"""Signals: the indexed columns of chunks (vector, terms, facets, time), read from the database.

An index follows changes by row (`read_tombstones`, `read_rows_in_batches`), reads the signals of candidates
(`RowCache`), and counts document frequencies (`WordCounts`).
"""

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core import facets
from clew.core.stored import Hashes
from clew.core.types import Matrix, Vector
from clew.drivers.store.backend import Head
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.checksums import check, check_signal, damaged_error
from clew.drivers.store.scan import Signals
from clew.drivers.store.sqlite.database import CollectionState, Database


def stores_half(db: sqlite3.Connection, dim: int) -> bool:
    """Return whether the first vector is stored in half precision."""
    found = db.execute("SELECT length(vector) FROM signals WHERE length(vector) > 0 LIMIT 1").fetchone()
    return found is not None and found[0] == 2 * dim


def pack_vectors(vectors: Matrix) -> list[bytes]:
    """Pack vectors as bytes, in half precision if that loses nothing."""
    matrix = np.ascontiguousarray(vectors, np.float32)
    half = matrix.astype(np.float16)
    fits = (half == matrix).all(axis=1)
    return [short.tobytes() if fit else row.tobytes() for row, short, fit in zip(matrix, half, fits, strict=True)]


def unpack_vectors(stored: Sequence[bytes], dim: int) -> Matrix:
    """Unpack vectors to a matrix, with nan for an empty one; CollectionDamaged if a dimension differs."""
    data, count = b"".join(stored), len(stored)
    if len(data) == 4 * count * dim and all(len(each) == 4 * dim for each in stored):
        return np.frombuffer(data, np.float32).reshape(count, dim)
    forms = {4 * dim: np.float32, 2 * dim: np.float16}
    if any(each and len(each) not in forms for each in stored):
        raise damaged_error("a vector")
    missing = np.full(dim, np.nan, np.float32)
    return np.stack([np.frombuffer(each, forms[len(each)]).astype(np.float32) if each else missing for each in stored])


def find_width(stored: bytes) -> int:
    """Find the dimension at which a stored vector has unit length; 0 if there is none."""
    for form in (np.float32, np.float16):
        if len(stored) % np.dtype(form).itemsize == 0:
            numbers = np.frombuffer(stored, form).astype(np.float64)
            if abs(float(numbers @ numbers) - 1.0) < 2 * UNIT_TOLERANCE:
                return len(numbers)
    return 0


def unpack_vector(stored: bytes, dim: int) -> Vector:
    """Unpack a stored vector of this dimension."""
    if len(stored) not in (4 * dim, 2 * dim):
        raise damaged_error("a vector")
    return np.frombuffer(stored, np.float32 if len(stored) == 4 * dim else np.float16).astype(np.float32, copy=False)


COLUMNS = "row, id, facets, seconds, length, terms, counts, vector, sum"
TERMS, VECTOR = 5, 7  # positions in COLUMNS
BATCH = 2000  # signals per read
MAX_BYTES = 32_000_000  # of signals in a cache
ROW_BYTES = 300  # of a row in the cache besides its terms and its vector
MAX_RECENT = 8_192  # words with recent changes before these are merged
MESSAGE = json.dumps(facets.MESSAGE)[:-1]  # occurs in the facets of a row only if that is (a part of) a message
StoredRow = tuple[Any, ...]  # COLUMNS
Tombstone = tuple[int, Hashes]  # a removed row and its words


@dataclass(frozen=True, slots=True)
class ChunkSignals:
    """The signals of some chunks, by row."""

    terms: Signals
    facets: list[list[str]]
    messages: NDArray[np.bool_]  # whether each is a message or a part of one
    seconds: Floats  # nan: no time
    vectors: Matrix


def read_rows_in_batches(
    database: Database, row: int, upto: CollectionState
) -> Iterator[tuple[int, ChunkSignals, list[Tombstone]]]:
    """Yield (last row, signals of existing rows, tombstones) in batches, for all rows after `row` up to a state."""
    while row < upto.last:
        with database.read_transaction() as (db, _):
            sql = f"SELECT {COLUMNS} FROM signals WHERE row > ? AND row <= ? ORDER BY row LIMIT {BATCH}"
            read = db.execute(sql, (row, upto.last)).fetchall()
            last = read[-1][0] if len(read) == BATCH else upto.last
            removed = _read_gone(db, "change > ? AND row > ? AND row <= ?", (upto.change, row, last))
        _check_signals(database, read)
        yield last, _parse_signals(read, database.dim), removed
        row = last


def read_tombstones(
    database: Database, change: int, row: int, upto: CollectionState
) -> tuple[list[Tombstone], ChunkSignals] | None:
    """Read the rows removed after a change up to a state, and the signals of rows up to `row` that got their vector.

    None if some of these tombstones have been pruned.
    """
    with database.reader as db:
        tombstones = _read_gone(db, "change > ? AND change <= ?", (change, upto.change))
        read = _read_by_row(db, [number for number, terms in tombstones if not len(terms)])
        pruned = database.check_model_unchanged(db).pruned  # read last, since it only grows
    if pruned > change:
        return None
    _check_signals(database, read)
    kept = {columns[0] for columns in read}
    signals = _parse_signals([columns for columns in read if columns[0] <= row], database.dim)
    return [each for each in tombstones if each[0] not in kept], signals


def count_having(database: Database, hashes: Hashes) -> list[int]:
    """Count, for each term, the chunks that have it, by a scan: for few counts much faster than filling an index."""
    counts = [0] * len(hashes)
    with database.read_transaction() as (db, _):
        found = db.execute(f"SELECT {COLUMNS} FROM signals")
        while read := found.fetchmany(BATCH):
            _check_signals(database, read)
            terms = np.frombuffer(b"".join(columns[TERMS] for columns in read), np.int64)
            counts = [count + int(np.count_nonzero(terms == each)) for count, each in zip(counts, hashes, strict=True)]
    return counts


def _read_by_row(db: sqlite3.Connection, rows: Sequence[int], condition: str = "", *params: object) -> list[StoredRow]:
    """Read the signals of rows with one parameter each: faster than a JSON list, which SQLite must parse and sort."""
    read = list[StoredRow]()
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        sql = f"SELECT {COLUMNS} FROM signals WHERE row IN ({','.join('?' * len(some))}){condition}"
        read += db.execute(sql, (*some, *params))
    return read


def _read_gone(db: sqlite3.Connection, condition: str, params: Sequence[int]) -> list[Tombstone]:
    """Read the tombstones that fulfil a condition; CollectionDamaged if one is corrupt."""
    found = []
    for change, row, terms, stored in db.execute(f"SELECT change, row, terms, sum FROM gone WHERE {condition}", params):
        check("the record of a removed chunk", stored, change, row, terms)
        found.append((row, np.frombuffer(terms, np.int64)))
    return found


def _check_signals(database: Database, read: Iterable[StoredRow], *, is_anew: bool = True) -> None:
    """Raise CollectionDamaged if a row is corrupt; unless `is_anew`, skip rows that were checked before."""
    for columns in read:
        if is_anew or database.checked.get(columns[0]) != columns[-1]:
            check_signal(columns[:-1], columns[-1])
            database.checked.add(columns[0], columns[-1])


def _parse_signals(read: Sequence[StoredRow], dim: int) -> ChunkSignals:
    found = [columns[2] for columns in read]
    return ChunkSignals(
        join_terms(read),
        json.loads(f"[{','.join(found)}]"),  # three times as fast as one by one
        np.array([MESSAGE in each for each in found], bool),
        np.array([np.nan if columns[3] is None else columns[3] for columns in read], np.float64),
        stack_vectors(read, dim),
    )


def stack_vectors(read: Sequence[StoredRow], dim: int) -> Matrix:
    """Stack the vectors of rows to a matrix."""
    return unpack_vectors([each[VECTOR] for each in read], dim)


def join_terms(read: Sequence[StoredRow]) -> Signals:
    """Concatenate the terms of rows."""
    return Signals(
        np.array([each[0] for each in read], np.int64),
        [each[1] for each in read],
        np.array([each[4] for each in read], np.float64),
        np.frombuffer(b"".join([each[TERMS] for each in read]), np.int64),
        np.frombuffer(b"".join([each[6] for each in read]), np.uint16),
        np.repeat(np.arange(len(read)), [len(each[TERMS]) // 8 for each in read]),
    )


class RowCache:
    """A thread-safe cache of recent signals, which a search needs several times; any change clears it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._rows: dict[int, StoredRow] = {}
        self._by_id: dict[str, StoredRow] = {}
        self._bytes = 0
        self._cached_at = (-1, -1)

    def load_rows(self, head: Head, rows: Sequence[int]) -> list[StoredRow]:
        """Load the rows that still exist; none after a model switch."""
        with self._lock:
            self._clear_if_changed(head)
            known = self._rows
            self._read("row", [row for row in rows if row not in known], known)
            return [found for row in rows if (found := known.get(row))]

    def load_chunks(self, head: Head, chunk_ids: Sequence[str]) -> list[StoredRow]:
        """Load the rows of the existing chunks, each once."""
        with self._lock:
            self._clear_if_changed(head)
            known = self._by_id
            self._read("id", [each for each in chunk_ids if each not in known], known)
            return [found for each in dict.fromkeys(chunk_ids) if (found := known.get(each))]

    def _clear_if_changed(self, head: Head) -> None:
        if self._cached_at != (head.change, head.version) or self._bytes > MAX_BYTES:
            self._rows, self._by_id, self._bytes = {}, {}, 0
            self._cached_at = head.change, head.version

    def _read(self, column: str, missing: Sequence[Any], known: dict[Any, StoredRow]) -> None:
        """Read the signals of chunks by row or id; CollectionDamaged if a chunk exists without its signal."""
        if not missing:
            return
        database, values = self._database, json.dumps(missing)
        with database.reader as db:
            if column == "row":
                read = _read_by_row(db, missing, " AND (SELECT birth FROM meta) = ?", database.collection_id)
            else:
                rows = "SELECT row FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
                sql = f"SELECT {COLUMNS} FROM signals WHERE row IN ({rows}) AND (SELECT birth FROM meta) = ?"
                read = db.execute(sql, (values, database.collection_id)).fetchall()
            _check_signals(database, read, is_anew=False)
            for columns in read:
                self._rows[columns[0]] = self._by_id[columns[1]] = columns
                self._bytes += len(columns[TERMS]) + len(columns[6]) + len(columns[VECTOR]) + ROW_BYTES
            if column == "id" and not {columns[1] for columns in read} <= set(missing):
                raise damaged_error("the index of the chunks")
            if any(each not in known for each in missing):
                sql = (
                    f"SELECT c.id FROM chunks c WHERE c.{column} IN (SELECT value FROM json_each(?))"
                    " AND NOT EXISTS (SELECT 1 FROM signals s WHERE s.row = c.row) LIMIT 1"
                )
                for (chunk_id,) in db.execute(sql, (values,)):
                    raise damaged_error(f"the vector or the terms of the chunk {chunk_id!r}")


class WordCounts:
    """Document frequencies: sorted words with counts, and separately the changes since the last merge."""

    def __init__(self, words: Hashes | None = None, numbers: NDArray[np.int64] | None = None) -> None:
        none = np.empty(0, np.int64)
        # Replaced as a whole, so that running searches keep the old value.
        self._counts = none if words is None else words, none if numbers is None else numbers, Counter[int]()

    def update(self, added: Hashes, removed: Sequence[Hashes] = ()) -> None:
        """Add the words of new chunks, and subtract those of removed ones."""
        words, numbers, recent = self._counts
        changed = recent.copy()
        changed.update(added.tolist())
        for gone in removed:
            changed.subtract(gone.tolist())
        self._counts = words, numbers, changed
        if len(changed) > MAX_RECENT:
            self._counts = *self.merge(), Counter()

    def count(self, words: Hashes) -> list[int]:
        """Return the number of chunks with each of the words."""
        known, numbers, recent = self._counts
        found = [recent.get(word, 0) for word in words.tolist()]
        if not len(known):
            return found
        at = np.minimum(known.searchsorted(words), len(known) - 1)
        merged: list[int] = np.where(known[at] == words, numbers[at], 0).tolist()
        return [count + more for count, more in zip(merged, found, strict=True)]

    def merge(self) -> tuple[Hashes, NDArray[np.int64]]:
        """Return all words, sorted, and their counts."""
        known, counts, recent = self._counts
        changed, changes = (np.fromiter(each, np.int64, len(recent)) for each in (recent.keys(), recent.values()))
        words, where = np.unique(np.concatenate([known, changed]), return_inverse=True)
        numbers = np.zeros(len(words), np.int64)
        np.add.at(numbers, where, np.concatenate([counts, changes]))
        return words[numbers != 0], numbers[numbers != 0]

    def save(self, file: Path) -> None:
        """Write the counts to a file."""
        with file.open("wb") as target:
            np.save(target, np.stack(self.merge()), allow_pickle=False)


def load_word_counts(file: Path) -> WordCounts:
    """Load the counts from a file; ValueError or OSError if that fails."""
    try:
        with file.open("rb") as source:
            words, numbers = np.load(source, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy parses the header as Python, so a damaged file can raise any error
        raise ValueError(f"{file.name} cannot be read ({error})") from error
    if words.dtype != np.int64 or numbers.dtype != np.int64:
        raise ValueError(f"{file.name} does not hold counts")
    return WordCounts(words, numbers)
