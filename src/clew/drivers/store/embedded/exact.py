"""The exact index: every vector and posting in memory, every search exact."""

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.core.facets import required_facets, to_timestamp
from clew.core.types import Filter, Matrix, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.embedded import postings
from clew.drivers.store.embedded.postings import Postings
from clew.drivers.store.embedded.signals import Rows, Signals, State
from clew.drivers.store.embedded.truth import Truth
from clew.drivers.store.term_ids import Packed

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
        """Takes in what the truth had at a state and this has not."""
        with self._lock:
            if self._change >= state.change:
                return
            if not self._caught_up(state) or len(self._dead) > max(1024, self._columns.used // 4):
                self._forget()
                self._caught_up(state)

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

    def matching(self, asked: Packed, state: State, k: int, where: Filter) -> Found:
        """The k rows of greatest BM25 score for words that are asked for so many times."""
        columns, ids, slots, dead, words = self._view(where)
        found = postings.having(words, asked.hashes)
        having, counts = (np.concatenate(column) for column in zip(*found, strict=True))
        many = [len(slots) for slots, _ in found]
        weights = [
            times * bm25.idf(state.chunks, len(each) - _among(each, dead))
            for times, (each, _) in zip(asked.counts.tolist(), found, strict=True)
        ]
        norms = bm25.norms(columns.lengths[: columns.used], state.average)
        sums = np.bincount(
            having, np.repeat(weights, many) * bm25.saturated(counts, norms[having]), minlength=columns.used
        )
        scores = sums.astype(np.float64, copy=False)
        scores[dead] = 0.0
        if slots is not None:
            kept = np.zeros(columns.used)
            kept[slots] = scores[slots]
            scores = kept
        some = np.flatnonzero(scores)
        top = some[order.contenders(scores[some], k, 10.0**-order.LEXICAL_DIGITS)]
        return _best(columns, ids, top, scores[top].round(order.LEXICAL_DIGITS), k)

    def _view(self, where: Filter) -> tuple[Columns, list[str], NDArray[np.intp] | None, NDArray[np.intp], Postings]:
        """A state to search in that does not change, and the slots that a filter admits in it (None: all)."""
        groups, since, until = required_facets(where), to_timestamp(where.since), to_timestamp(where.until)
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
        return columns, ids, np.flatnonzero(admitted), dead, words

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

    def _caught_up(self, state: State) -> bool:
        """Whether it now stands where the truth did; False if it is too far behind to know what was removed."""
        gone = self._truth.gone(self._change, state) if self._columns.used else []
        if gone is None:
            return False
        new = [(self._add(batch.there, state.chunks), batch.there) for batch in self._truth.after(self._row, state)]
        if new:
            self._postings = postings.extended(
                self._postings,
                np.concatenate([batch.terms for _, batch in new]),
                np.concatenate([np.repeat(slots, batch.sizes) for slots, batch in new]),
                np.concatenate([batch.counts for _, batch in new]).astype(np.float32),
            )
        rows, removed = self._columns.rows[: self._columns.used], np.array([row for row, _ in gone], np.int64)
        slots = np.searchsorted(rows, removed)
        known = slots < len(rows)
        known[known] = rows[slots[known]] == removed[known]
        self._dead = np.union1d(self._dead, slots[known])
        self._change, self._row = state.change, state.last
        return True

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
        return slots


def _among(slots: NDArray[np.int32], dead: NDArray[np.intp]) -> int:
    """How many of the slots are dead."""
    return int(np.isin(slots, dead).sum()) if len(dead) else 0


def _best(columns: Columns, ids: Sequence[str], slots: NDArray[np.intp], scores: Floats, k: int) -> Found:
    return order.best(columns.rows[slots].tolist(), [ids[slot] for slot in slots.tolist()], scores, k)


def _roomier(old: Columns, wanted: int) -> Columns:
    room = wanted + max(256, wanted // 2)
    vectors = np.empty((room, old.vectors.shape[1]), np.float32)
    rows, at, lengths = np.empty(room, np.int64), np.empty(room, np.float64), np.empty(room, np.float64)
    for new, was in ((vectors, old.vectors), (rows, old.rows), (at, old.seconds), (lengths, old.lengths)):
        new[: old.used] = was[: old.used]
    return Columns(old.used, vectors, rows, at, lengths)
