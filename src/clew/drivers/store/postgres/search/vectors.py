"""Vector search: exact where there are few rows, by the graph where there are many.

The graph holds vectors in half precision and only proposes candidates; their scores are computed here from the vectors
in full precision, so they are the same as in any other store. It is ordered by Euclidean distance, which orders unit
vectors as the cosine does: for the cosine pgvector uses inner products, which some of its builds get wrong on some
processors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from clew.core.cosine import compute_cosines
from clew.core.types import Vector
from clew.drivers.store import order
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.connect import planner
from clew.drivers.store.postgres.connect.pool import Row, fetch_rows
from clew.drivers.store.postgres.search.filters import SqlFragment

Found = tuple[str, int, float]  # the id of a chunk or document, its row, its cosine
BREADTH = 160  # candidates that a search in the graph keeps
MAX_BREADTH = 1000  # the most that pgvector takes
SPARE = 16  # candidates beyond k, so that ties are broken by id
HALF_SPARE = 32  # candidates beyond 2k from the graph, because half precision reorders neighbours
READ_SPARE = 3  # of them, those whose vectors are read beyond k: sending a vector takes a while
HALF_SLACK = 5e-4  # half precision changes the length of a vector, and so its score (by 2e-4 with 64 dimensions)
MAX_CANDIDATES = 20_000  # where more than this many are equal, which of them are found is left to the server


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table with vectors, and the table that has the ids of its rows."""

    name: str
    named_by: str


CHUNKS = VectorTable("signals", "chunks")
DOCUMENTS = VectorTable("summaries", "documents")


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """The k rows nearest to a vector in a table, among those of one collection that meet the conditions."""

    table: VectorTable
    number: int
    vector: Vector
    k: int
    conditions: SqlFragment
    is_half: bool = False  # the vectors are kept in half precision

    @property
    def column(self) -> str:
        """The column of the vectors."""
        return "s.half" if self.is_half else "s.vector"


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How a graph is searched: by the vector of which model, with an iterative scan under filters, how broadly."""

    embedder: str
    has_iterative_scan: bool
    breadth: int | None = None


def search_exact(connection: Connection, query: NearestQuery, subset: SqlFragment | None) -> list[Found]:
    """The nearest of all rows, or of a subset, with their cosines."""
    planner.use_custom_plans(connection)
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


def search_graph(connection: Connection, query: NearestQuery, options: GraphOptions) -> list[Found] | None:
    """The nearest rows that the graph finds; None if it found too few, or the collection is of another model now."""
    vector = binary.encode_vector(query.vector)
    params = (vector, *query.conditions.params, options.embedder, vector)
    limit, read = 2 * query.k + HALF_SPARE, query.k + READ_SPARE
    while True:
        breadth = min(max(options.breadth or BREADTH, limit), MAX_BREADTH)
        planner.use_graph_plans(
            connection, breadth, iterative=options.has_iterative_scan and bool(query.conditions.sql)
        )
        found = fetch_rows(connection, build_graph_sql(query, limit, read), params, prepare=True)
        if not found or found[0][1] < limit:
            return None
        if _is_untied(found, query) or limit >= MAX_CANDIDATES:
            return _rescore(found, query)
        limit, read = limit * 4, limit * 4


def build_graph_sql(query: NearestQuery, limit: int, read: int) -> str:
    """A query for `limit` candidates of the graph, reordered in full precision, with the ids of the first `read`.

    The model is compared once and first; if it is another, there are no candidates.
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
    """Whether no row beyond the ones read can be tied with the k-th, by their cosine distances."""
    distances = sorted(columns[0] for columns in found)
    return bool(distances[-1] - distances[query.k - 1] > (HALF_SLACK if query.is_half else order.SLACK))


def _rescore(found: Sequence[Row], query: NearestQuery) -> list[Found]:
    """The k nearest: id, row and cosine in full precision."""
    if not found:
        return []
    read = binary.decode_vectors([columns[2] for columns in found], len(query.vector))
    scores = compute_cosines(read, query.vector)
    best = order.top_k(range(len(found)), [columns[3] for columns in found], scores, query.k)
    return [(found[position][3], found[position][4], score) for position, score in best]
