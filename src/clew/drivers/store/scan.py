"""An exact index by scanning all vectors and words. The indexes of the backends derive from it."""

import json
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Gone
from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.parallel import run_parallel
from clew.core.stored import Counts, Hashes, PackedTerms
from clew.core.types import Matrix, Vector
from clew.drivers.store import bm25
from clew.drivers.store.backend import (
    CHUNK,
    DOCUMENT,
    Columns,
    Effort,
    Head,
    Queries,
    Ranks,
    RowCandidates,
    RowScores,
    Snapshot,
    named_documents,
    select,
)
from clew.drivers.store.bm25 import Floats, TermPlaces, TermScores
from clew.drivers.store.read import read_vectors_by_chunk_id

SLACK = 3e-6  # the error of a cosine in single precision, plus twice the rounding
COSINE_DIGITS = 6  # vectors are stored in single precision
MAX_KNOWN = 512  # searches with cached results: enough for a batch and its follow-up requests
T = TypeVar("T")


def compute_cosines(vectors: Matrix, vector: Vector) -> NDArray[np.float64]:
    """Compute the cosine of each unit row with a unit vector, in double precision, rounded and clipped to -1 … 1.

    In single precision the product of a row depends on its position in the matrix, which differs between stores.
    """
    exact: NDArray[np.float64] = vectors.astype(np.float64) @ vector.astype(np.float64)
    return np.minimum(np.maximum(exact.round(COSINE_DIGITS), -1.0), 1.0)


def select_candidates(scores: NDArray[np.floating], k: int, slack: float) -> NDArray[np.intp]:
    """Select the positions of all scores that may be among the k greatest, if each may be off by `slack`."""
    if len(scores) <= k or k < 1:
        return np.arange(len(scores) if k > 0 else 0)
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    return np.flatnonzero(scores >= kth - slack)


def top_k(rows: Sequence[int], ids: Sequence[str], scores: Floats, k: int) -> list[tuple[int, float]]:
    """Return the k best rows with their scores, in order."""
    best = sorted(zip((-scores).tolist(), ids, rows, strict=True))[:k]
    return [(row, -score) for score, _, row in best]


class PrefixCache(Generic[T]):
    """A cache of search results, best first: the result for k also answers the same search for fewer."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, Hashable], tuple[int, list[T]]] = {}

    def get(self, key: bytes, how: Hashable, k: int) -> list[T] | None:
        """Return the first k results of the same search; None if they are not cached."""
        known = self._known.get((key, how))
        return known[1][:k] if known and known[0] >= k else None

    def clear(self) -> None:
        """Clear the cache."""
        self._known = {}

    def put(self, key: bytes, how: Hashable, k: int, found: list[T]) -> None:
        """Cache the results of a search for k."""
        if len(self._known) >= MAX_KNOWN:
            self.clear()
        self._known[key, how] = k, found


SIGNALS = ("row", "doc", "id", "length", "terms", "counts")


@dataclass(frozen=True, slots=True)
class Signals:
    """The searchable columns of chunks, with their terms concatenated."""

    rows: NDArray[np.int64]
    ids: Sequence[Any]
    lengths: Floats
    hashes: Hashes
    counts: Counts
    owners: NDArray[np.int64]  # for each term, the place of its chunk
    docs: Any = ()  # the rows of their documents, if read

    def find_terms(self, hashes: Hashes) -> TermPlaces:
        """Return, for each term, the places of the chunks that have it, and its counts."""
        found = (np.flatnonzero(self.hashes == each) for each in hashes)
        return [(self.owners[places], self.counts[places].astype(np.float32)) for places in found]

    def score(self, found: TermPlaces, weights: Floats, average: float) -> TermScores:
        """Score terms that were found, with the average length of all chunks."""
        return bm25.score_terms(found, weights, bm25.length_norm(self.lengths, average))


def make_signals(chunks: Sequence[Columns]) -> Signals:
    """Make the signals of chunks from their columns SIGNALS."""
    rows, docs, ids, lengths, terms, counts = zip(*chunks, strict=True) if chunks else [()] * len(SIGNALS)
    return Signals(
        np.array(rows, np.int64),
        ids,
        np.array(lengths, np.float64),
        np.concatenate(terms) if chunks else np.zeros(0, np.int64),
        np.concatenate(counts) if chunks else np.zeros(0, np.uint16),
        np.repeat(np.arange(len(chunks)), [len(each) for each in terms]),
        np.array(docs, np.int64),
    )


def rank_nearest(
    ids: Sequence[str],
    vectors: Matrix,
    vector: Vector,
    k: int,
    scores: Vector | None = None,
    places: NDArray[np.intp] | None = None,
) -> list[tuple[int, float]]:
    """Return the places of the k highest cosines, best first, ties by id.

    scores: The cosines in single precision, if known; -inf excludes a vector.
    places: The places of these scores; None if they cover all vectors.
    """
    scores = vectors @ vector if scores is None else scores
    top = select_candidates(scores, k, SLACK)
    top = top[scores[top] > -np.inf]
    chosen = top if places is None else places[top]
    return top_k(chosen.tolist(), [ids[at] for at in chosen.tolist()], compute_cosines(vectors[chosen], vector), k)


class Joined(NamedTuple):
    """The distinct rows of several rankings, the places of each ranking's results among them, and scores by words."""

    rows: list[int]
    near: list[list[int]]
    matching: list[list[int]]
    by_words: dict[int, float]


