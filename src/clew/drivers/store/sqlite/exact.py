"""The exact index: every vector and posting in memory, every search exact."""

import threading
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Depth
from clew.core.facets import Condition, expand_filter
from clew.core.filter import EVERYTHING, Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25
from clew.drivers.store.backend import RowCandidates, RowScores
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.sqlite import postings, signals
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.index import TermQuery, VectorQuery
from clew.drivers.store.sqlite.signals import Signals
from clew.drivers.store.sqlite.view import (
    ChunkColumns,
    SlotScores,
    View,
    count_having,
    find_candidates,
    find_matching,
    find_nearest,
    find_query_postings,
)

MAX_FILTERS = 16  # whose slots are kept for the next search


class ExactIndex:
    """Follows a database in memory. Several threads may search while one follows."""

    name = "exact, in memory"
    _last: tuple[int, VectorQuery, RowScores]  # the last search by vector, and the change that it is of
    _norms: tuple[ChunkColumns, float, Floats]  # the normalised lengths, and what they were computed from
    _admitted: dict[tuple[Condition, ...], NDArray[np.intp]]  # the slots of filters, since the last change
    _ahead: dict[bytes, tuple[int, VectorQuery, RowScores]]  # of vectors that are searched next, by their bytes

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.RLock()
        self._reset()

    def catch_up(self, state: CollectionState) -> None:
        """Applies every change of the database up to a state."""
        with self._lock:
            if self._change >= state.change:
                return
            if not self._apply_changes(state) or len(self._removed) > max(1024, self._columns.used // 4):
                self._reset()
                self._apply_changes(state)
            is_whole = self._columns.used - len(self._removed) == state.chunks
            if not is_whole and self._database.read_state().change == state.change:
                self._reset()
                raise damaged_error("the table of the vectors and terms")

    def search_vectors(self, query: VectorQuery, state: CollectionState) -> RowScores:  # noqa: ARG002
        """The k rows of greatest cosine; always exact. What judges the hits of a search asks the same for fewer."""
        change = self._change
        for known_at, last, found in (self._last, self._ahead.get(query.vector.tobytes(), self._last)):
            is_known = known_at == change and last.k >= query.k and last.where == query.where
            if is_known and np.array_equal(last.vector, query.vector):
                return found[: query.k]
        view = self._take_view(query.where)
        found = _to_rows(view, find_nearest(view, query.vector, query.k))
        self._last = change, query, found
        return found

    def search_ahead(
        self,
        vectors: Matrix,
        terms: Sequence[PackedTerms],  # noqa: ARG002
        k: int,
        where: Filter,
        state: CollectionState,  # noqa: ARG002
    ) -> list[int]:
        """Compares vectors that are searched next with all chunks, as one product of matrices."""
        change, view = self._change, self._take_view(where)
        columns, ahead = view.columns, dict[bytes, tuple[int, VectorQuery, RowScores]]()
        for vector, scores in zip(vectors, vectors @ columns.vectors[: columns.used].T, strict=True):
            query = VectorQuery(vector, k, where)
            found = _to_rows(view, find_nearest(view, vector, k, scores))
            ahead[vector.tobytes()] = change, query, found
        self._ahead = ahead
        return [row for _, _, found in ahead.values() for row, _ in found]

    def search_terms(self, query: TermQuery, state: CollectionState) -> RowScores:
        """The k rows of greatest BM25 score, with the collection's counts as of a state."""
        view = self._take_view(query.where)
        norms = self._norm_lengths(view.columns, state.average_length)
        (words,) = find_query_postings(view, [query.terms], state.chunks, norms)
        return _to_rows(view, find_matching(view, words, query.k))

    def find_candidates(
        self,
        vectors: Matrix,
        terms: Sequence[PackedTerms],
        near: Depth,
        matching: Depth,
        where: Filter,
        state: CollectionState,
    ) -> list[RowCandidates]:
        """The candidates of each query; always exact."""
        view = self._take_view(where)
        norms = self._norm_lengths(view.columns, state.average_length)
        words = find_query_postings(view, terms, state.chunks, norms)
        return find_candidates(view, vectors, words, near, matching)

    def _norm_lengths(self, columns: ChunkColumns, average: float) -> Floats:
        """The length normalisation of every chunk, kept for the next search."""
        of, at, norms = self._norms
        if of is not columns or at != average:
            norms = bm25.length_norm(columns.lengths[: columns.used], average)
            self._norms = columns, average, norms
        return norms

    def match_terms(self, terms: PackedTerms, chunk_ids: Sequence[str], state: CollectionState) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the collection's counts as of a state."""
        with self._lock:
            view = self._take_view(EVERYTHING)
            known = {each: slot for each in chunk_ids if (slot := self._slots.get(each)) is not None}
        slots = np.array(list(known.values()), np.int32)
        found = postings.find_postings(view.postings, terms.hashes)
        weights = bm25.weigh_terms(terms.counts, count_having(view, found), state.chunks)
        norms = self._norm_lengths(view.columns, state.average_length)[slots]
        return bm25.match_terms(list(known), weights, postings.look_up_counts(found, slots), norms)

    def get_vectors(self, state: CollectionState, chunk_ids: Sequence[str]) -> dict[str, Vector] | None:
        """The vectors of those of the chunks that exist; None if this is not the index of that state."""
        with self._lock:
            if self._change != state.change:
                return None
            slots = {each: slot for each in chunk_ids if (slot := self._slots.get(each)) is not None}
            found = self._columns.vectors[list(slots.values())] if slots else ()
            return {each: vector for each, vector in zip(slots, found, strict=True) if not np.isnan(vector[0])}

    def count_having(self, hashes: Hashes) -> list[int]:
        """How many chunks have each of the words."""
        view = self._take_view(EVERYTHING)
        return count_having(view, postings.find_postings(view.postings, hashes))

    def _take_view(self, where: Filter) -> View:
        alternatives = expand_filter(where)
        with self._lock:
            columns, removed, known, ids = self._columns, self._removed, self._postings, self._ids
            if any(each.is_empty for each in alternatives):
                return View(columns, ids, known, removed, None)
            slots = self._admitted.get(alternatives)
            if slots is None:
                admitted = np.zeros(columns.used, bool)
                for each in alternatives:
                    admitted |= self._mark_admitted(each, columns)
                admitted[removed] = False
                slots = np.flatnonzero(admitted)
                kept = self._admitted if len(self._admitted) < MAX_FILTERS else {}
                self._admitted = {**kept, alternatives: slots}
        return View(columns, ids, known, removed, slots)

    def _mark_admitted(self, condition: Condition, columns: ChunkColumns) -> NDArray[np.bool_]:
        """Whether each slot fulfils a condition."""
        admitted = np.ones(columns.used, bool)
        for group in condition.groups:
            has = np.zeros(columns.used, bool)
            has[self._find_slots_by_facet(group)] = True
            admitted &= has
        admitted[self._find_slots_by_facet(condition.forbidden)] = False
        at = columns.seconds[: columns.used]
        if condition.since is not None:
            admitted &= at >= condition.since
        if condition.until is not None:
            admitted &= at < condition.until
        return admitted

    def _find_slots_by_facet(self, group: frozenset[str]) -> NDArray[np.int32]:
        """The slots of the chunks that have a facet of the group."""
        found = array("i")
        for facet in group:
            found.extend(self._facets.get(facet, ()))
        return np.array(found, np.int32)

    def _reset(self) -> None:
        self._change = -1
        self._row = 0
        empty = np.empty(0, np.float64)
        vectors = np.empty((0, self._database.dim), np.float32)
        self._columns = ChunkColumns(0, vectors, np.empty(0, np.int64), np.empty(0, bool), empty, empty)
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}  # of the chunks that exist, by id
        self._facets: dict[str, array[int]] = {}
        self._postings = postings.EMPTY
        self._removed = np.empty(0, np.intp)
        self._admitted = {}
        self._norms = (self._columns, 0.0, empty)
        self._last = (-2, VectorQuery(vectors[:0, 0], 0, EVERYTHING), [])
        self._ahead = {}

    def _apply_changes(self, state: CollectionState) -> bool:
        """Adds and removes chunks up to a state; False if tombstones that this would need have been pruned."""
        self._admitted = {}
        found = signals.read_tombstones(self._database, self._change, self._row, state) if self._columns.used else None
        if found is None and self._columns.used:
            return False
        tombstones, filled = found or ([], None)
        if filled is not None and filled.ids:
            vectors = self._columns.vectors.copy()  # searches that are running have the other
            vectors[np.searchsorted(self._columns.rows[: self._columns.used], filled.rows)] = filled.vectors
            self._columns = replace(self._columns, vectors=vectors)
        batches = signals.read_rows_in_batches(self._database, self._row, state)
        new = [(self._add_chunks(batch.signals, state.chunks), batch.signals) for batch in batches]
        if new:
            self._postings = postings.extend_postings(
                self._postings,
                np.concatenate([batch.terms for _, batch in new]),
                np.concatenate([np.repeat(slots, batch.sizes) for slots, batch in new]),
                np.concatenate([batch.counts for _, batch in new]).astype(np.float32),
            )
        rows, gone = self._columns.rows[: self._columns.used], np.array([row for row, _ in tombstones], np.int64)
        slots = np.searchsorted(rows, gone)
        known = slots < len(rows)
        known[known] = rows[slots[known]] == gone[known]
        if known.any():  # what numpy makes sets with takes a while to import
            self._removed = np.union1d(self._removed, slots[known])
        for slot in slots[known].tolist():
            if self._slots.get(self._ids[slot]) == slot:  # else the chunk is in a new row
                del self._slots[self._ids[slot]]
        self._change, self._row = state.change, state.last
        return True

    def _add_chunks(self, batch: Signals, expected: int) -> NDArray[np.int32]:
        """Adds the chunks of a batch without their terms, and returns their slots."""
        old, first = self._columns, self._columns.used
        used = first + len(batch.ids)
        columns = old if used <= len(old.rows) else _grow_columns(old, max(used, expected))
        columns.vectors[first:used] = batch.vectors
        columns.rows[first:used] = batch.rows
        columns.messages[first:used] = batch.messages
        columns.seconds[first:used] = batch.seconds
        columns.lengths[first:used] = batch.lengths
        slots = np.arange(first, used, dtype=np.int32)
        for slot, facets in enumerate(batch.facets, first):
            for facet in facets:
                self._facets.setdefault(facet, array("i")).append(slot)
        self._ids.extend(batch.ids)
        self._slots.update(zip(batch.ids, range(first, used), strict=True))
        self._columns = replace(columns, used=used)
        return slots


def _to_rows(view: View, found: SlotScores) -> RowScores:
    rows = view.columns.rows[[slot for slot, _ in found]].tolist() if found else []
    return list(zip(rows, [score for _, score in found], strict=True))


def _grow_columns(old: ChunkColumns, min_size: int) -> ChunkColumns:
    room = min_size + max(256, min_size // 2)
    filled: tuple[NDArray[Any], ...] = (old.vectors, old.rows, old.messages, old.seconds, old.lengths)
    made = [np.empty((room, *was.shape[1:]), was.dtype) for was in filled]
    for new, was in zip(made, filled, strict=True):
        new[: old.used] = was[: old.used]
    return ChunkColumns(old.used, *made)
