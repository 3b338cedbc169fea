"""A cache of signals by row: vectors and terms of candidates, which a search asks for several times, and scores."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.stored import Counts, Hashes
from clew.core.types import Matrix
from clew.drivers.store import bm25
from clew.drivers.store.backend import Head
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.checksums import check_signal, damaged_error
from clew.drivers.store.sqlite.database import Database
from clew.drivers.store.sqlite.signals import BATCH, COLUMNS, RowTerms, make_placeholders
from clew.drivers.store.sqlite.vectors import unpack_vectors

MAX_BYTES = 32_000_000
_ROW_BYTES = 300  # what a row takes besides its terms and its vector
_SIGNALS = ", ".join(f"s.{name}" for name in COLUMNS.split(", "))
StoredRow = tuple[Any, ...]  # COLUMNS


class RowCache:
    """The signals that were read last; any change of the collection clears it. Several threads may use it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._rows: dict[int, StoredRow] = {}
        self._by_id: dict[str, StoredRow] = {}
        self._bytes = 0
        self._cached_at = (-1, -1)

    def load_rows(self, head: Head, rows: Sequence[int]) -> list[StoredRow]:
        """Those of the rows that still exist; none after a switch of model."""
        with self._lock:
            self._clear_if_changed(head)
            known = self._rows
            missing = [row for row in rows if row not in known]
            if missing:
                known = {row: found for row in rows if (found := known.get(row))}
                for start in range(0, len(missing), BATCH):
                    some = missing[start : start + BATCH]
                    known |= {each[0]: each for each in self._read(f"s.row IN ({make_placeholders(some)})", some)}
                self._check_gone("row", [row for row in missing if row not in known])
            return [found for row in rows if (found := known.get(row))]

    def load_chunks(self, head: Head, chunk_ids: Sequence[str]) -> list[StoredRow]:
        """The rows of those of the chunks that exist, each once."""
        with self._lock:
            self._clear_if_changed(head)
            known = self._by_id
            found = {each: row for each in chunk_ids if (row := known.get(each))}
            missing = [each for each in chunk_ids if each not in found]
            if missing:
                rows = "s.row IN (SELECT row FROM chunks WHERE id IN (SELECT value FROM json_each(?)))"
                fresh = {each[1]: each for each in self._read(rows, (json.dumps(missing),))}
                if not fresh.keys() <= set(missing):
                    raise damaged_error("the index of the chunks")
                found |= fresh
                self._check_gone("id", [each for each in missing if each not in found])
            return list(found.values())

    def _check_gone(self, column: str, values: Sequence[object]) -> None:
        """CollectionDamaged if one of the chunks that have no signal is there."""
        if values:
            sql = (
                f"SELECT c.id FROM chunks c WHERE c.{column} IN (SELECT value FROM json_each(?))"
                " AND NOT EXISTS (SELECT 1 FROM signals s WHERE s.row = c.row) LIMIT 1"
            )
            with self._database.reader as db:
                for (chunk_id,) in db.execute(sql, (json.dumps(list(values)),)):
                    raise damaged_error(f"the vector or the terms of the chunk {chunk_id!r}")

    def _clear_if_changed(self, head: Head) -> None:
        if self._cached_at != (head.change, head.version) or self._bytes > MAX_BYTES:
            self._rows, self._by_id, self._bytes = {}, {}, 0
            self._cached_at = head.change, head.version

    def _read(self, condition: str, params: Sequence[object]) -> list[StoredRow]:
        """Reads rows and checks those that this open store has not read before."""
        database = self._database
        sql = f"SELECT {_SIGNALS} FROM signals s WHERE (SELECT birth FROM meta) = ? AND {condition}"
        with database.reader as db:
            read = db.execute(sql, (database.collection_id, *params)).fetchall()
        for columns in read:
            if database.checked.get(columns[0]) != columns[-1]:
                check_signal(columns[:-1], columns[-1])
                database.checked.add(columns[0], columns[-1])
            self._rows[columns[0]] = self._by_id[columns[1]] = columns
            self._bytes += len(columns[5]) + len(columns[6]) + len(columns[7]) + _ROW_BYTES
        return read


def stack_vectors(read: Sequence[StoredRow], dim: int) -> Matrix:
    """The vectors of rows as a matrix."""
    return unpack_vectors([each[7] for each in read], dim)


def join_terms(read: Sequence[StoredRow]) -> RowTerms:
    """The terms of rows, one after the other."""
    return RowTerms(
        [each[0] for each in read],
        [each[1] for each in read],
        np.array([each[4] for each in read], np.float64),
        np.frombuffer(b"".join([each[5] for each in read]), np.int64),
        np.frombuffer(b"".join([each[6] for each in read]), np.uint16),
        np.array([len(each[5]) for each in read], np.int64) // 8,
    )


def measure_rows(read: RowTerms, words: Hashes, weights: Floats, average: float) -> tuple[Floats, Floats]:
    """The share and the strength of rows, for sorted words with these weights."""
    places, owners, found = _find_words(read, words)
    counts = np.zeros((len(words), len(read.rows)), np.float32)
    counts[places, owners] = found
    return bm25.measure_terms(weights, counts, bm25.length_norm(read.lengths, average))


def score_rows_by_bm25(read: RowTerms, words: Hashes, weights: Floats, average: float) -> Floats:
    """The BM25 score of each row, for sorted words and their weights."""
    places, owners, counts = _find_words(read, words)
    norms = bm25.length_norm(read.lengths, average)[owners]
    parts = weights[places] * bm25.saturate(counts.astype(np.float32), norms)
    sums = np.bincount(owners, parts, minlength=len(read.rows)).astype(np.float64, copy=False)
    return sums.round(bm25.DIGITS)


def _find_words(read: RowTerms, words: Hashes) -> tuple[NDArray[np.intp], NDArray[np.intp], Counts]:
    """Where the rows have any of the sorted words: the position of the word, that of the row, and the count."""
    if not len(words):
        none = np.empty(0, np.intp)
        return none, none, read.counts[:0]
    places = words.searchsorted(read.terms)
    at = np.flatnonzero(words.take(places, mode="clip") == read.terms)
    owners = np.repeat(np.arange(len(read.rows)), read.sizes)
    return places[at], owners[at], read.counts[at]