def join_rankings(near: Sequence[RowScores], matching: Sequence[RowScores], others: Iterable[int] = ()) -> Joined:
    """Join the results of rankings by vector and by words, and other rows."""
    place_of: dict[int, int] = {}
    near_places = [[place_of.setdefault(row, len(place_of)) for row, _ in each] for each in near]
    by_words = {place_of.setdefault(row, len(place_of)): score for each in matching for row, score in each}
    for row in others:
        place_of.setdefault(row, len(place_of))
    return Joined(list(place_of), near_places, [[place_of[row] for row, _ in each] for each in matching], by_words)


def search_rankings(
    index: Ranks, head: Head, vector: Vector, terms: PackedTerms, queries: Queries
) -> tuple[list[RowScores], list[RowScores]]:
    """Search with the vector and terms of one query; return the results of each ranking, by vector and by words."""
    wanted = queries.rankings
    near = [index.nearest(head, vector, each.near, each.where, queries.effort) for each in wanted]
    matching = [index.matching(head, terms, each.matching, each.where) if len(terms.hashes) else [] for each in wanted]
    return near, matching


class MatchedTerms(NamedTuple):
    """The number of chunks with each term of a query, and the best chunks as (row, document, score)."""

    having: list[int]
    best: list[tuple[int, int, float]]


def rank_matching(
    head: Head, query: PackedTerms, k: int, parts: Iterable[Signals], admitted: Collection[int] | None
) -> MatchedTerms:
    """Rank the k chunks with the highest BM25 score, best first, ties by id.

    parts: Signals that together have every chunk with any of the terms.
    admitted: The rows of chunks that a filter admits; None for all.
    """
    found = [(signals, signals.find_terms(query.hashes)) for signals in parts]
    having = [sum(len(terms[at][0]) for _, terms in found) for at in range(len(query.hashes))]
    weights, scored = bm25.weigh_terms(query.counts, having, head.chunks), list[tuple[float, str, int, int]]()
    for signals, terms in found:
        scores = signals.score(terms, weights, head.average_length).sum_by_chunk(len(signals.rows)).round(bm25.DIGITS)
        if admitted is not None:
            scores[~np.isin(signals.rows, list(admitted))] = 0.0
        places = np.flatnonzero(scores)
        for at in places[select_candidates(scores[places], k, 0.0)].tolist():
            scored.append((-float(scores[at]), str(signals.ids[at]), int(signals.rows[at]), int(signals.docs[at])))
    return MatchedTerms(having, [(row, doc, -score) for score, _, row, doc in sorted(scored)[:k]])


