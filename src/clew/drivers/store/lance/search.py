"""Searches in a version of a collection: by vectors and by words, in memory if it is small, else by scans of Lance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.cosine import compute_cosines
from clew.core.facets import Condition
from clew.core.text import Terms
from clew.core.types import TermMatch, Vector
from clew.drivers.store import bm25
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.lance.indexes import VECTOR_INDEX, has_index
from clew.drivers.store.lance.memory import Signals
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, read_vector_column
from clew.drivers.store.lance.select import Select, select
from clew.drivers.store.lance.snapshot import Snapshot
from clew.drivers.store.order import SLACK, select_candidates, top_k
from clew.drivers.store.term_ids import pack_terms

MIN_CANDIDATES = 200  # that the approximate index gives, so that equal ones are ordered by id
DEFAULT_PROBES = 50  # partitions of the index that are searched
MANY_TIES = 4  # times as many chunks as are wanted: of so many only the ids are read before all else of those left
MAX_COUNTS = 100_000  # terms whose number of chunks is kept
_SIGNALS = ("row", "doc", "length", "terms", "counts")


class Scored(NamedTuple):
    """A row that was found, the document that it is of, and its score; and its id if that was read."""

    row: int
    doc: int
    score: float
    id: str = ""


def find_nearest(
    snapshot: Snapshot,
    vector: Vector,
    k: int,
    alternatives: Sequence[Condition],
    *,
    kind: int = CHUNK,
    is_exact: bool,
    breadth: int | None = None,
) -> list[Scored]:
    """The k rows of a kind of greatest cosine, best first."""
    if k < 1 or not alternatives:
        return []
    if snapshot.segments is not None:
        found = _collect_vectors(snapshot, alternatives, kind)
    elif not is_exact and has_index(snapshot.dataset, VECTOR_INDEX):
        found = _search_index(snapshot, vector, k, alternatives, kind, breadth)
    else:
        found = _scan_vectors(snapshot, vector, k, alternatives, kind)
    if not found.rows:
        return []
    near = found.keep(select_candidates(found.vectors @ vector, k, SLACK).tolist())
    best = top_k(range(len(near.rows)), near.ids, compute_cosines(near.vectors, vector), k)
    return [Scored(near.rows[at], near.docs[at], score, near.ids[at]) for at, score in best]


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows with their vectors, each an entry of every list."""

    rows: list[int]
    docs: list[int]
    ids: list[str]
    vectors: NDArray[np.float32]

    def keep(self, places: Sequence[int]) -> "_Found":
        """Those at some places."""
        rows, docs, ids = ([each[place] for place in places] for each in (self.rows, self.docs, self.ids))
        return _Found(rows, docs, ids, self.vectors[places])  # type: ignore[arg-type]


def _collect_vectors(snapshot: Snapshot, alternatives: Sequence[Condition], kind: int) -> _Found:
    assert snapshot.segments is not None
    rows, docs, ids, parts = list[int](), list[int](), list[str](), list[NDArray[np.float32]]()
    is_open = any(each.is_empty for each in alternatives)
    for segment in snapshot.segments.values():
        if is_open and kind == CHUNK:
            rows += segment.signals.rows.tolist()
            docs += segment.signals.docs.tolist()
            ids += segment.signals.ids
            parts.append(segment.signals.vectors)
            continue
        found = [row for row in segment.find(select(kind, alternatives)) if row.get("vector") is not None]
        rows += [row["row"] for row in found]
        docs += [row["doc"] for row in found]
        ids += [row["id"] for row in found]
        parts += [row["vector"][None] for row in found]
    return _Found(rows, docs, ids, np.concatenate(parts) if parts else np.zeros((0, snapshot.head.dim), np.float32))


def _search_index(
    snapshot: Snapshot, vector: Vector, k: int, alternatives: Sequence[Condition], kind: int, breadth: int | None
) -> _Found:
    """The nearest by the index of Lance, with their exact vectors; rows that it does not cover yet are searched too."""
    wanted = max(4 * k, breadth or 0, MIN_CANDIDATES)
    table = snapshot.dataset.to_table(
        columns=["row", "doc", "id", "vector", "_distance"],
        filter=select(kind, alternatives).to_sql(),
        prefilter=True,
        nearest={"column": "vector", "q": vector, "k": wanted, "nprobes": DEFAULT_PROBES, "refine_factor": 2},
    )
    return _read_found(table, snapshot.head.dim)


