"""The exact index: every vector and posting in memory, every search exact."""

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Depth
from clew.core.cosine import compute_cosines
from clew.core.facets import Condition, expand_filter
from clew.core.filter import EVERYTHING, Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.backend import Head, RowCandidates, RowScores
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.sqlite import signals
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.signals import Rows, Signals

MAX_FILTERS = 16  # whose slots are kept for the next search
GATHER_SHARE = 4  # a filter that admits fewer than one chunk in this many is searched by gathering its rows
MAX_UNSORTED = 32_768  # each word of a query scans the unsorted part: 8 microseconds for this many
SORTED_SHARE = 8  # the unsorted part may grow to this fraction of the sorted one
Slots = NDArray[np.int32]
SlotScores = list[tuple[int, float]]  # slots and their scores, best first


@dataclass(frozen=True, slots=True)
class Postings:
    """Word, chunk and count as three columns; the first `sorted_size` entries are sorted by word, `used` are filled."""

    words: Hashes
    slots: Slots
    counts: NDArray[np.float32]
    sorted_size: int
    used: int


NO_POSTINGS = Postings(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0, 0)


@dataclass(frozen=True, slots=True)
class ChunkColumns:
    """What is known of the chunks, one slot each; the first `used` are filled."""

    used: int
    vectors: Matrix
    rows: Rows
    messages: NDArray[np.bool_]
    seconds: Floats
    lengths: Floats


@dataclass(frozen=True, slots=True)
class View:
    """The index at one moment, and the slots that a filter admits in it (None: all but the removed ones)."""

    columns: ChunkColumns
    ids: list[str]
    postings: Postings
    removed: NDArray[np.intp]
    admitted: NDArray[np.intp] | None


@dataclass(frozen=True, slots=True)
class QueryPostings:
    """The chunks that have the terms of a query, one term after the other, with the weight of the term and its score.

    The scores of a chunk add up to BM25; `total` is the weight of all terms.
    """

    slots: Slots
    weights: Floats
    scores: Floats
    total: float


@dataclass(frozen=True, slots=True)
class FoundNearest:
    """The k nearest rows at a change, kept for a search that asks for no more of them next."""

    change: int
    k: int
    where: Filter
    rows: RowScores


