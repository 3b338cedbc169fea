"""Searches in a version of a collection: by vectors and by words, in memory if it is small, else by scans of Lance."""

from collections.abc import Iterator, Sequence

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
Scores = list[tuple[int, float]]
_SIGNALS = ("row", "id", "length", "terms", "counts")


def find_nearest(
    snapshot: Snapshot,
    vector: Vector,
    k: int,
    alternatives: Sequence[Condition],
    *,
    kind: int = CHUNK,
    is_exact: bool,
    breadth: int | None = None,
) -> list[tuple[int, str, float]]:
    """The k rows of a kind of greatest cosine, with their ids, best first."""
    if k < 1 or not alternatives:
        return []
    if snapshot.segments is not None:
        rows, ids, vectors = _collect_vectors(snapshot, alternatives, kind)
    elif not is_exact and has_index(snapshot.dataset, VECTOR_INDEX):
        rows, ids, vectors = _search_index(snapshot, vector, k, alternatives, kind, breadth)
    else:
        rows, ids, vectors = _scan_vectors(snapshot, vector, k, alternatives, kind)
    if not rows:
        return []
    near = select_candidates(vectors @ vector, k, SLACK).tolist()
    names = {rows[place]: ids[place] for place in near}
    best = top_k(list(names), list(names.values()), compute_cosines(vectors[near], vector), k)
    return [(row, names[row], score) for row, score in best]


_Found = tuple[list[int], list[str], NDArray[np.float32]]


def _collect_vectors(snapshot: Snapshot, alternatives: Sequence[Condition], kind: int) -> _Found:
    assert snapshot.segments is not None
    rows, ids, parts = list[int](), list[str](), list[NDArray[np.float32]]()
    is_open = any(each.is_empty for each in alternatives)
    for segment in snapshot.segments.values():
        if is_open and kind == CHUNK:
            rows += segment.signals.rows.tolist()
            ids += segment.signals.ids
            parts.append(segment.signals.vectors)
            continue
        found = [row for row in segment.find(select(kind, alternatives)) if row.get("vector") is not None]
        rows += [row["row"] for row in found]
        ids += [row["id"] for row in found]
        parts += [row["vector"][None] for row in found]
    return rows, ids, np.concatenate(parts) if parts else np.zeros((0, snapshot.head.dim), np.float32)


def _search_index(
    snapshot: Snapshot, vector: Vector, k: int, alternatives: Sequence[Condition], kind: int, breadth: int | None
) -> _Found:
    """The nearest by the index of Lance, with their exact vectors; rows that it does not cover yet are searched too."""
    wanted = max(4 * k, breadth or 0, MIN_CANDIDATES)
    table = snapshot.dataset.to_table(
        columns=["row", "id", "vector", "_distance"],
        filter=select(kind, alternatives).to_sql(),
        prefilter=True,
        nearest={"column": "vector", "q": vector, "k": wanted, "nprobes": DEFAULT_PROBES, "refine_factor": 2},
    )
    vectors = read_vector_column(table["vector"], snapshot.head.dim)
    return table["row"].to_pylist(), table["id"].to_pylist(), vectors


def _scan_vectors(snapshot: Snapshot, vector: Vector, k: int, alternatives: Sequence[Condition], kind: int) -> _Found:
    """All rows that may be among the k nearest, of every one that the filter admits."""
    rows, ids, vectors = list[int](), list[str](), np.zeros((0, snapshot.head.dim), np.float32)
    sql = f"{select(kind, alternatives).to_sql()} AND vector IS NOT NULL"
    for batch in snapshot.dataset.to_batches(columns=["row", "id", "vector"], filter=sql):
        rows += batch["row"].to_pylist()
        ids += batch["id"].to_pylist()
        vectors = np.concatenate([vectors, read_vector_column(batch["vector"], snapshot.head.dim)])
        if len(rows) > 4 * k:
            near = select_candidates(vectors @ vector, k, SLACK).tolist()
            rows, ids, vectors = [rows[each] for each in near], [ids[each] for each in near], vectors[near]
    return rows, ids, vectors


def search_terms(snapshot: Snapshot, terms: Terms, k: int, alternatives: Sequence[Condition]) -> Scores:
    """The k chunks of greatest BM25 score, best first."""
    query = pack_terms(terms)
    if k < 1 or not alternatives or not len(query.hashes) or not snapshot.head.chunks:
        return []
    parts = [(signals, _match(signals, query.hashes)) for signals in _read_signals(snapshot, query.hashes)]
    having = np.sum([[len(places) for places, _ in found] for _, found in parts] or [[0] * len(query.hashes)], axis=0)
    weights = bm25.weigh_terms(query.counts, having.tolist(), snapshot.head.chunks)
    admitted = _find_admitted(snapshot, query.hashes.tolist(), alternatives)
    rows, ids, scores = list[int](), list[str](), list[float]()
    for signals, found in parts:
        own = _score(signals, found, weights, _average(snapshot)).round(bm25.DIGITS)
        for place in np.flatnonzero(own).tolist():
            if admitted is None or int(signals.rows[place]) in admitted:
                rows.append(int(signals.rows[place]))
                ids.append(signals.ids[place])
                scores.append(float(own[place]))
    best = select_candidates(np.array(scores), k, 0.0).tolist()
    return top_k([rows[each] for each in best], [ids[each] for each in best], np.array(scores)[best], k)


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
    return [snapshot.dataset.count_rows(_having_any([each])) for each in hashes.tolist()]


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
            batch["id"].to_pylist(),
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


def _find_admitted(snapshot: Snapshot, hashes: Sequence[int], alternatives: Sequence[Condition]) -> set[int] | None:
    """The rows of the chunks that a filter admits, among those that have any of the terms; None if it admits all."""
    if any(each.is_empty for each in alternatives):
        return None
    wanted = Select(CHUNK, (), tuple(alternatives))
    if snapshot.segments is not None:
        return {row["row"] for row in snapshot.find(wanted)}
    sql = f"{wanted.to_sql()} AND {_having_any(hashes)}"
    return set(snapshot.dataset.to_table(columns=["row"], filter=sql)["row"].to_pylist())


def search_summaries(
    snapshot: Snapshot, vector: Vector, k: int, alternatives: Sequence[Condition]
) -> list[tuple[str, float]]:
    """The ids of the k documents whose summary is nearest, with the cosine."""
    found = find_nearest(snapshot, vector, k, alternatives, kind=DOCUMENT, is_exact=False)
    return [(doc_id, score) for _, doc_id, score in found]
