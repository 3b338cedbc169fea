"""Searches in a version of a collection: by vectors and by words, in memory if it is small, else by scans of Lance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Depth
from clew.core.facets import Condition, expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25
from clew.drivers.store.backend import CHUNK, DOCUMENT, Head, RowScores, Select, select
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.indexes import VECTOR_INDEX, has_index
from clew.drivers.store.lance.schema import read_vector_column
from clew.drivers.store.lance.snapshot import LanceSnapshot, to_sql
from clew.drivers.store.order import SLACK, select_candidates
from clew.drivers.store.read import read_vectors_by_chunk_id
from clew.drivers.store.scan import SIGNALS, Signals, match_chunks, rank_nearest

MIN_CANDIDATES = 200  # that the approximate index gives, so that equal ones are ordered by id
DEFAULT_PROBES = 50  # partitions of the index that are searched
MAX_COUNTS = 100_000  # terms whose number of chunks is kept


class LanceIndex:
    """Searches of a collection; see `clew.drivers.store.backend.Index`.

    get_snapshot: Gives the collection at least as of a head.
    """

    def __init__(self, place: str, get_snapshot: Callable[[Head], LanceSnapshot]) -> None:
        self._place, self._get_snapshot = place, get_snapshot

    def nearest(
        self, head: Head, vector: Vector, k: int, where: Filter, *, is_exact: bool, breadth: int | None
    ) -> RowScores:
        """The k chunks of greatest cosine."""
        with translate_errors(self._place):
            found = _find_nearest(
                self._get_snapshot(head), vector, k, select(CHUNK, expand_filter(where)), is_exact, breadth
            )
        return [(each.row, each.score) for each in found]

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """The k documents whose own vector is nearest, with the cosine."""
        wanted = select(DOCUMENT, expand_document_filter(where))
        with translate_errors(self._place):
            return [(each.id, each.score) for each in _find_nearest(self._get_snapshot(head), vector, k, wanted)]

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """The k chunks of greatest BM25 score."""
        with translate_errors(self._place):
            return _search_terms(self._get_snapshot(head), terms, k, expand_filter(where))

    def match_terms(self, head: Head, terms: PackedTerms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the counts of the whole collection."""
        with translate_errors(self._place):
            snapshot = self._get_snapshot(head)
            return match_chunks(snapshot, terms, lambda: _count_having(snapshot, terms.hashes), chunk_ids)

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """How many chunks have each of the terms."""
        with translate_errors(self._place):
            counts = _count_having(self._get_snapshot(head), hashes)
        return counts if at_most is None else [min(count, at_most) for count in counts]

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist."""
        with translate_errors(self._place):
            return read_vectors_by_chunk_id(self._get_snapshot(head), chunk_ids)

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> None:
        """None: searches are better made in parallel."""

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> None:
        """None: it takes a search by vectors, and one by words."""


class _Scored(NamedTuple):
    row: int
    id: str
    score: float


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows with their vectors, each an entry of every list."""

    rows: list[int]
    ids: list[str]
    vectors: NDArray[np.float32]

    def keep(self, vector: Vector, k: int) -> "_Found":
        """Those that may be among the k nearest."""
        places = select_candidates(self.vectors @ vector, k, SLACK).tolist()
        rows, ids = ([each[place] for place in places] for each in (self.rows, self.ids))
        return _Found(rows, ids, self.vectors[places])


def _find_nearest(
    snapshot: LanceSnapshot,
    vector: Vector,
    k: int,
    wanted: Select,
    is_exact: bool = False,
    breadth: int | None = None,
) -> list[_Scored]:
    """The k rows among those that are meant of greatest cosine, best first."""
    if wanted.is_empty:
        return []
    if snapshot.segments is not None:
        found = _collect_vectors(snapshot, wanted)
    elif not is_exact and has_index(snapshot.dataset, VECTOR_INDEX):
        found = _search_index(snapshot, vector, max(4 * k, breadth or 0, MIN_CANDIDATES), wanted)
    else:
        found = _scan_vectors(snapshot, vector, k, wanted)
    if not found.rows:
        return []
    best = rank_nearest(found.ids, found.vectors, vector, k)
    return [_Scored(found.rows[at], found.ids[at], score) for at, score in best]


def _collect_vectors(snapshot: LanceSnapshot, wanted: Select) -> _Found:
    rows, ids, parts = list[int](), list[str](), [np.zeros((0, snapshot.head.dim), np.float32)]
    for segment in (snapshot.segments or {}).values():
        if wanted.kind == CHUNK and not wanted.is_filtered:
            own_rows, own_ids, matrix = segment.vectors
            rows += own_rows
            ids += own_ids
            parts.append(matrix)
            continue
        found = [row for row in segment.find(wanted) if row["vector"] is not None]
        rows += [row["row"] for row in found]
        ids += [row["id"] for row in found]
        parts += [row["vector"][None] for row in found]
    return _Found(rows, ids, np.concatenate(parts))


def _search_index(snapshot: LanceSnapshot, vector: Vector, candidates: int, wanted: Select) -> _Found:
    """The nearest by the index of Lance, with their exact vectors; rows that it does not cover yet are searched too."""
    table = snapshot.dataset.to_table(
        columns=["row", "doc", "id", "vector", "_distance"],
        filter=to_sql(wanted),
        prefilter=True,
        nearest={"column": "vector", "q": vector, "k": candidates, "nprobes": DEFAULT_PROBES, "refine_factor": 2},
    )
    return _read_found(snapshot, table)