class ExactIndex:
    """Follows a database in memory. Several threads may search while one follows."""

    name = "exact, in memory"
    _last: dict[bytes, FoundNearest]  # of the last search by vector, by the bytes of it
    _norms: tuple[ChunkColumns, float, Floats]  # the normalised lengths, and what they were computed from
    _admitted: dict[tuple[Condition, ...], NDArray[np.intp]]  # the slots of filters, since the last change
    _ahead: dict[bytes, FoundNearest]  # of vectors that are searched next

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

    def nearest(
        self, head: Head, vector: Vector, k: int, where: Filter, *, is_exact: bool = True, breadth: int | None = None
    ) -> RowScores:
        """The k rows of greatest cosine; always exact. What judges the hits of a search asks the same for fewer."""
        change, key = self._change, vector.tobytes()
        for known in (self._last.get(key), self._ahead.get(key)):
            if known and known.change == change and known.k >= k and known.where == where:
                return known.rows[:k]
        view = self._take_view(where)
        found = _to_rows(view, find_nearest(view, vector, k))
        self._last = {key: FoundNearest(change, k, where, found)}
        return found

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> list[int]:
        """Compares vectors that are searched next with all chunks, as one product of matrices."""
        change, view, ahead = self._change, self._take_view(where), dict[bytes, FoundNearest]()
        for vector, scores in zip(vectors, vectors @ view.columns.vectors[: view.columns.used].T, strict=True):
            found = _to_rows(view, find_nearest(view, vector, k, scores))
            ahead[vector.tobytes()] = FoundNearest(change, k, where, found)
        self._ahead = ahead
        return [row for each in ahead.values() for row, _ in each.rows]

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """The k rows of greatest BM25 score, with the collection's counts as of a head."""
        view = self._take_view(where)
        (words,) = self._find_words(view, [terms], head)
        return _to_rows(view, find_matching(view, words, k))

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> list[RowCandidates]:
        """The candidates of each query; always exact."""
        view = self._take_view(where)
        return find_candidates(view, vectors, self._find_words(view, terms, head), near, matching)

    def _find_words(self, view: View, terms: Sequence[PackedTerms], head: Head) -> list[QueryPostings]:
        return find_query_postings(view, terms, head.chunks, self._norm_lengths(view.columns, head.average_length))

    def _norm_lengths(self, columns: ChunkColumns, average: float) -> Floats:
        """The length normalisation of every chunk, kept for the next search."""
        of, at, norms = self._norms
        if of is not columns or at != average:
            norms = bm25.length_norm(columns.lengths[: columns.used], average)
            self._norms = columns, average, norms
        return norms

    def match_terms(self, head: Head, terms: PackedTerms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the collection's counts as of a head."""
        with self._lock:
            view = self._take_view(EVERYTHING)
            known = {each: slot for each in chunk_ids if (slot := self._slots.get(each)) is not None}
        slots = np.array(list(known.values()), np.int32)
        found = find_postings(view.postings, terms.hashes)
        weights = bm25.weigh_terms(terms.counts, count_having(view, found), head.chunks)
        norms = self._norm_lengths(view.columns, head.average_length)[slots]
        return bm25.match_terms(list(known), weights, look_up_counts(found, slots), norms)

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector] | None:
        """The vectors of those of the chunks that exist; None if this is not the index of that head."""
        with self._lock:
            if self._change != head.change:
                return None
            slots = {each: slot for each in chunk_ids if (slot := self._slots.get(each)) is not None}
            found = self._columns.vectors[list(slots.values())] if slots else ()
            return {each: vector for each, vector in zip(slots, found, strict=True) if not np.isnan(vector[0])}

    def count_having(self, hashes: Hashes) -> list[int]:
        """How many chunks have each of the words."""
        view = self._take_view(EVERYTHING)
        return count_having(view, find_postings(view.postings, hashes))

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
        self._postings = NO_POSTINGS
        self._removed = np.empty(0, np.intp)
        self._admitted = {}
        self._norms = (self._columns, 0.0, empty)
        self._last, self._ahead = {}, {}

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
            self._postings = extend_postings(
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


def find_query_postings(view: View, queries: Sequence[PackedTerms], chunks: int, norms: Floats) -> list[QueryPostings]:
    """The postings of each query in a collection of so many chunks; `norms` are the normalised lengths of all."""
    found = find_postings(view.postings, np.concatenate([each.hashes for each in queries]))
    made, end = [], 0
    for each in queries:
        start, end = end, end + len(each.hashes)
        own = found[start:end]
        weights = bm25.weigh_terms(each.counts, count_having(view, own), chunks)
        slots = np.concatenate([slots for slots, _ in own]) if own else view.postings.slots[:0]
        counts = np.concatenate([counts for _, counts in own]) if own else view.postings.counts[:0]
        of_posting = np.repeat(weights, [len(slots) for slots, _ in own])
        scores = of_posting * bm25.saturate(counts, norms[slots])
        made.append(QueryPostings(slots, of_posting, scores, weights.sum() or 1.0))
    return made


def count_having(view: View, found: Sequence[tuple[Slots, NDArray[np.float32]]]) -> list[int]:
    """How many chunks have each word whose postings were found, without the removed ones."""
    if not len(view.removed):
        return [len(slots) for slots, _ in found]
    exists = np.ones(view.columns.used, bool)
    exists[view.removed] = False
    return [int(np.count_nonzero(exists[slots])) for slots, _ in found]


def find_nearest(view: View, vector: Vector, k: int, all_scores: Vector | None = None) -> SlotScores:
    """The k slots of greatest cosine; `all_scores` are those of all slots, roughly, if they are known."""
    vectors, slots = view.columns.vectors[: view.columns.used], view.admitted
    if slots is not None and all_scores is None and len(slots) * GATHER_SHARE < len(vectors):
        scores = vectors[slots] @ vector
    else:
        scores = vectors @ vector if all_scores is None else all_scores
        if slots is None:
            scores[view.removed] = -np.inf
        else:
            scores = scores[slots]
    scores = np.where(np.isnan(scores), -np.inf, scores)  # a vector that is still to be made
    top = order.select_candidates(scores, k, order.SLACK)
    top = top[scores[top] > -np.inf]
    chosen = top if slots is None else slots[top]
    return _top_k(view, chosen, compute_cosines(vectors[chosen], vector), k)


def find_matching(view: View, found: QueryPostings, k: int) -> SlotScores:
    """The k slots of greatest BM25 score, of those that have a term."""
    used, slots = view.columns.used, view.admitted
    scores = np.bincount(found.slots, found.scores, minlength=used).astype(np.float64, copy=False)
    scores[view.removed] = 0.0
    if slots is not None:
        admitted = np.zeros(used)
        admitted[slots] = scores[slots]
        scores = admitted
    matching = np.flatnonzero(scores)
    top = matching[order.select_candidates(scores[matching], k, 10.0**-bm25.DIGITS)]
    return _top_k(view, top, scores[top].round(bm25.DIGITS), k)


def find_candidates(
    view: View, vectors: Matrix, queries: Sequence[QueryPostings], near: Depth, matching: Depth
) -> list[RowCandidates]:
    """The candidates of each query; the vectors of several are compared as one product of matrices."""
    every = view.columns.vectors[: view.columns.used]
    products = vectors @ every.T if len(vectors) > 1 else [None] * len(vectors)
    found = []
    for vector, scores, words in zip(vectors, products, queries, strict=True):
        nearest = find_nearest(view, vector, near.found, scores)[: near.kept]
        places = {slot: place for place, (slot, _) in enumerate(nearest)}
        by_words = {}
        for slot, score in find_matching(view, words, matching.found)[: matching.kept]:
            by_words[places.setdefault(slot, len(places))] = score
        slots = np.array(list(places), np.intp)
        cosines = np.empty(len(slots))
        cosines[: len(nearest)] = [cosine for _, cosine in nearest]
        cosines[len(nearest) :] = compute_cosines(every[slots[len(nearest) :]], vector)
        shares, strengths = _measure_slots(view, words, slots)
        rows: list[int] = view.columns.rows[slots].tolist()
        ids, has_messages = [view.ids[slot] for slot in places], bool(view.columns.messages[slots].any())
        found.append(RowCandidates(rows, ids, has_messages, len(nearest), by_words, cosines, shares, strengths))
    return found


def _measure_slots(view: View, words: QueryPostings, slots: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """The share and the strength of the chunks in some slots, as `bm25.measure_terms`."""
    place_of_slot = np.full(view.columns.used, -1, np.int32)
    place_of_slot[slots] = np.arange(len(slots), dtype=np.int32)
    places = place_of_slot[words.slots]
    at = np.flatnonzero(places >= 0)
    places = places[at]
    shares = np.bincount(places, words.weights[at], minlength=len(slots)) / words.total
    strengths = np.bincount(places, words.scores[at], minlength=len(slots)) / words.total
    return shares.round(bm25.DIGITS), strengths.round(bm25.DIGITS)


def _top_k(view: View, slots: NDArray[np.intp], scores: Floats, k: int) -> SlotScores:
    chosen = slots.tolist()
    return order.top_k(chosen, [view.ids[slot] for slot in chosen], scores, k)


def extend_postings(postings: Postings, words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> Postings:
    """The postings with more entries.

    Spare room behind the used entries is filled in place, so that adding one chunk does not copy all; an older value
    of these postings never sees it.
    """
    used = postings.used + len(words)
    if used - postings.sorted_size > max(MAX_UNSORTED, postings.sorted_size // SORTED_SHARE):
        return _sort_postings(
            np.concatenate([postings.words[: postings.used], words]),
            np.concatenate([postings.slots[: postings.used], slots]),
            np.concatenate([postings.counts[: postings.used], counts]),
        )
    if used > len(postings.words):
        postings = _grow_postings(postings, used)
    new = ((postings.words, words), (postings.slots, slots), (postings.counts, counts))
    for column, more in new:
        column[postings.used : used] = more
    return Postings(postings.words, postings.slots, postings.counts, postings.sorted_size, used)


def find_postings(postings: Postings, words: Hashes) -> list[tuple[Slots, NDArray[np.float32]]]:
    """For each word the slots of the chunks that have it, each once and in order, with its counts in them."""
    in_order = postings.words[: postings.sorted_size]
    firsts, ends = in_order.searchsorted(words).tolist(), in_order.searchsorted(words, side="right").tolist()
    found = [(postings.slots[a:z], postings.counts[a:z]) for a, z in zip(firsts, ends, strict=True)]
    if postings.used == postings.sorted_size:
        return found
    tail = slice(postings.sorted_size, postings.used)
    tail_words, tail_slots, tail_counts = postings.words[tail], postings.slots[tail], postings.counts[tail]
    more = [np.flatnonzero(tail_words == word) for word in words]
    return [
        (np.concatenate([slots, tail_slots[at]]), np.concatenate([counts, tail_counts[at]]))
        if len(at)
        else (slots, counts)
        for (slots, counts), at in zip(found, more, strict=True)
    ]


def look_up_counts(found: Sequence[tuple[Slots, NDArray[np.float32]]], slots: Slots) -> NDArray[np.float32]:
    """The count of each word that `find_postings` found (a row) in the chunk of each slot (a column)."""
    table = np.zeros((len(found), len(slots)), np.float32)
    for row, (having, counts) in zip(table, found, strict=True):
        if len(having):
            at = np.minimum(having.searchsorted(slots), len(having) - 1)
            np.copyto(row, counts[at], where=having[at] == slots)
    return table


def _sort_postings(words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> Postings:
    order = np.argsort(words, kind="stable")
    return Postings(words[order], slots[order], counts[order], len(words), len(words))


def _grow_postings(postings: Postings, used: int) -> Postings:
    room = used + max(1024, used // 8)
    words, slots, counts = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.float32)
    for new, old in ((words, postings.words), (slots, postings.slots), (counts, postings.counts)):
        new[: postings.used] = old[: postings.used]
    return Postings(words, slots, counts, postings.sorted_size, postings.used)


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
