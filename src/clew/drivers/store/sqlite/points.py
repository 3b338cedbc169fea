"""Points: chunks, filters and words as the shard takes them, and the points that it proposes for a query."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import qdrant_edge as edge

from clew.core.facets import Condition, expand_filter
from clew.core.filter import Filter
from clew.core.stored import Hashes
from clew.core.types import Vector
from clew.drivers.store import bm25
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.sqlite.signals import Signals

LOW_BITS = 0xFFFFFFFF  # a sparse vector's indices have 32 bits
DENSE, TERMS = "dense", "terms"
BREADTH = 192  # candidates that a search in the graph keeps: recall@10 is .98 to .99 at 100,000 chunks, .96 with 64
# Under a filter the search also visits neighbours of rows that it excludes, however many it admits: without this a
# filter that admits half finds .95 of the ten nearest, with it .997, and takes 1.7 times as long.
FILTERED = edge.AcornSearchParams(enable=True, max_selectivity=1.0)
Points = list[edge.ScoredPoint]


def make_config(dim: int, *, is_half: bool) -> edge.EdgeConfig:
    """The settings of a shard for vectors of this width; in half precision where they are stored so."""
    kind = edge.VectorStorageDatatype.Float16 if is_half else edge.VectorStorageDatatype.Float32
    # Everything is mapped, not read into memory: searches take as long, and a shard opens in half the time.
    return edge.EdgeConfig(
        # Of unit vectors the inner product is the cosine.
        vectors={DENSE: edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot, datatype=kind)},
        sparse_vectors={TERMS: edge.EdgeSparseVectorParams(memory=edge.Memory.Cached)},
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=1000),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1000, default_segment_number=1),
        id_tracker_memory=edge.Memory.Cached,
        wal_enabled=False,
    )


def make_field_indexes() -> list[edge.UpdateOperation]:
    """The operations that make a new shard find points by their facets and times."""
    return [
        edge.UpdateOperation.create_field_index("facets", edge.KeywordIndexParams(memory=edge.Memory.Cached)),
        edge.UpdateOperation.create_field_index("at", edge.FloatIndexParams(memory=edge.Memory.Cached)),
    ]


def make_points(batch: Signals, average: float) -> list[edge.Point]:
    """The points of chunks; the weights of words are computed with this average length."""
    ends = np.cumsum(batch.sizes)
    norms = np.repeat(bm25.length_norm(batch.lengths, average), batch.sizes)
    weights = bm25.saturate(batch.counts.astype(np.float32), norms)
    words = batch.terms & LOW_BITS
    made = []
    for at, (row, end, size) in enumerate(zip(batch.rows.tolist(), ends.tolist(), batch.sizes.tolist(), strict=True)):
        merged = dict(zip(words[end - size : end].tolist(), weights[end - size : end].tolist(), strict=True))
        payload: dict[str, object] = {"facets": batch.facets[at]}
        if not np.isnan(batch.seconds[at]):
            payload["at"] = float(batch.seconds[at])
        sparse = edge.SparseVector(list(merged), list(merged.values()))
        dense = {} if np.isnan(batch.vectors[at, 0]) else {DENSE: batch.vectors[at].tolist()}
        made.append(edge.Point(row, {**dense, TERMS: sparse}, payload))
    return made


def make_filter(alternatives: Sequence[Condition]) -> edge.Filter | None:
    """The filter that admits a point where one of the conditions does; None if that is every point."""
    if any(each.is_empty for each in alternatives):
        return None
    made = [_make_condition_filter(each) for each in alternatives]
    return made[0] if len(made) == 1 else edge.Filter(should=list(made))


def _make_condition_filter(condition: Condition) -> edge.Filter:
    must = [edge.FieldCondition("facets", match=edge.MatchAny(sorted(group))) for group in condition.groups]
    if condition.is_timed:
        must.append(edge.FieldCondition("at", range=edge.RangeFloat(gte=condition.since, lt=condition.until)))
    forbidden = [edge.FieldCondition("facets", match=edge.MatchAny(sorted(condition.forbidden)))]
    return edge.Filter(must=list(must) or None, must_not=list(forbidden) if condition.forbidden else None)


def make_sparse_vector(hashes: Hashes, weights: list[float]) -> edge.SparseVector:
    """The weights of words by the low half of their hashes; two words that share it add their weights."""
    low = (hashes & LOW_BITS).tolist()
    merged = dict.fromkeys(low, 0.0)
    for word, weight in zip(low, weights, strict=True):
        merged[word] += weight
    return edge.SparseVector(list(merged), list(merged.values()))


class BrokenIndex(Exception):
    """The index failed. It holds nothing that the database does not, so it can be thrown away and rebuilt."""


@dataclass(frozen=True, slots=True)
class Request:
    """A query to the shard: what is searched, as bytes and for the shard, and how broadly (None: by words)."""

    key: bytes
    query: edge.Query
    limit: int
    where: Filter
    breadth: int | None = None
    exact: bool = False

    @property
    def how(self) -> tuple[Filter, int | None, bool]:
        """What has to be equal for the first points to be the same."""
        return self.where, self.breadth, self.exact


def request_nearest(
    vector: Vector, limit: int, where: Filter, *, is_exact: bool = False, breadth: int | None = None
) -> Request:
    """A request for the nearest points; `breadth` is how many candidates a search in the graph keeps."""
    nearest = edge.Query.Nearest(vector.tolist(), using=DENSE)
    return Request(vector.tobytes(), nearest, limit, where, max(breadth or BREADTH, limit), is_exact)


def request_matching(hashes: Hashes, weights: Floats, limit: int, where: Filter) -> Request:
    """A request for the points of greatest weight by words."""
    nearest = edge.Query.Nearest(make_sparse_vector(hashes, weights.tolist()), using=TERMS)
    return Request(hashes.tobytes() + weights.tobytes(), nearest, limit, where)


class Candidates:
    """Queries a shard. Several threads may use it."""

    def __init__(self, shard: edge.EdgeShard) -> None:
        self._shard = shard
        self._version = 0
        self._last: dict[bool, tuple[int, Request, Points]] = {}  # by meaning, and by words
        self._ahead: dict[bytes, tuple[int, Request, Points]] = {}

    def forget(self) -> None:
        """Forgets all points, after the shard has changed."""
        self._version += 1
        self._last, self._ahead = {}, {}

    def find(self, request: Request) -> Points:
        """The points for a request, best first."""
        version, by_words = self._version, request.breadth is None
        for known in (self._last.get(by_words), self._ahead.get(request.key)):
            if known and known[0] == version and known[1].key == request.key:
                _, asked, found = known
                if asked.how == request.how and request.limit <= asked.limit:
                    return found[: request.limit]
        (found,) = self._query([request])
        self._last[by_words] = version, request, found
        return found

    def find_ahead(self, requests: Sequence[Request]) -> list[int]:
        """The rows of the points for several requests with the same filter that are made next, each once."""
        version = self._version
        found = self._query(requests)
        self._ahead = {each.key: (version, each, some) for each, some in zip(requests, found, strict=True)}
        return list({int(point.id): None for some in found for point in some})

    def _query(self, requests: Sequence[Request]) -> list[Points]:
        """The points for requests with the same filter."""
        alternatives = expand_filter(requests[0].where)
        if not alternatives:
            return [[] for _ in requests]
        with translate_errors():
            made = [_make_query(each, make_filter(alternatives)) for each in requests]
            return (
                [self._shard.query(made[0])]
                if len(made) == 1
                else self._shard.query_batch(edge.QueryBatchRequest(made))
            )


def _make_query(request: Request, where: edge.Filter | None) -> edge.QueryRequest:
    params = None
    if request.breadth is not None:
        params = edge.SearchParams(hnsw_ef=request.breadth, exact=request.exact, acorn=FILTERED)
    return edge.QueryRequest(limit=request.limit, query=request.query, filter=where, params=params)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turns what the shard raises into BrokenIndex: a plain Exception, or a panic, which is not even that."""
    try:
        yield
    except (OSError, ValueError, EOFError) as error:
        raise BrokenIndex(str(error)) from error
    except BaseException as error:
        if type(error) is Exception or type(error).__name__ == "PanicException":
            raise BrokenIndex(str(error)) from error
        raise