def _read_found(table: Any, dim: int) -> _Found:
    rows, docs, ids = (table[name].to_pylist() for name in ("row", "doc", "id"))
    return _Found(rows, docs, ids, read_vector_column(table["vector"], dim))


def _scan_vectors(snapshot: Snapshot, vector: Vector, k: int, alternatives: Sequence[Condition], kind: int) -> _Found:
    """All rows that may be among the k nearest, of every one that the filter admits."""
    found = _Found([], [], [], np.zeros((0, snapshot.head.dim), np.float32))
    sql = f"{select(kind, alternatives).to_sql()} AND vector IS NOT NULL"
    for batch in snapshot.dataset.to_batches(columns=["row", "doc", "id", "vector"], filter=sql):
        more = _read_found(batch, snapshot.head.dim)
        vectors = np.concatenate([found.vectors, more.vectors])
        found = _Found(found.rows + more.rows, found.docs + more.docs, found.ids + more.ids, vectors)
        if len(found.rows) > 4 * k:
            found = found.keep(select_candidates(found.vectors @ vector, k, SLACK).tolist())
    return found


def search_terms(snapshot: Snapshot, terms: Terms, k: int, alternatives: Sequence[Condition]) -> list[Scored]:
    """The k chunks of greatest BM25 score, and others whose score equals that of the last, in no order."""
    query = pack_terms(terms)
    if k < 1 or not alternatives or not len(query.hashes) or not snapshot.head.chunks:
        return []
    parts = [(signals, _match(signals, query.hashes)) for signals in _read_signals(snapshot, query.hashes)]
    having = np.sum([[len(places) for places, _ in found] for _, found in parts] or [[0] * len(query.hashes)], axis=0)
    _keep_counts(snapshot, dict(zip(query.hashes.tolist(), having.tolist(), strict=True)))
    weights = bm25.weigh_terms(query.counts, having.tolist(), snapshot.head.chunks)
    admitted = _find_admitted(snapshot, query.hashes.tolist(), alternatives)
    scored = list[Scored]()
    for signals, found in parts:
        own = _score(signals, found, weights, _average(snapshot)).round(bm25.DIGITS)
        if admitted is not None:
            own[~np.isin(signals.rows, admitted)] = 0.0
        places = np.flatnonzero(own)
        places = places[select_candidates(own[places], k, 0.0)]
        columns = (signals.rows[places], signals.docs[places], own[places])
        scored += [Scored(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]
    best = [scored[place] for place in select_candidates(np.array([each.score for each in scored]), k, 0.0).tolist()]
    return best if len(best) <= MANY_TIES * k else _keep_first_ids(snapshot, best, k)


def _keep_first_ids(snapshot: Snapshot, equal: Sequence[Scored], k: int) -> list[Scored]:
    """The k best of many chunks whose scores are equal, which takes their ids."""
    ids = {row["row"]: row["id"] for row in snapshot.find_numbered({each.row for each in equal}, ("id",))}
    return sorted(equal, key=lambda each: (-each.score, ids[each.row]))[:k]


def match_terms(snapshot: Snapshot, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
    """How well chunks match the terms of a query, by id."""
    found = snapshot.find(select(CHUNK, id=set(chunk_ids)), ("id", "length", "terms", "counts"))
    query = pack_terms(terms)
    if not len(query.hashes):
        return {row["id"]: TermMatch(0.0, 0.0) for row in found}
    weights = bm25.weigh_terms(query.counts, count_having(snapshot, query.hashes), snapshot.head.chunks)
    counts = np.zeros((len(query.hashes), len(found)), np.float32)
    for place, row in enumerate(found):
        own = dict(zip(row["terms"].tolist(), row["counts"].tolist(), strict=True))
        counts[:, place] = [own.get(each, 0) for each in query.hashes.tolist()]
    lengths = np.array([row["length"] for row in found], np.float64)
    norms = bm25.length_norm(lengths, _average(snapshot))
    return bm25.match_terms([row["id"] for row in found], weights, counts, norms)


def _average(snapshot: Snapshot) -> float:
    return snapshot.head.length / max(snapshot.head.chunks, 1)


def count_having(snapshot: Snapshot, hashes: NDArray[np.int64]) -> list[int]:
    """In how many chunks each term is."""
    if snapshot.segments is not None:
        return [
            sum(int(np.count_nonzero(segment.signals.hashes == each)) for segment in snapshot.segments.values())
            for each in hashes
        ]
    known = {each: snapshot.having.get(each) for each in hashes.tolist()}
    counts = {
        each: snapshot.dataset.count_rows(_having_any([each])) if count is None else count
        for each, count in known.items()
    }
    _keep_counts(snapshot, counts)
    return [counts[each] for each in hashes.tolist()]


def _keep_counts(snapshot: Snapshot, counted: Mapping[int, int]) -> None:
    """Keeps in how many chunks terms are: a search and what follows it ask for the same."""
    if len(snapshot.having) > MAX_COUNTS:
        snapshot.having.clear()
    snapshot.having.update(counted)


def _having_any(hashes: Sequence[int]) -> str:
    return f"kind = {CHUNK} AND array_has_any(terms, [{', '.join(map(str, hashes))}])"


def _read_signals(snapshot: Snapshot, hashes: NDArray[np.int64]) -> Iterator[Signals]:
    """The signals of all chunks that have any of the terms, and perhaps of others."""
    if snapshot.segments is not None:
        yield from (segment.signals for segment in snapshot.segments.values())
        return
    for batch in snapshot.dataset.to_batches(columns=list(_SIGNALS), filter=_having_any(hashes.tolist())):
        sizes = batch["terms"].value_lengths().to_numpy(zero_copy_only=False)
        yield Signals(
            batch["row"].to_numpy(),
            batch["doc"].to_numpy(),
            (),
            np.zeros((0, 0), np.float32),
            batch["length"].to_numpy().astype(np.float64),
            batch["terms"].flatten().to_numpy(zero_copy_only=False),
            batch["counts"].flatten().to_numpy(zero_copy_only=False),
            np.repeat(np.arange(len(sizes)), sizes),
        )


_Matches = list[tuple[NDArray[np.int64], NDArray[np.float32]]]


def _match(signals: Signals, hashes: NDArray[np.int64]) -> _Matches:
    """Of each term, the places of the chunks that have it, and how often."""
    found = (np.flatnonzero(signals.hashes == each) for each in hashes)
    return [(signals.owners[places], signals.counts[places].astype(np.float32)) for places in found]


def _score(signals: Signals, found: _Matches, weights: Floats, average: float) -> Floats:
    norms, scores = bm25.length_norm(signals.lengths, average), np.zeros(len(signals.rows), np.float64)
    for weight, (places, counts) in zip(weights.tolist(), found, strict=True):
        scores[places] += weight * bm25.saturate(counts, norms[places])
    return scores


def _find_admitted(
    snapshot: Snapshot, hashes: Sequence[int], alternatives: Sequence[Condition]
) -> NDArray[np.int64] | None:
    """The rows of the chunks that a filter admits, among those that have any of the terms; None if it admits all."""
    if any(each.is_empty for each in alternatives):
        return None
    wanted = Select(CHUNK, (), tuple(alternatives))
    if snapshot.segments is not None:
        return np.array([row["row"] for row in snapshot.find(wanted)], np.int64)
    sql = f"{wanted.to_sql()} AND {_having_any(hashes)}"
    return np.asarray(snapshot.dataset.to_table(columns=["row"], filter=sql)["row"].to_numpy(), np.int64)


def search_summaries(
    snapshot: Snapshot, vector: Vector, k: int, alternatives: Sequence[Condition]
) -> list[tuple[str, float]]:
    """The ids of the k documents whose summary is nearest, with the cosine."""
    found = find_nearest(snapshot, vector, k, alternatives, kind=DOCUMENT, is_exact=False)
    return [(each.id, each.score) for each in found]
