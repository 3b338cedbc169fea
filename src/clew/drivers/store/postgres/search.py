"""The index of a collection in PostgreSQL: each search by vectors or words is one statement.

A vector search is exact for few rows and uses the graph for many. The graph has vectors in half precision and only
proposes candidates; scores are computed here in full precision, so they are the same as in any other store. The graph
uses Euclidean distance, which orders unit vectors like the cosine: for the cosine pgvector uses inner products, which
some of its builds get wrong on some processors.

A word search is BM25 over the postings, with the formula of `bm25`. Each search counts document frequencies and takes
the mean length in its snapshot, so a score does not depend on the collection's history.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from psycopg import Connection

from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Vector
from clew.drivers.store import scan
from clew.drivers.store.backend import USUAL, Effort, Head, RowScores, Snapshot, T
from clew.drivers.store.bm25 import DIGITS, K1, MIN_CHUNKS, B
from clew.drivers.store.postgres import binary, pool, rows, upkeep
from clew.drivers.store.postgres.pool import Pool, Row, fetch_rows
from clew.drivers.store.postgres.rows import SqlFragment
from clew.drivers.store.postgres.setup import OpenCollection, check_model_unchanged
from clew.drivers.store.scan import ScanIndex, compute_cosines

Found = tuple[str, int, float]  # the id of a chunk or document, its row, its cosine
BREADTH = 160  # candidates of a search in the graph
MAX_BREADTH = 1000  # the maximum of pgvector
SPARE = 16  # candidates beyond k, so that ties are broken by id
HALF_SPARE = 32  # candidates beyond 2k from the graph, because half precision reorders neighbours
READ_SPARE = 3  # candidates beyond k whose vectors are read: sending vectors is slow
HALF_SLACK = 5e-4  # half precision changes the length of a vector, and so its score (by 2e-4 with 64 dimensions)
MAX_CANDIDATES = 20_000  # with more ties than this, the server chooses among them
REFRESH_SECONDS = 10.0  # after which the list of graphs is refreshed; every search checks the model
TIED_SPARE = 6  # rows to read beyond the k best; if all of them are tied, all tied rows are read
FILTERED_MARGIN = 500  # rows beyond the k best in the first attempt with a filter
ALL = 1 << 62
UNIT = 10**DIGITS

_WEIGHTS = f"""
WITH w AS MATERIALIZED (
  SELECT a.word, {K1}::float8 * {B}::float8 / greatest(c.length::float8 / greatest(c.chunks, 1), 1e-9::float8) AS slope,
    a.times * ln(1::float8 + (greatest(c.chunks, h.many, {MIN_CHUNKS}) - h.many + 0.5::float8)
      / (h.many + 0.5::float8)) AS weight
  FROM unnest(%s::bigint[], %s::int[]) AS a(word, times)
  JOIN LATERAL ({{many}}) h ON true
  JOIN collections c ON c.number = {{number}})
"""
_COUNTED = "SELECT count(*)::float8 AS many FROM postings p WHERE p.word = a.word AND p.collection = {number}"
_COUNTED_ALL = "SELECT clew.count_chunks(a.word)::float8 AS many"  # including hidden chunks
_SCORE = f"sum(w.weight * p.count / (p.count + {K1}::float8 * (1::float8 - {B}::float8) + w.slope * p.length))"
_SCORED = f"""{_WEIGHTS}, t AS (
  SELECT p.chunk, {_SCORE} AS score
  FROM w JOIN postings p ON p.word = w.word AND p.collection = {{number}}{{subset}} GROUP BY p.chunk),
"""
_HITS = "c.id, c.row FROM best JOIN chunks c ON c.row = best.chunk"
# The best without a full sort; the choice among those tied with the last is arbitrary.
_FIRST = f"""
best AS (SELECT chunk, score FROM t ORDER BY score DESC LIMIT {{limit}})
SELECT round(best.score * {UNIT}::float8), {_HITS} WHERE best.score > 0
"""
_TIED = f"""
best AS (
  SELECT chunk, round(score * {UNIT}::float8) AS score FROM t ORDER BY 2 DESC FETCH FIRST {{limit}} ROWS WITH TIES)
SELECT best.score, {_HITS}{{joins}} WHERE best.score > 0{{conditions}} ORDER BY best.score DESC, c.id LIMIT {{k}}
"""
_FREQUENCIES = """
SELECT h.many FROM unnest(%s::bigint[]) WITH ORDINALITY AS a(word, place)
JOIN LATERAL ({some}) h ON true ORDER BY a.place
"""
_COUNTED_SOME = """SELECT count(*) AS many FROM (
  SELECT FROM postings p WHERE p.word = a.word AND p.collection = {number} LIMIT %s::bigint) s"""
_COUNTED_SOME_OF_ALL = "SELECT least(clew.count_chunks(a.word), %s::bigint) AS many"


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table with vectors, and the table with the ids of its rows."""

    name: str
    named_by: str


