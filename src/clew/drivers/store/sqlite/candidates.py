"""Candidates: the points that a shard proposes for a query, kept for a query that asks for no more of them next."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import qdrant_edge as edge

from clew.core.facets import expand_filter
from clew.core.filter import Filter
from clew.core.stored import Hashes
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.sqlite import points
from clew.drivers.store.sqlite.index import BrokenIndex, VectorQuery

BREADTH = 192  # candidates that a search in the graph keeps: recall@10 is .98 to .99 at 100,000 chunks, .96 with 64
# Under a filter the search also visits neighbours of rows that it excludes, however many it admits: without this a
# filter that admits half finds .95 of the ten nearest, with it .997, and takes 1.7 times as long.
FILTERED = edge.AcornSearchParams(enable=True, max_selectivity=1.0)
Points = list[edge.ScoredPoint]


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


def request_nearest(query: VectorQuery, limit: int) -> Request:
    """A request for the nearest points."""
    nearest = edge.Query.Nearest(query.vector.tolist(), using=points.DENSE)
    breadth = max(query.breadth or BREADTH, limit)
    return Request(query.vector.tobytes(), nearest, limit, query.where, breadth, query.exact)


def request_matching(hashes: Hashes, weights: Floats, limit: int, where: Filter) -> Request:
    """A request for the points of greatest weight by words."""
    nearest = edge.Query.Nearest(points.make_sparse_vector(hashes, weights.tolist()), using=points.TERMS)
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
            made = [_make_query(each, points.make_filter(alternatives)) for each in requests]
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
