"""The exact index: all vectors and postings in memory, every search exact."""

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Gone
from clew.core.facets import Condition, expand_filter
from clew.core.filter import Filter
from clew.core.lru import LRUCache
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, Vector
from clew.drivers.store import bm25, scan
from clew.drivers.store.backend import Effort, Head, Queries, RowCandidates, RowScores
from clew.drivers.store.bm25 import Floats, TermPlaces, TermScores
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.scan import compute_cosines, join_rankings, rank_nearest
from clew.drivers.store.sqlite import signals
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.signals import ChunkSignals

MAX_KEPT = 16  # groups of facets whose slots are cached
GATHER_SHARE = 4  # gather the rows of a filter first if it admits fewer than one chunk in this many
MAX_UNSORTED = 32_768  # each word of a query scans the unsorted part: 8 microseconds for this many
SORTED_SHARE = 8  # the unsorted part may grow to one in this many of the sorted one
Slots = NDArray[np.int32]
SlotScores = list[tuple[int, float]]  # slots and their scores, best first


@dataclass(frozen=True, slots=True)
class Postings:
    """Words, slots and counts as columns; the first `sorted_size` entries are sorted by word, `used` are filled."""

    words: Hashes
    slots: Slots
    counts: NDArray[np.float32]
    sorted_size: int = 0
    used: int = 0

    def extend(self, words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> "Postings":
        """Return the postings with more entries, which the old value never sees."""
        pairs = ((self.words, words), (self.slots, slots), (self.counts, counts))
        used = self.used + len(words)
        if used - self.sorted_size <= max(MAX_UNSORTED, self.sorted_size // SORTED_SHARE):
            words, slots, counts = (append(old, self.used, new, 8) for old, new in pairs)
            return Postings(words, slots, counts, self.sorted_size, used)
        words, slots, counts = (np.concatenate([old[: self.used], new]) for old, new in pairs)
        by_word = words.argsort(kind="stable")
        return Postings(words[by_word], slots[by_word], counts[by_word], used, used)

    def find(self, words: Hashes) -> TermPlaces:
        """Return, for each word, the slots of the chunks that have it, in order, and its counts."""
        in_order = self.words[: self.sorted_size]
        firsts, ends = in_order.searchsorted(words).tolist(), in_order.searchsorted(words, side="right").tolist()
        found = [(self.slots[a:z], self.counts[a:z]) for a, z in zip(firsts, ends, strict=True)]
        tail = slice(self.sorted_size, self.used)
        tail_words, tail_slots, tail_counts = self.words[tail], self.slots[tail], self.counts[tail]
        for at, word in enumerate(words if len(tail_words) else ()):
            if len(more := np.flatnonzero(tail_words == word)):
                slots, counts = found[at]
                found[at] = np.concatenate([slots, tail_slots[more]]), np.concatenate([counts, tail_counts[more]])
        return found


NO_POSTINGS = Postings(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def append(column: NDArray[Any], used: int, more: NDArray[Any], share: int, expected: int = 0) -> NDArray[Any]:
    """Return a column with more entries behind the used ones; copy it only if it is full, with 1/`share` to spare."""
    end = used + len(more)
    if end > len(column):
        size = max(end, expected)
        grown = np.empty((size + max(256, size // share), *column.shape[1:]), column.dtype)
        grown[:used] = column[:used]
        column = grown
    column[used:end] = more
    return column


@dataclass(frozen=True, slots=True)
class View:
    """The chunks at one moment, each in a slot; the first `used` slots are filled. Later views share their content."""

    used: int
    vectors: Matrix
    rows: NDArray[np.int64]
    messages: NDArray[np.bool_]
    seconds: Floats
    lengths: Floats
    ids: list[str]
    slots: dict[str, int]  # of the existing chunks, by id
    facets: dict[str, "array[int]"]  # for each facet, the slots of the chunks that have it
    change: int = -1  # of the database
    row: int = 0  # the last row of the database in the view
    postings: Postings = NO_POSTINGS
    removed: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    # cached: whether each slot has a facet of a group, and the length normalisations for an average
    kept: LRUCache[NDArray[Any]] = field(default_factory=lambda: LRUCache(MAX_KEPT))
    is_whole: bool = True  # False if a chunk was removed from the database before it was read

    def admit(self, where: Filter) -> NDArray[np.intp] | None:
        """Return the slots that a filter admits; None for all but the removed ones."""
        alternatives = expand_filter(where)
        if any(each.is_empty for each in alternatives):
            return None
        admitted = np.zeros(self.used, bool)
        for each in alternatives:
            admitted |= self._mark_admitted(each)
        admitted[self.removed] = False
        return np.flatnonzero(admitted)

    def _mark_admitted(self, condition: Condition) -> NDArray[np.bool_]:
        admitted, at = np.ones(self.used, bool), self.seconds[: self.used]
        for group in condition.groups:
            admitted &= self._mark_having(group)
        if condition.since is not None:
            admitted &= at >= condition.since
        if condition.until is not None:
            admitted &= at < condition.until
        return admitted

    def _mark_having(self, group: frozenset[str]) -> NDArray[np.bool_]:
        having = self.kept.get(group)
        if having is None:
            found = array("i")
            for facet in group:
                found.extend(self.facets.get(facet, ()))
            slots, having = np.array(found, np.int32), np.zeros(self.used, bool)
            having[slots[slots < self.used]] = True  # ignore slots added meanwhile
            self.kept.put(group, having)
        return having

    def find_nearest(
        self, vector: Vector, k: int, slots: NDArray[np.intp] | None, all_scores: Vector | None = None
    ) -> SlotScores:
        """Return the k admitted slots with the highest cosine; `all_scores` are the cosines of all slots, if known."""
        vectors = self.vectors[: self.used]
        if slots is not None and all_scores is None and len(slots) * GATHER_SHARE < len(vectors):
            scores = vectors[slots] @ vector
        else:
            scores = vectors @ vector if all_scores is None else all_scores
            if slots is None:
                scores[self.removed] = -np.inf
            else:
                scores = scores[slots]
        scores = np.where(np.isnan(scores), -np.inf, scores)  # pending vectors
        return rank_nearest(self.ids, vectors, vector, k, scores, slots)

    def find_matching(self, scores: Floats, k: int, slots: NDArray[np.intp] | None) -> SlotScores:
        """Return the k admitted slots with the highest BM25 score with at least one term."""
        places = np.flatnonzero(scores) if slots is None else slots[np.flatnonzero(scores[slots])]
        top = places[scan.select_candidates(scores[places], k, 10.0**-bm25.DIGITS)]
        ids = [self.ids[slot] for slot in top.tolist()]
        return scan.top_k(top.tolist(), ids, scores[top].round(bm25.DIGITS), k)

    def sum_by_chunk(self, found: TermScores) -> Floats:
        """Return the BM25 score of each slot, 0 for removed ones."""
        scores = found.sum_by_chunk(self.used)
        scores[self.removed] = 0.0
        return scores

    def count_having(self, found: TermPlaces) -> list[int]:
        """Return the number of chunks with each found term, without the removed ones."""
        if not len(self.removed):
            return [len(slots) for slots, _ in found]
        exists = np.ones(self.used, bool)
        exists[self.removed] = False
        return [int(np.count_nonzero(exists[slots])) for slots, _ in found]

    def score_terms(self, head: Head, queries: Sequence[PackedTerms]) -> list[TermScores]:
        """Score the terms of each query, with the collection counts of a head."""
        average = head.average_length
        norms = self.kept.get(average)
        if norms is None:
            norms = bm25.length_norm(self.lengths[: self.used], average)
            self.kept.put(average, norms)
        found = self.postings.find(np.concatenate([each.hashes for each in queries]))
        scored, end = [], 0
        for each in queries:
            start, end = end, end + len(each.hashes)
            weights = bm25.weigh_terms(each.counts, self.count_having(found[start:end]), head.chunks)
            scored.append(bm25.score_terms(found[start:end], weights, norms))
        return scored

    def find_slots(self, chunk_ids: Sequence[str]) -> dict[str, int]:
        """Return the slots of the existing chunks."""
        return {each: slot for each in chunk_ids if (slot := self.slots.get(each, self.used)) < self.used}

    def to_rows(self, found: SlotScores) -> RowScores:
        """Return the rows of slots."""
        rows = self.rows[[slot for slot, _ in found]].tolist() if found else []
        return list(zip(rows, [score for _, score in found], strict=True))


class ExactIndex:
    """An in-memory index that follows a database. Several threads may search while one applies changes."""

    name = "exact, in memory"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.RLock()
        self._view = self._make_empty_view()
        self._is_torn = False  # a catch-up failed and may have changed data that views share

    def _make_empty_view(self) -> View:
        vectors, floats = np.empty((0, self._database.dim), np.float32), np.empty(0, np.float64)
        return View(0, vectors, np.empty(0, np.int64), np.empty(0, bool), floats, floats, [], {}, {})

    # -- searches; each reads self._view only once

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k rows with the highest cosine; always exact."""
        view = self._get_whole_view()
        return view.to_rows(view.find_nearest(vector, k, view.admit(where)))

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k rows with the highest BM25 score, with the collection's counts as of a head."""
        view = self._get_whole_view()
        (scored,) = view.score_terms(head, [terms])
        return view.to_rows(view.find_matching(view.sum_by_chunk(scored), k, view.admit(where)))

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find the candidates of each query, comparing all vectors in one matrix product."""
        vectors, terms, rankings, chunk_ids, _ = queries
        with self._lock:
            view = self._get_whole_view()
            given = list(view.find_slots(chunk_ids).values())
        every, found = view.vectors[: view.used], []
        admitted = [view.admit(each.where) for each in rankings]
        is_wide = any(slots is None or len(slots) * GATHER_SHARE >= view.used for slots in admitted)
        products = vectors @ every.T if is_wide else [None] * len(vectors)
        for vector, scores, scored in zip(vectors, products, view.score_terms(head, terms), strict=True):
            summed, asked = view.sum_by_chunk(scored), list(zip(rankings, admitted, strict=True))
            near = [view.find_nearest(vector, each.near, slots, scores) for each, slots in asked]
            matching = [view.find_matching(summed, each.matching, slots) for each, slots in asked]
            joined = join_rankings(near, matching, given)
            slots = np.array(joined.rows, np.intp)
            found.append(
                RowCandidates(
                    view.rows[slots].tolist(),
                    [view.ids[slot] for slot in joined.rows],
                    view.messages[slots],
                    *joined[1:],
                    compute_cosines(every[slots], vector),
                    *scored.measure(view.used, slots),
                )
            )
        return found

    def _get_whole_view(self) -> View:
        """Return the view to search; Gone if it lacks chunks that were removed before they were read."""
        view = self._view
        if not view.is_whole:
            raise Gone("a row that was removed while it was followed")
        return view

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector] | None:
        """Return the vectors of the existing chunks; None if the index is not at this head."""
        with self._lock:
            view, known = self._view, self._view.find_slots(chunk_ids)
            if view.change != head.change:
                return None
            found = view.vectors[list(known.values())] if known else ()
        return {each: vector for each, vector in zip(known, found, strict=True) if not np.isnan(vector[0])}

    def count_having(self, hashes: Hashes) -> list[int]:
        """Count, for each word, the chunks that have it."""
        view = self._view
        return view.count_having(view.postings.find(hashes))

    # -- following

    def catch_up(self, state: CollectionState) -> None:
        """Apply every change of the database up to a state."""
        with self._lock:
            was_torn, self._is_torn = self._is_torn, self._is_torn or self._view.change < state.change
            if not self._is_torn:
                return
            view = None if was_torn else self._apply_changes(self._view, state)
            if view is None or len(view.removed) > max(1024, view.used // 4):
                view = self._apply_changes(self._make_empty_view(), state)
            assert view
            is_whole = view.used - len(view.removed) == state.chunks
            if not is_whole and self._database.read_state().change == state.change:
                raise damaged_error("the table of the vectors and terms")
            self._view, self._is_torn = replace(view, is_whole=is_whole), False

    def _apply_changes(self, view: View, state: CollectionState) -> View | None:
        """Add and remove chunks up to a state; None if necessary tombstones have been pruned."""
        gone = np.empty(0, np.int64)
        if view.used:
            found = signals.read_tombstones(self._database, view.change, view.row, state)
            if found is None:
                return None
            tombstones, filled = found
            gone = np.array([row for row, _ in tombstones], np.int64)
            if filled.facets:
                vectors = view.vectors.copy()  # running searches keep the old one
                vectors[np.searchsorted(view.rows[: view.used], filled.terms.rows)] = filled.vectors
                view = replace(view, vectors=vectors)
        parts = []
        for _, batch, _ in signals.read_rows_in_batches(self._database, view.row, state):
            owners = (batch.terms.owners + view.used).astype(np.int32)
            parts.append((batch.terms.hashes, owners, batch.terms.counts.astype(np.float32)))
            view = _add_chunks(view, batch, state.chunks)
        if parts:
            words, slots, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
            view = replace(view, postings=view.postings.extend(words, slots, counts))
        removed = _remove_rows(view, gone)
        return replace(view, removed=removed, kept=LRUCache(MAX_KEPT), change=state.change, row=state.last)


def _add_chunks(view: View, batch: ChunkSignals, expected: int) -> View:
    """Add the chunks of a batch, without their terms."""
    first, used, terms = view.used, view.used + len(batch.facets), batch.terms
    for slot, facets in enumerate(batch.facets, first):
        for facet in facets:
            view.facets.setdefault(facet, array("i")).append(slot)
    view.ids.extend(terms.ids)
    view.slots.update(zip(terms.ids, range(first, used), strict=True))
    add = partial(append, used=first, share=2, expected=expected)
    return replace(
        view,
        used=used,
        vectors=add(view.vectors, more=batch.vectors),
        rows=add(view.rows, more=terms.rows),
        messages=add(view.messages, more=batch.messages),
        seconds=add(view.seconds, more=batch.seconds),
        lengths=add(view.lengths, more=terms.lengths),
    )


def _remove_rows(view: View, gone: NDArray[np.int64]) -> NDArray[np.intp]:
    """Forget the ids of removed rows; return the slots of all removed chunks."""
    rows = view.rows[: view.used]
    slots = np.searchsorted(rows, gone)
    known = slots < len(rows)
    known[known] = rows[slots[known]] == gone[known]
    for slot in slots[known].tolist():
        if view.slots.get(view.ids[slot]) == slot:  # else the chunk is in a new row
            del view.slots[view.ids[slot]]
    # only if necessary: numpy's set functions are slow to import
    return np.union1d(view.removed, slots[known]) if known.any() else view.removed
