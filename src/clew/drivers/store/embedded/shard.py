"""The shard index: a qdrant-edge shard that follows the truth, for collections too large to search exactly in memory.

The shard only proposes candidates. Their scores are computed from the truth, so they are the same as anywhere else; and
for words it is checked that nothing beyond the candidates could have scored better.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import qdrant_edge as edge

from clew.core.facets import required_facets, to_timestamp
from clew.core.types import Filter, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.embedded import checkpoint as marks
from clew.drivers.store.embedded import counts
from clew.drivers.store.embedded.checkpoint import Mark
from clew.drivers.store.embedded.exact import Found, Reach
from clew.drivers.store.embedded.signals import Signals, State, Worded
from clew.drivers.store.embedded.truth import Truth
from clew.drivers.store.term_ids import Hashes, Packed

BREADTH = 160  # candidates that a search in the graph keeps: recall@10 is .985 at 100,000 chunks, .96 with 64
SPARE = 4  # candidates beyond those asked for, so that equal ones can be told apart by id; four times as many if not
STEADY = 1.001  # times the mean length may have grown, for words to be searched for with as few
MOST = 20_000  # candidates; where more than this many are equal, which of them are found is left to the shard
SAVED_EVERY = 5_000  # rows: what is replayed at most after a crash
DELETED_AT_ONCE = 1_000
LOW = 0xFFFFFFFF  # a sparse vector's indices have 32 bits
DENSE, TERMS = "dense", "terms"
# Under a filter also the neighbours of rows that it keeps out are looked at, however many it admits: without this a
# filter that admits half finds .95 of the ten nearest, with it .997, and takes 1.7 times as long.
FILTERED = edge.AcornSearchParams(enable=True, max_selectivity=1.0)


class BrokenIndex(Exception):
    """The shard failed. It holds nothing that the truth does not, so it can be thrown away."""


class ShardIndex:
    """An open shard. The caller holds its lock."""

    name = "qdrant-edge shard"

    def __init__(self, folder: Path, truth: Truth, mark: Mark) -> None:
        """Opens the shard in a folder, or makes an empty one where the mark is a new one."""
        self.mark = mark
        self.folder = folder
        self._truth = truth
        self._lock = threading.RLock()
        self._saved = mark
        with _breaking():
            place = folder / "shard"
            self._counts = counts.load(folder / mark.counts) if mark.counts else counts.EMPTY
            if mark.counts:
                self._shard = edge.EdgeShard.load(str(place))
            else:
                place.mkdir(parents=True)
                self._shard = edge.EdgeShard.create(str(place), _config(mark.dim))
                for name, kind in (("facets", edge.KeywordIndexParams()), ("at", edge.FloatIndexParams())):
                    self._shard.update(edge.UpdateOperation.create_field_index(name, kind))

    def follow(self, state: State) -> None:
        """Takes in what the truth has and this has not. Doing it again after a crash changes nothing."""
        with self._lock, _breaking():
            if self.mark.change >= state.change and self.mark.row >= state.last:
                return
            gone = self._truth.gone(self.mark.change, state)
            if gone is None:
                raise BrokenIndex("it is too far behind to follow")
            self._remove(gone)
            self._advance(len(gone), change=max(self.mark.change, state.change))
            for batch in self._truth.after(self.mark.row, state):
                if batch.there.ids:
                    self._shard.update(edge.UpdateOperation.upsert_points(_points(batch.there, self.mark.average)))
                self._counts = counts.changed(self._counts, np.concatenate([batch.there.terms, *batch.missed]))
                self._advance(len(batch.there.ids), row=batch.last)

    def nearest(self, vector: Vector, k: int, where: Filter, reach: Reach) -> Found:
        """The k rows of greatest cosine that the shard finds."""
        asked, limit = edge.Query.Nearest(vector.tolist(), using=DENSE), k + SPARE
        while True:
            breadth = max(reach.breadth or BREADTH, limit)
            params = edge.SearchParams(hnsw_ef=breadth, exact=reach.exact, acorn=FILTERED)
            points = self._query(asked, limit, where, params)
            if len(points) < limit or points[k - 1].score - points[-1].score > order.SLACK or limit >= MOST:
                break
            limit *= 4
        rows, ids, vectors = self._truth.near([_row(point) for point in points])
        return order.best(rows, ids, order.cosines(vectors, vector), k)

    def matching(self, asked: Packed, state: State, k: int, where: Filter) -> Found:
        """The k rows of greatest BM25 score for words that are asked for so many times.

        The stored weights were made with the average length of their time. With a longer average a score can be
        greater than the shard thinks, by no more than the ratio of the two; so when the k-th score is above what
        the last candidate could have, no other chunk is missing.
        """
        having = counts.having(self._counts, asked.hashes).tolist()
        weights = [
            times * bm25.idf(state.chunks, many) for times, many in zip(asked.counts.tolist(), having, strict=True)
        ]
        query = edge.Query.Nearest(_sparse(asked.hashes, weights), using=TERMS)
        most = max(1.0, state.average / self.mark.average) * 1.0001
        limit = k + SPARE if most < STEADY and len(weights) > 1 else max(2 * k, k + 50)  # with one word, many are equal
        while True:
            points = self._query(query, limit, where, None)
            read = self._truth.worded([_row(point) for point in points])
            scores = _lexical(read, asked.hashes, np.array(weights), state.average)
            enough = len(scores) >= k and np.partition(scores, -k)[-k] > points[-1].score * most
            if enough or len(points) < limit or limit >= MOST:
                break
            limit *= 4
        best = order.best(read.rows, read.ids, scores, k)
        return [(row, score) for row, score in best if score]

    def count(self) -> int:
        """How many chunks are in the shard."""
        with _breaking():
            return self._shard.count(edge.CountRequest(exact=True))

    def optimise(self) -> None:
        """Builds the graph. The interpreter does nothing else meanwhile, which may be a minute."""
        with self._lock, _breaking():
            self._shard.optimize()
            self.mark = replace(self.mark, loose=0)
            self._saved = replace(self._saved, change=-1)

    def save(self) -> None:
        """Returns when all that was followed is safe on disk."""
        with self._lock, _breaking():
            if self.mark != self._saved:
                self._shard.flush()
                old, name = self.mark.counts, f"counts-{self.mark.row}-{self.mark.change}.npy"
                counts.save(self.folder / name, self._counts)
                self.mark = self._saved = replace(self.mark, counts=name)
                marks.write(self.folder, self.mark)
                if old and old != name:
                    (self.folder / old).unlink(missing_ok=True)

    def abandon(self) -> None:
        """Closes the shard as it is."""
        with self._lock, suppress(Exception):
            self._shard.close()

    def close(self) -> None:
        """Saves and closes the shard."""
        with self._lock:
            try:
                self.save()
            finally:
                with _breaking():
                    self._shard.close()

    def _remove(self, gone: list[tuple[int, Hashes]]) -> None:
        """Takes rows out; those that came and went since it last followed were never in."""
        rows: list[int | UUID | str] = [row for row, _ in gone]
        for at in range(0, len(rows), DELETED_AT_ONCE):
            self._shard.update(edge.UpdateOperation.delete_points(rows[at : at + DELETED_AT_ONCE]))
        lost = [terms for row, terms in gone if row <= self.mark.row]
        self._counts = counts.changed(self._counts, np.empty(0, np.int64), lost)

    def _advance(self, rows: int, *, row: int | None = None, change: int | None = None) -> None:
        loose = self.mark.loose + rows
        row, change = self.mark.row if row is None else row, self.mark.change if change is None else change
        self.mark = replace(self.mark, row=row, change=change, loose=loose)
        if loose - self._saved.loose > SAVED_EVERY:
            self.save()

    def _query(
        self, asked: edge.Query, limit: int, where: Filter, params: edge.SearchParams | None
    ) -> list[edge.ScoredPoint]:
        groups = required_facets(where)
        if not all(groups):
            return []
        with _breaking():
            request = edge.QueryRequest(limit=limit, query=asked, filter=_filter(groups, where), params=params)
            return self._shard.query(request)


@contextmanager
def _breaking() -> Iterator[None]:
    """Gives a name to what the shard raises: plain Exception, or a panic, which is not even that."""
    try:
        yield
    except (OSError, ValueError, EOFError) as error:
        raise BrokenIndex(str(error)) from error
    except BaseException as error:
        if type(error) is Exception or type(error).__name__ == "PanicException":
            raise BrokenIndex(str(error)) from error
        raise


def _config(dim: int) -> edge.EdgeConfig:
    return edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot)},  # of unit vectors: the cosine
        sparse_vectors={TERMS: edge.EdgeSparseVectorParams()},
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=1000),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1000, default_segment_number=1),
        wal_enabled=False,
    )


def _points(batch: Signals, average: float) -> list[edge.Point]:
    ends = np.cumsum(batch.sizes)
    norms = np.repeat(bm25.norms(batch.lengths, average), batch.sizes)
    values = bm25.saturated(batch.counts.astype(np.float32), norms)
    words = batch.terms & LOW
    made = []
    for at, (row, end, size) in enumerate(zip(batch.rows.tolist(), ends.tolist(), batch.sizes.tolist(), strict=True)):
        merged = dict(zip(words[end - size : end].tolist(), values[end - size : end].tolist(), strict=True))
        payload: dict[str, object] = {"facets": batch.facets[at]}
        if not np.isnan(batch.seconds[at]):
            payload["at"] = float(batch.seconds[at])
        sparse = edge.SparseVector(list(merged), list(merged.values()))
        made.append(edge.Point(row, {DENSE: batch.vectors[at].tolist(), TERMS: sparse}, payload))
    return made


def _filter(groups: list[frozenset[str]], where: Filter) -> edge.Filter | None:
    must: list[edge.FieldCondition] = [
        edge.FieldCondition("facets", match=edge.MatchAny(sorted(group))) for group in groups
    ]
    since, until = to_timestamp(where.since), to_timestamp(where.until)
    if since is not None or until is not None:
        must.append(edge.FieldCondition("at", range=edge.RangeFloat(gte=since, lt=until)))
    return edge.Filter(must=list(must)) if must else None


def _row(point: edge.ScoredPoint) -> int:
    return int(point.id)  # ours are numbers


def _sparse(hashes: Hashes, weights: list[float]) -> edge.SparseVector:
    """The weights of words by the low half of their hashes; two words that share it share their weights."""
    low = (hashes & LOW).tolist()
    merged = dict(zip(low, weights, strict=True))
    if len(merged) < len(low):
        merged = dict.fromkeys(low, 0.0)
        for word, weight in zip(low, weights, strict=True):
            merged[word] += weight
    return edge.SparseVector(list(merged), list(merged.values()))


def _lexical(read: Worded, words: Hashes, weights: Floats, average: float) -> Floats:
    """The BM25 score of each row, for words in order and their weights."""
    places = np.minimum(words.searchsorted(read.terms), len(words) - 1)
    at = np.flatnonzero(words[places] == read.terms)
    owners = np.repeat(np.arange(len(read.rows)), read.sizes)[at]
    norms = bm25.norms(read.lengths, average)[owners]
    parts = weights[places[at]] * bm25.saturated(read.counts[at].astype(np.float32), norms)
    sums = np.bincount(owners, parts, minlength=len(read.rows)).astype(np.float64, copy=False)
    return sums.round(order.LEXICAL_DIGITS)
