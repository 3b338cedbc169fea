"""The exact index: every vector and posting in memory, every search exact."""

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.core.facets import required, seconds
from clew.core.types import Filter, Matrix, Vector
from clew.drivers.store import bm25, order, postings
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.postings import Postings
from clew.drivers.store.signals import Rows, Signals, State
from clew.drivers.store.truth import Truth

Found = list[tuple[int, float]]  # rows and their scores, best first
FEW = 4  # a filter that admits fewer than one chunk in this many is searched by picking the rows out


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an approximate search looks: everywhere, or at so many candidates (None: the index decides)."""

    exact: bool = False
    breadth: int | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """What is known of the chunks, a slot each; the first `used` are filled."""

    used: int
    vectors: Matrix
    rows: Rows
    seconds: Floats
    lengths: Floats


class ExactIndex:
    """Follows a truth in memory. Several threads may search while one follows."""

    name = "exact, in memory"

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._lock = threading.RLock()
        self._forget()

    def follow(self, state: State) -> None:
        """Takes in what the truth has and this has not."""
        with self._lock:
            if self._change == state.change:
                return
            if state.pruned > self._change:
                self._forget()
            self._catch_up(state)
            if len(self._dead) > max(1024, self._columns.used // 4):
                self._forget()
                self._catch_up(state)

    def nearest(self, vector: Vector, k: int, where: Filter, reach: Reach) -> Found:  # noqa: ARG002 (always exact)
        """The k rows of greatest cosine, with it."""
        columns, ids, slots, dead, _ = self._view(where)
        vectors = columns.vectors[: columns.used]
        if slots is None:
            scores = vectors @ vector
            scores[dead] = -np.inf
        elif len(slots) * FEW < len(vectors):
            scores = vectors[slots] @ vector
        else:
            scores = (vectors @ vector)[slots]
        top = order.contenders(scores, k, order.SLACK)
        if len(dead):
            top = top[scores[top] > -np.inf]
        chosen = top if slots is None else slots[top]
        return _best(columns, ids, chosen, order.cosines(vectors[chosen], vector), k)

    def matching(self, weights: dict[int, float], average: float, k: int, where: Filter) -> Found:
        """The k rows of greatest BM25 score for words of given weights."""
        columns, ids, slots, dead, words = self._view(where)
        norms = bm25.norms(columns.lengths[: columns.used], average)
        scores = np.zeros(columns.used)
        for word in sorted(weights):
            for having, counts in postings.having(words, word):
                scores[having] += weights[word] * bm25.saturated(counts, norms[having])
        scores[dead] = 0.0
        if slots is not None:
            admitted = np.zeros(columns.used, bool)
            admitted[slots] = True
            scores[~admitted] = 0.0
        some = np.flatnonzero(scores)
        top = some[order.contenders(scores[some], k, 10.0**-order.LEXICAL_DIGITS)]
        return _best(columns, ids, top, scores[top].round(order.LEXICAL_DIGITS), k)

    def _view(self, where: Filter) -> tuple[Columns, list[str], NDArray[np.intp] | None, NDArray[np.intp], Postings]:
        """A state to search in that does not change, and the slots that a filter admits in it (None: all)."""
        groups, since, until = required(where), seconds(where.since), seconds(where.until)
        with self._lock:
            columns, dead = self._columns, self._dead
            found = [self._having(group) for group in groups]
            words, ids = self._postings, self._ids
        if not groups and since is None and until is None:
            return columns, ids, None, dead, words
        admitted = np.ones(columns.used, bool)
        for slots in found:
            has = np.zeros(columns.used, bool)
            has[slots[slots < columns.used]] = True
            admitted &= has
        at = columns.seconds[: columns.used]
        if since is not None:
            admitted &= at >= since
        if until is not None:
            admitted &= at < until
        admitted[dead] = False
        return columns, ids, np.flatnonzero(admitted), dead[:0], words

    def _having(self, group: frozenset[str]) -> NDArray[np.int32]:
        """The slots of the chunks that have a facet of the group."""
        found = [self._facets[word] for word in group if word in self._facets]
        return np.concatenate([np.empty(0, np.int32), *(np.array(each, np.int32) for each in found)])

    def _forget(self) -> None:
        self._change = -1
        self._row = 0
        empty = np.empty(0, np.float64)
        self._columns = Columns(0, np.empty((0, self._truth.dim), np.float32), np.empty(0, np.int64), empty, empty)
        self._ids: list[str] = []
        self._facets: dict[str, array[int]] = {}
        self._postings = postings.EMPTY
        self._dead = np.empty(0, np.intp)

    def _catch_up(self, state: State) -> None:
        """Adds what came, then removes what went: whatever goes between the two reads is in the second."""
        known = self._change if self._row else state.change
        new = [(self._add(batch, state.chunks), batch) for batch in self._truth.after(self._row)]
        if new:
            self._postings = postings.extended(
                self._postings,
                np.concatenate([batch.terms for _, batch in new]),
                np.concatenate([np.repeat(slots, batch.sizes) for slots, batch in new]),
                np.concatenate([batch.counts for _, batch in new]).astype(np.float32),
            )
        gone = self._truth.gone(known)
        gone = gone[gone <= self._row]
        rows = self._columns.rows[: self._columns.used]
        slots = np.searchsorted(rows, gone)
        self._dead = np.union1d(self._dead, slots[rows[slots] == gone])
        self._change = state.change

    def _add(self, batch: Signals, expected: int) -> NDArray[np.int32]:
        """The slots of the batch, in which all but its terms now stands."""
        old, first = self._columns, self._columns.used
        used = first + len(batch.ids)
        columns = old if used <= len(old.rows) else _roomier(old, max(used, expected))
        columns.vectors[first:used] = batch.vectors
        columns.rows[first:used] = batch.rows
        columns.seconds[first:used] = batch.seconds
        columns.lengths[first:used] = batch.lengths
        slots = np.arange(first, used, dtype=np.int32)
        for slot, words in enumerate(batch.facets, first):
            for word in words:
                self._facets.setdefault(word, array("i")).append(slot)
        self._ids.extend(batch.ids)
        self._columns = Columns(used, columns.vectors, columns.rows, columns.seconds, columns.lengths)
        self._row = int(batch.rows[-1])
        return slots


def _best(columns: Columns, ids: Sequence[str], slots: NDArray[np.intp], scores: Floats, k: int) -> Found:
    return order.best(columns.rows[slots].tolist(), [ids[slot] for slot in slots.tolist()], scores, k)


def _roomier(old: Columns, wanted: int) -> Columns:
    room = wanted + max(256, wanted // 2)
    vectors = np.empty((room, old.vectors.shape[1]), np.float32)
    rows, at, lengths = np.empty(room, np.int64), np.empty(room, np.float64), np.empty(room, np.float64)
    for new, was in ((vectors, old.vectors), (rows, old.rows), (at, old.seconds), (lengths, old.lengths)):
        new[: old.used] = was[: old.used]
    return Columns(old.used, vectors, rows, at, lengths)