CHUNKS = VectorTable("signals", "chunks")
DOCUMENTS = VectorTable("summaries", "documents")


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A query for the k nearest rows to a vector in a table, in one collection, under conditions."""

    table: VectorTable
    number: int
    vector: Vector
    k: int
    conditions: SqlFragment
    is_half: bool = False  # whether the vectors are stored in half precision

    @property
    def column(self) -> str:
        """The column of the vectors."""
        return "s.half" if self.is_half else "s.vector"


class PostgresIndex(ScanIndex):
    """Searches of a collection; see `clew.drivers.store.backend.Index`. Each sees the current state.

    The list of graphs is cached for REFRESH_SECONDS.
    """

    def __init__(
        self,
        read: Callable[[Head], AbstractContextManager[Snapshot]],
        pool: Pool,
        collection: OpenCollection,
        config: StoreConfig,
    ) -> None:
        super().__init__(read)
        self._pool, self.collection, self._exact_below = pool, collection, config.exact_below
        self._is_limited = config.access is not None  # by labels
        self._graphs = frozenset[VectorTable]()  # the tables with a graph …
        self._refreshed = 0.0  # … at this time

    def _search(
        self, where: Filter, search: Callable[[Connection, SqlFragment, SqlFragment | None], list[T]]
    ) -> list[T]:
        """Search with a filter: within the subset that it admits if that is small, else with conditions."""
        alternatives = expand_filter(where)
        if not alternatives:
            return []
        conditions = rows.build_filter_conditions(alternatives)

        def run(connection: Connection) -> list[T]:
            number = self.collection.number
            subset = rows.find_narrow_subset(connection, number, alternatives, self._exact_below)
            return search(connection, conditions, subset)

        return self._pool.run_read_with_own_plan(run)

    # -- by vectors

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k chunks with the highest cosine."""

        def search(connection: Connection, conditions: SqlFragment, subset: SqlFragment | None) -> list[Found]:
            number, is_half = self.collection.number, self.collection.is_half
            query = NearestQuery(CHUNKS, number, vector, k, conditions, is_half=is_half)
            return self._find_nearest(connection, query, subset, effort)

        return [(row, score) for _, row, score in self._search(where, search)]

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """Find the k documents with the nearest summary vector, and the cosines."""
        alternatives = expand_document_filter(where)
        if not alternatives:
            return []
        conditions = rows.build_filter_conditions(alternatives)
        query = NearestQuery(DOCUMENTS, self.collection.number, vector, k, conditions)
        found = self._pool.run_read_with_own_plan(lambda connection: self._find_nearest(connection, query))
        return [(doc_id, score) for doc_id, _, score in found]

    def _find_nearest(
        self,
        connection: Connection,
        query: NearestQuery,
        subset: SqlFragment | None = None,
        effort: Effort = USUAL,
    ) -> list[Found]:
        """Find the nearest rows, with the graph if there is one and it pays; ModelSwitched after a switch."""
        by_graph = not effort.is_exact and not subset
        is_known = by_graph and query.table in self._graphs and monotonic() <= self._refreshed + REFRESH_SECONDS
        if not is_known:
            self._refresh_graphs(connection)
        if by_graph and query.table in self._graphs:
            found = search_graph(connection, query, self.collection, effort.breadth)
            if found is not None:
                return found
        if is_known:
            self._refresh_graphs(connection)
        return search_exact(connection, query, subset)

    def _refresh_graphs(self, connection: Connection) -> None:
        state = upkeep.read_graph_state(connection, self.collection.number)
        if state.embedder:
            check_model_unchanged(self.collection, state.embedder)
        self._refreshed = monotonic()
        graphs = (
            (CHUNKS, state.has_chunk_graph, state.chunks),
            (DOCUMENTS, state.has_summary_graph, state.documents),
        )
        self._graphs = frozenset(table for table, exists, rows in graphs if exists and rows >= self._exact_below)

    # -- by words

    def _fill(self, sql: str, *, subset: str = "") -> str:
        """Fill in a statement for this collection; document frequencies always count the whole of it."""
        number = self.collection.number
        many = _COUNTED_ALL if self._is_limited else _COUNTED.format(number=number)
        some = _COUNTED_SOME_OF_ALL if self._is_limited else _COUNTED_SOME.format(number=number)
        return sql.format(number=number, many=many, some=some, subset=subset)

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k chunks with the highest BM25 score."""
        words = (binary.encode_bigints(terms.hashes), binary.encode_ints(terms.counts))

        def search(connection: Connection, conditions: SqlFragment, subset: SqlFragment | None) -> list[Row]:
            params = (*words, *(subset.params if subset else ()), *conditions.params)
            scored = self._fill(_SCORED, subset=f" WHERE p.chunk IN ({subset.sql})" if subset else "")
            if subset:
                pool.use_custom_plans(connection)
            else:
                pool.use_generic_plans(connection)
            if not conditions.sql and len(terms.hashes) > 1:  # with one word, many are tied
                found = fetch_rows(connection, scored + _FIRST.format(limit=k + TIED_SPARE), params, prepare=True)
                found.sort(key=lambda columns: (-columns[0], columns[1]))
                if len(found) < k + TIED_SPARE or found[k - 1][0] > found[-1][0]:
                    return found[:k]
            joins = " JOIN signals s ON s.row = best.chunk" if conditions.sql else ""
            for limit in (k,) if not conditions.sql else (ALL,) if subset else (k + FILTERED_MARGIN, ALL):
                tied = _TIED.format(joins=joins, conditions=conditions.sql, limit=limit, k=k)
                found = fetch_rows(connection, scored + tied, params, prepare=None if subset else True)
                if len(found) == k:
                    break
            return found

        return [(row, score / UNIT) for score, _, row in self._search(where, search)]

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """Count, for each term, the chunks that have it, up to `at_most`."""
        params = binary.encode_bigints(hashes), at_most or ALL

        def count(connection: Connection) -> list[int]:
            pool.use_generic_plans(connection)
            return [int(many) for (many,) in fetch_rows(connection, self._fill(_FREQUENCIES), params, prepare=True)]

        return self._pool.run_read_with_own_plan(count)


def search_exact(connection: Connection, query: NearestQuery, subset: SqlFragment | None) -> list[Found]:
    """Find the nearest rows among all, or in a subset, with their cosines."""
    pool.use_custom_plans(connection)
    source, params = f"{query.table.name} s", tuple[Any, ...]()
    if subset:
        source = f"(SELECT DISTINCT x.row FROM ({subset.sql}) x) y JOIN {source} ON s.row = y.row"
        params = subset.params
    sql = (
        f"WITH n AS MATERIALIZED (SELECT s.row, {query.column}::vector AS vector,"
        f" {query.column}::vector <=> %s::vector AS far FROM {source}"
        f" WHERE s.collection = {query.number} AND {query.column} IS NOT NULL{query.conditions.sql}"
        " ORDER BY far LIMIT %s)"
        f" SELECT n.far, 0, n.vector, o.id, o.row FROM n JOIN {query.table.named_by} o ON o.row = n.row"
    )
    limit = query.k + SPARE
    while True:
        vector = binary.encode_vector(query.vector)
        found = fetch_rows(connection, sql, (vector, *params, *query.conditions.params, limit))
        if len(found) < limit or _is_untied(found, query) or limit >= MAX_CANDIDATES:
            return _rescore(found, query)
        limit *= 4


def search_graph(
    connection: Connection, query: NearestQuery, collection: OpenCollection, breadth: int | None
) -> list[Found] | None:
    """Find the nearest rows with the graph; None if it finds too few, or the collection has another model now."""
    vector = binary.encode_vector(query.vector)
    params = (vector, *query.conditions.params, collection.embedder, vector)
    limit, read = 2 * query.k + HALF_SPARE, query.k + READ_SPARE
    while True:
        wide = min(max(breadth or BREADTH, limit), MAX_BREADTH)
        pool.use_graph_plans(connection, wide, iterative=collection.has_iterative_scan and bool(query.conditions.sql))
        found = fetch_rows(connection, build_graph_sql(query, limit, read), params, prepare=True)
        if not found or found[0][1] < limit:
            return None
        if _is_untied(found, query) or limit >= MAX_CANDIDATES:
            return _rescore(found, query)
        limit, read = limit * 4, limit * 4


def build_graph_sql(query: NearestQuery, limit: int, read: int) -> str:
    """Build a query for `limit` candidates of the graph, reordered in full precision, with the ids of the first `read`.

    It first checks the model: if it is another, there are no candidates.
    """
    half = f"halfvec({len(query.vector)})"
    return (
        f"WITH g AS MATERIALIZED (SELECT s.row, {query.column}::vector AS vector,"
        f" {query.column}::vector <=> %s::vector AS far FROM {query.table.name} s"
        f" WHERE s.collection = {query.number} AND {query.column} IS NOT NULL{query.conditions.sql}"
        f" AND (SELECT embedder = %s FROM collections WHERE number = {query.number})"
        f" ORDER BY {query.column}::{half} <-> %s::vector::{half} LIMIT {limit})"
        f" SELECT n.far, (SELECT count(*) FROM g), n.vector, o.id, o.row"
        f" FROM (SELECT row, vector, far FROM g ORDER BY far LIMIT {read}) n"
        f" JOIN {query.table.named_by} o ON o.row = n.row"
    )


def _is_untied(found: Sequence[Row], query: NearestQuery) -> bool:
    """Return whether no unread row can be tied with the k-th, judging by the cosine distances."""
    distances = sorted(columns[0] for columns in found)
    return bool(distances[-1] - distances[query.k - 1] > (HALF_SLACK if query.is_half else scan.SLACK))


def _rescore(found: Sequence[Row], query: NearestQuery) -> list[Found]:
    """Return the k nearest as (id, row, cosine), rescored in full precision."""
    if not found:
        return []
    read = binary.decode_vectors([columns[2] for columns in found], len(query.vector))
    scores = compute_cosines(read, query.vector)
    best = scan.top_k(range(len(found)), [columns[3] for columns in found], scores, query.k)
    return [(found[position][3], found[position][4], score) for position, score in best]