class ScanIndex:
    """Searches that read every row; see `Index`. Words and document vectors are cached until the collection changes.

    read: Opens a snapshot that is at least as new as a head.
    """

    def __init__(self, read: Callable[[Head], AbstractContextManager[Snapshot]]) -> None:
        self._read = read
        self._signals: tuple[tuple[int, int], Signals] | None = None  # by change and version
        self._documents: tuple[tuple[int, int], list[Columns], Matrix] | None = None

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k chunks with the highest cosine; skip chunks without a vector."""
        with self._read(head) as snapshot:
            rows = snapshot.find(select(CHUNK, expand_filter(where)), ("row", "id", "vector"))
        found = [each for each in rows if each[2] is not None]
        if not found:
            return []
        numbers, ids, vectors = zip(*found, strict=True)
        return [(numbers[at], score) for at, score in rank_nearest(ids, np.stack(vectors), vector, k)]

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """Find the k documents whose summary has the highest cosine: (id, cosine), best first."""
        rows, vectors = self._load_documents(head)
        wanted = select(DOCUMENT, expand_document_filter(where))
        if wanted.is_filtered or wanted.is_empty:
            named = named_documents(wanted.alternatives or ())
            some = (at for at, (doc_id, *_) in enumerate(rows) if named is None or doc_id in named)
            places = [at for at in some if wanted.admits_facets(rows[at][1])]
            rows, vectors = [rows[at] for at in places], vectors[places]
        if not rows:
            return []
        ids = [doc_id for doc_id, *_ in rows]
        return [(ids[at], score) for at, score in rank_nearest(ids, vectors, vector, k)]

    def _load_documents(self, head: Head) -> tuple[list[Columns], Matrix]:
        """Load the documents with a summary vector as (id, facets, vector), and the matrix of vectors."""
        known = self._documents
        if known is None or known[0] != (head.change, head.version):
            with self._read(head) as snapshot:
                found, now = snapshot.find(select(DOCUMENT), ("id", "facets", "vector")), snapshot.head
            rows = [each for each in found if each[2] is not None]
            vectors = np.stack([vector for *_, vector in rows]) if rows else np.empty((0, now.dim), np.float32)
            known = self._documents = (now.change, now.version), rows, vectors
        return known[1], known[2]

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k chunks with the highest BM25 score."""
        wanted = select(CHUNK, expand_filter(where))
        if wanted.is_empty:
            return []
        with self._read(head) as snapshot:
            signals, now = self._load_signals(snapshot), snapshot.head
            admitted = [row for (row,) in snapshot.find(wanted, ("row",))] if wanted.is_filtered else None
        return [(row, score) for row, _, score in rank_matching(now, terms, k, [signals], admitted).best]

    def _load_signals(self, snapshot: Snapshot) -> Signals:
        known, at = self._signals, (snapshot.head.change, snapshot.head.version)
        if known is None or known[0] != at:
            known = self._signals = at, make_signals(snapshot.find(select(CHUNK), SIGNALS))
        return known[1]

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """Count, for each term, the chunks that have it."""
        with self._read(head) as snapshot:
            counts = [len(places) for places, _ in self._load_signals(snapshot).find_terms(hashes)]
        return counts if at_most is None else [min(count, at_most) for count in counts]

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the existing chunks."""
        with self._read(head) as snapshot:
            return read_vectors_by_chunk_id(snapshot, chunk_ids)

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find the candidates of each query, searching the queries in parallel."""
        pairs = zip(queries.vectors, queries.terms, strict=True)
        calls = [partial(self._find_candidates, head, vector, terms, queries) for vector, terms in pairs]
        return run_parallel(calls, max_concurrent=os.cpu_count() or 1)  # more threads would only compete for the cores

    def _find_candidates(self, head: Head, vector: Vector, terms: PackedTerms, queries: Queries) -> RowCandidates:
        """Find the candidates of one query; Gone if a found row has been removed."""
        near, matching = search_rankings(self, head, vector, terms, queries)
        columns = (*SIGNALS, "meta", "vector")
        with self._read(head) as snapshot:
            ids = set(queries.chunk_ids)
            given = snapshot.find(select(CHUNK, id=ids), columns) if ids else []
            joined = join_rankings(near, matching, [row for row, *_ in given])
            known = {each[0]: each for each in given}
            more = select(CHUNK, row=[row for row in joined.rows if row not in known])
            known |= {each[0]: each for each in snapshot.find(more, columns)}
            if any(row not in known for row in joined.rows):
                raise Gone("a row that was found")
            chunks, now = [known[row] for row in joined.rows], snapshot.head
        signals, cosines = make_signals([each[:-2] for each in chunks]), np.full(len(chunks), np.nan)
        made = [place for place, each in enumerate(chunks) if each[-1] is not None]
        if made:
            cosines[made] = compute_cosines(np.stack([chunks[place][-1] for place in made]), vector)
        having = self.count_having(head, terms.hashes, None) if len(terms.hashes) else ()
        weights = bm25.weigh_terms(terms.counts, having, now.chunks)
        scored = signals.score(signals.find_terms(terms.hashes), weights, now.average_length)
        is_message = np.array([bool(json.loads(each[-2]).get("message")) for each in chunks], bool)
        return RowCandidates(
            joined.rows, list(signals.ids), is_message, *joined[1:], cosines, *scored.measure(len(chunks))
        )