def _read_found(snapshot: LanceSnapshot, table: Any) -> _Found:
    rows, docs, ids = (table[name].to_pylist() for name in ("row", "doc", "id"))
    snapshot.note_owners(rows, docs)
    return _Found(rows, ids, read_vector_column(table["vector"], snapshot.head.dim))


def _scan_vectors(snapshot: LanceSnapshot, vector: Vector, k: int, wanted: Select) -> _Found:
    """All rows that may be among the k nearest, of every one that is meant."""
    found = _Found([], [], np.zeros((0, snapshot.head.dim), np.float32))
    sql = f"{to_sql(wanted)} AND vector IS NOT NULL"
    for batch in snapshot.dataset.to_batches(columns=["row", "doc", "id", "vector"], filter=sql):
        more = _read_found(snapshot, batch)
        vectors = np.concatenate([found.vectors, more.vectors])
        found = _Found(found.rows + more.rows, found.ids + more.ids, vectors)
        if len(found.rows) > 4 * k:
            found = found.keep(vector, k)
    return found


def _search_terms(
    snapshot: LanceSnapshot, query: PackedTerms, k: int, alternatives: Sequence[Condition]
) -> list[tuple[int, float]]:
    """The k chunks of greatest BM25 score, best first, ties by id."""
    wanted = select(CHUNK, alternatives)
    if wanted.is_empty:
        return []
    parts = [(signals, signals.find_terms(query.hashes)) for signals in _read_signals(snapshot, query.hashes)]
    having = np.sum([[len(places) for places, _ in found] for _, found in parts] or [[0] * len(query.hashes)], axis=0)
    _keep_counts(snapshot, dict(zip(query.hashes.tolist(), having.tolist(), strict=True)))
    weights = bm25.weigh_terms(query.counts, having.tolist(), snapshot.head.chunks)
    admitted = _find_admitted(snapshot, query.hashes, wanted) if wanted.is_filtered else None
    scored = list[_Scored]()
    for signals, found in parts:
        own = signals.score(found, weights, snapshot.head.average_length)
        if admitted is not None:
            own[~np.isin(signals.rows, admitted)] = 0.0
        places = np.flatnonzero(own)
        places = places[select_candidates(own[places], k, 0.0)]
        snapshot.note_owners(signals.rows[places].tolist(), signals.docs[places].tolist())
        scored += [_Scored(int(signals.rows[at]), str(signals.ids[at]), float(own[at])) for at in places.tolist()]
    best = sorted(scored, key=lambda each: (-each.score, each.id))[:k]
    return [(each.row, each.score) for each in best]


def _count_having(snapshot: LanceSnapshot, hashes: Hashes) -> list[int]:
    """In how many chunks each term is."""
    if snapshot.segments is not None:
        signals = [segment.signals for segment in snapshot.segments.values()]
        return [sum(int(np.count_nonzero(each.hashes == term)) for each in signals) for term in hashes]
    known = {each: snapshot.having.get(each) for each in hashes.tolist()}
    counts = {
        each: snapshot.dataset.count_rows(_having_any([each])) if count is None else count
        for each, count in known.items()
    }
    _keep_counts(snapshot, counts)
    return [counts[each] for each in hashes.tolist()]


def _keep_counts(snapshot: LanceSnapshot, counted: Mapping[int, int]) -> None:
    """Keeps in how many chunks terms are: a search and what follows it ask for the same."""
    if len(snapshot.having) > MAX_COUNTS:
        snapshot.having.clear()
    snapshot.having.update(counted)


def _having_any(hashes: Sequence[int]) -> str:
    return f"kind = {CHUNK} AND array_has_any(terms, [{', '.join(map(str, hashes))}])"


def _read_signals(snapshot: LanceSnapshot, hashes: Hashes) -> Iterator[Signals]:
    """The signals of all chunks that have any of the terms, and perhaps of others."""
    if snapshot.segments is not None:
        yield from (segment.signals for segment in snapshot.segments.values())
        return
    for batch in snapshot.dataset.to_batches(columns=list(SIGNALS), filter=_having_any(hashes.tolist())):
        sizes = batch["terms"].value_lengths().to_numpy(zero_copy_only=False)
        yield Signals(
            batch["row"].to_numpy(),
            batch["doc"].to_numpy(),
            batch["id"],
            batch["length"].to_numpy().astype(np.float64),
            batch["terms"].flatten().to_numpy(zero_copy_only=False),
            batch["counts"].flatten().to_numpy(zero_copy_only=False),
            np.repeat(np.arange(len(sizes)), sizes),
        )


def _find_admitted(snapshot: LanceSnapshot, hashes: Hashes, wanted: Select) -> NDArray[np.int64]:
    """The rows of the chunks that a filter admits, among those that have any of the terms."""
    if snapshot.segments is not None:
        return np.array([row["row"] for row in snapshot.find(wanted, ())], np.int64)
    sql = f"{to_sql(wanted)} AND {_having_any(hashes.tolist())}"
    return np.asarray(snapshot.dataset.to_table(columns=["row"], filter=sql)["row"].to_numpy(), np.int64)
