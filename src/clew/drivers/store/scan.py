"""An index by scanning: every vector and word is compared, exactly; Lance uses its parts for small collections."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Depth
from clew.core.cosine import compute_cosines
from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.stored import Counts, Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25
from clew.drivers.store.backend import CHUNK, DOCUMENT, Head, Row, RowScores, Snapshot, select
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.order import SLACK, select_candidates, top_k
from clew.drivers.store.read import read_vectors_by_chunk_id

SIGNALS = ("row", "doc", "id", "length", "terms", "counts")
TermPlaces = list[tuple[NDArray[np.int64], NDArray[np.float32]]]  # of each term, places of chunks and its counts


@dataclass(frozen=True, slots=True)
class Signals:
    """What chunks are searched by, each an entry of every list: vectors, and terms one after the other."""

    rows: NDArray[np.int64]
    docs: NDArray[np.int64]
    ids: Sequence[Any]
    lengths: NDArray[np.float64]
    hashes: Hashes
    counts: Counts
    owners: NDArray[np.int64]  # of each term, the place of its chunk

    def find_terms(self, hashes: Hashes) -> TermPlaces:
        """Of each term, the places of the chunks that have it, and how often."""
        found = (np.flatnonzero(self.hashes == each) for each in hashes)
        return [(self.owners[places], self.counts[places].astype(np.float32)) for places in found]

    def score(self, found: TermPlaces, weights: Floats, average: float) -> Floats:
        """The BM25 score of each chunk for terms that were found."""
        norms, scores = bm25.length_norm(self.lengths, average), np.zeros(len(self.rows), np.float64)
        for weight, (places, counts) in zip(weights.tolist(), found, strict=True):
            scores[places] += weight * bm25.saturate(counts, norms[places])
        return scores.round(bm25.DIGITS)


def make_signals(chunks: Sequence[Row]) -> Signals:
    """The signals of the rows of chunks."""
    sizes = [len(row["terms"]) for row in chunks]
    return Signals(
        np.array([row["row"] for row in chunks], np.int64),
        np.array([row["doc"] for row in chunks], np.int64),
        [row["id"] for row in chunks],
        np.array([row["length"] for row in chunks], np.float64),
        np.concatenate([row["terms"] for row in chunks]) if chunks else np.zeros(0, np.int64),
        np.concatenate([row["counts"] for row in chunks]) if chunks else np.zeros(0, np.uint16),
        np.repeat(np.arange(len(chunks)), sizes),
    )


def rank_nearest(ids: Sequence[str], vectors: Matrix, vector: Vector, k: int) -> list[tuple[int, float]]:
    """The places of the k greatest cosines, best first, ties by id."""
    places = select_candidates(vectors @ vector, k, SLACK)
    return top_k(places.tolist(), [ids[at] for at in places.tolist()], compute_cosines(vectors[places], vector), k)


def match_chunks(
    snapshot: Snapshot, query: PackedTerms, having: Callable[[], Sequence[int]], chunk_ids: Sequence[str]
) -> dict[str, TermMatch]:
    """How well the chunks that exist match terms, which are in `having` chunks of the collection."""
    found = snapshot.find(select(CHUNK, id=set(chunk_ids)), ("id", "length", "terms", "counts"))
    if not len(query.hashes):
        return {row["id"]: TermMatch(0.0, 0.0) for row in found}
    weights = bm25.weigh_terms(query.counts, having(), snapshot.head.chunks)
    counts = np.zeros((len(query.hashes), len(found)), np.float32)
    for place, row in enumerate(found):
        own = dict(zip(row["terms"].tolist(), row["counts"].tolist(), strict=True))
        counts[:, place] = [own.get(each, 0) for each in query.hashes.tolist()]
    lengths = np.array([row["length"] for row in found], np.float64)
    norms = bm25.length_norm(lengths, snapshot.head.average_length)
    return bm25.match_terms([row["id"] for row in found], weights, counts, norms)


class ScanIndex:
    """Searches that read every row; see `Index`. The words are kept until the collection changes.

    read: Opens one state.
    """

    def __init__(self, read: Callable[[], AbstractContextManager[Snapshot]]) -> None:
        self._read = read
        self._known: tuple[int, Signals] | None = None

    def _load(self, snapshot: Snapshot) -> Signals:
        """The signals of all chunks."""
        known = self._known
        if known is None or known[0] != snapshot.head.version:
            known = self._known = snapshot.head.version, make_signals(snapshot.find(select(CHUNK), SIGNALS))
        return known[1]

    def _find_nearest(self, kind: int, vector: Vector, k: int, where: Filter) -> list[tuple[Row, float]]:
        alternatives = expand_filter(where) if kind == CHUNK else expand_document_filter(where)
        with self._read() as snapshot:
            rows = snapshot.find(select(kind, alternatives), ("row", "id", "vector"))
        found = [row for row in rows if row["vector"] is not None]
        if not found:
            return []
        best = rank_nearest([row["id"] for row in found], np.stack([row["vector"] for row in found]), vector, k)
        return [(found[at], score) for at, score in best]

    def nearest(
        self,
        head: Head,  # noqa: ARG002
        vector: Vector,
        k: int,
        where: Filter,
        *,
        is_exact: bool,  # noqa: ARG002
        breadth: int | None,  # noqa: ARG002
    ) -> RowScores:
        """The k chunks of greatest cosine; chunks without a vector have none."""
        return [(row["row"], score) for row, score in self._find_nearest(CHUNK, vector, k, where)]

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:  # noqa: ARG002
        """The k documents whose own vector is nearest, with the cosine."""
        return [(row["id"], score) for row, score in self._find_nearest(DOCUMENT, vector, k, where)]

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:  # noqa: ARG002
        """The k chunks of greatest BM25 score."""
        wanted = select(CHUNK, expand_filter(where))
        with self._read() as snapshot:
            signals, now = self._load(snapshot), snapshot.head
            admitted = [row["row"] for row in snapshot.find(wanted, ("row",))] if wanted.is_filtered else None
        found = signals.find_terms(terms.hashes)
        weights = bm25.weigh_terms(terms.counts, [len(places) for places, _ in found], now.chunks)
        scores = signals.score(found, weights, now.average_length)
        if wanted.is_empty:
            scores[:] = 0.0
        elif admitted is not None:
            scores[~np.isin(signals.rows, admitted)] = 0.0
        places = np.flatnonzero(scores)
        return top_k(signals.rows[places].tolist(), [signals.ids[at] for at in places.tolist()], scores[places], k)

    def match_terms(self, head: Head, terms: PackedTerms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well the chunks that exist match terms."""
        with self._read() as snapshot:
            return match_chunks(snapshot, terms, lambda: self.count_having(head, terms.hashes, None), chunk_ids)

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:  # noqa: ARG002
        """How many chunks have each of the terms."""
        with self._read() as snapshot:
            counts = [len(places) for places, _ in self._load(snapshot).find_terms(hashes)]
        return counts if at_most is None else [min(count, at_most) for count in counts]

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:  # noqa: ARG002
        """The vectors of the chunks that exist."""
        with self._read() as snapshot:
            return read_vectors_by_chunk_id(snapshot, chunk_ids)

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> None:
        """None: searches share nothing."""

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> None:
        """None: it takes a search by vectors, and one by words."""
