"""Searches in a version of a collection by vectors and words: in memory if it is small, else with scans of Lance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Vector
from clew.drivers.store.backend import CHUNK, DOCUMENT, USUAL, Effort, Head, RowScores, Select, select
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.indexes import VECTOR_INDEX, has_index
from clew.drivers.store.lance.schema import read_vector_column
from clew.drivers.store.lance.snapshot import LanceSnapshot, to_sql
from clew.drivers.store.scan import SIGNALS, SLACK, ScanIndex, Signals, rank_matching, rank_nearest, select_candidates

MIN_CANDIDATES = 200  # from the approximate index, so that ties are ordered by id
DEFAULT_PROBES = 50  # partitions of the index to search
MAX_COUNTS = 100_000  # terms with cached document frequencies


class LanceIndex(ScanIndex):
    """Searches of a collection; see `clew.drivers.store.backend.Index`.

    get_snapshot: Returns a snapshot that is at least as new as a head.
    """

    def __init__(self, place: str, get_snapshot: Callable[[Head], LanceSnapshot]) -> None:
        super().__init__(self._open)
        self._place, self._get_snapshot = place, get_snapshot

    @contextmanager
    def _open(self, head: Head) -> Iterator[LanceSnapshot]:
        with translate_errors(self._place):
            yield self._get_snapshot(head)

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k chunks with the highest cosine."""
        wanted = select(CHUNK, expand_filter(where))
        with self._open(head) as snapshot:
            found, best = _find_nearest(snapshot, vector, k, wanted, effort)
        return [(found.rows[at], score) for at, score in best]

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """Find the k documents with the nearest summary vector, and the cosines."""
        with self._open(head) as snapshot:
            found, best = _find_nearest(snapshot, vector, k, select(DOCUMENT, expand_document_filter(where)))
        return [(found.ids[at], score) for at, score in best]

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k chunks with the highest BM25 score."""
        wanted, hashes = select(CHUNK, expand_filter(where)), terms.hashes
        if wanted.is_empty:
            return []
        with self._open(head) as snapshot:
            admitted = _find_admitted(snapshot, hashes, wanted) if wanted.is_filtered else None
            having, best = rank_matching(snapshot.head, terms, k, _read_signals(snapshot, hashes), admitted)
            _keep_counts(snapshot, dict(zip(hashes.tolist(), having, strict=True)))
            snapshot.note_owners([row for row, _, _ in best], [doc for _, doc, _ in best])
        return [(row, score) for row, _, score in best]

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """Count, for each term, the chunks that have it."""
        with self._open(head) as snapshot:
            counts = _count_having(snapshot, hashes)
        return counts if at_most is None else [min(count, at_most) for count in counts]


@dataclass(frozen=True, slots=True)
class _Found:
    """Row numbers, ids and vectors, in parallel lists."""

    rows: list[int]
    ids: list[str]
    vectors: NDArray[np.float32]

    def keep(self, vector: Vector, k: int) -> "_Found":
        """Keep the rows that may be among the k nearest."""
        places = select_candidates(self.vectors @ vector, k, SLACK).tolist()
        rows, ids = ([each[place] for place in places] for each in (self.rows, self.ids))
        return _Found(rows, ids, self.vectors[places])


def _find_nearest(
    snapshot: LanceSnapshot, vector: Vector, k: int, wanted: Select, effort: Effort = USUAL
) -> tuple[_Found, list[tuple[int, float]]]:
    """Find selected rows, and the places and scores of the k with the highest cosine, best first."""
    if wanted.is_empty:
        found = _make_none(snapshot)
    elif snapshot.segments is not None:
        found = _collect_vectors(snapshot, wanted)
    elif not effort.is_exact and has_index(snapshot.dataset, VECTOR_INDEX):
        found = _search_index(snapshot, vector, max(4 * k, effort.breadth or 0, MIN_CANDIDATES), wanted)
    else:
        found = _scan_vectors(snapshot, vector, k, wanted)
    return found, rank_nearest(found.ids, found.vectors, vector, k) if found.rows else []


def _make_none(snapshot: LanceSnapshot) -> _Found:
    return _Found([], [], np.zeros((0, snapshot.head.dim), np.float32))


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
    """Search the index of Lance, and rows that it lacks yet, for the nearest; return them with exact vectors."""
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
    """Scan all selected rows for those that may be among the k nearest."""
    found = _make_none(snapshot)
    sql = f"{to_sql(wanted)} AND vector IS NOT NULL"
    for batch in snapshot.dataset.to_batches(columns=["row", "doc", "id", "vector"], filter=sql):
        more = _read_found(snapshot, batch)
        vectors = np.concatenate([found.vectors, more.vectors])
        found = _Found(found.rows + more.rows, found.ids + more.ids, vectors)
        if len(found.rows) > 4 * k:
            found = found.keep(vector, k)
    return found


def _count_having(snapshot: LanceSnapshot, hashes: Hashes) -> list[int]:
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
    """Cache document frequencies: a search and its follow-up requests need the same."""
    if len(snapshot.having) > MAX_COUNTS:
        snapshot.having.clear()
    snapshot.having.update(counted)


def _having_any(hashes: Sequence[int]) -> str:
    return f"kind = {CHUNK} AND array_has_any(terms, [{', '.join(map(str, hashes))}])"


def _read_signals(snapshot: LanceSnapshot, hashes: Hashes) -> Iterator[Signals]:
    """Read the signals of all chunks with any of the terms, and perhaps of others."""
    if snapshot.segments is not None:
        yield from (segment.signals for segment in snapshot.segments.values())
        return
    for batch in snapshot.dataset.to_batches(columns=list(SIGNALS), filter=_having_any(hashes.tolist())):
        sizes = batch["terms"].value_lengths().to_numpy(zero_copy_only=False)
        yield Signals(
            batch["row"].to_numpy(),
            batch["id"],
            batch["length"].to_numpy().astype(np.float64),
            batch["terms"].flatten().to_numpy(zero_copy_only=False),
            batch["counts"].flatten().to_numpy(zero_copy_only=False),
            np.repeat(np.arange(len(sizes)), sizes),
            batch["doc"].to_numpy(),
        )


def _find_admitted(snapshot: LanceSnapshot, hashes: Hashes, wanted: Select) -> list[int]:
    """Find the rows of the admitted chunks, at least those with any of the terms."""
    if snapshot.segments is not None:
        return [row for (row,) in snapshot.find(wanted, ("row",))]
    sql = f"{to_sql(wanted)} AND {_having_any(hashes.tolist())}"
    rows: list[int] = snapshot.dataset.to_table(columns=["row"], filter=sql)["row"].to_pylist()
    return rows
