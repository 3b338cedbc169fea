"""Search by vector: exact where there is little to look at, by the graph where there is much.

The graph holds vectors in half precision and only proposes candidates; their scores are computed here from the vectors
as they were given, so they are the same as in any other store. It goes by the distance, which orders unit vectors as
the cosine does: pgvector reduces the cosine to inner products, and builds of it are about that fail on some processors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from clew.core.types import Vector
from clew.drivers.store import codec as nouns
from clew.drivers.store import order
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.connect import planner as session
from clew.drivers.store.postgres.connect.pool import Row, rows
from clew.drivers.store.postgres.search.filters import Sieve

BREADTH = 160  # candidates that a search in the graph keeps
BROADEST = 1000  # that pgvector takes
MORE = 16  # candidates beyond those asked for, so that equal ones can be told apart by id
HALF = 32  # … and beyond twice as many from the graph, because half precision shuffles neighbours
SPARE = 3  # of those candidates that are read beyond those asked for: to send a vector takes a while
MOST = 20_000  # candidates; where more than this many are equal, which of them are found is left to the server


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched: the table with the vectors, and what is shown of a row `n` that is found, its id first."""

    table: str
    shown: str
    joins: str


CHUNKS = Space("signals", nouns.CHUNK_COLUMNS, "JOIN chunks c ON c.row = n.row JOIN documents d ON d.row = c.doc")
DOCUMENTS = Space("summaries", "d.id", "JOIN documents d ON d.row = n.row")


@dataclass(frozen=True, slots=True)
class Search:
    """A vector that is looked for in a space of one collection, the k nearest of the rows that a sieve lets through."""

    space: Space
    number: int
    vector: Vector
    k: int
    sieve: Sieve


@dataclass(frozen=True, slots=True)
class Graph:
    """How a graph is searched: for a question of this model, past rows that a filter keeps out, and how broadly."""

    embedder: str
    iterates: bool
    breadth: int | None = None


def exact(connection: Connection, search: Search, few: Sieve | None) -> list[tuple[Row, float]]:
    """The nearest of all rows, or of a few, with their cosines."""
    session.plan_anew(connection)
    source, given = f"{search.space.table} s", tuple[Any, ...]()
    if few:
        source, given = f"(SELECT DISTINCT x.row FROM ({few.sql}) x) y JOIN {source} ON s.row = y.row", few.given
    sql = (
        f"WITH n AS MATERIALIZED (SELECT s.row, s.vector, s.vector <=> %s::vector AS far FROM {source}"
        f" WHERE s.collection = {search.number}{search.sieve.sql} ORDER BY far LIMIT %s)"
        f" SELECT n.far, 0, n.vector, {search.space.shown} FROM n {search.space.joins}"
    )
    limit = search.k + MORE
    while True:
        found = rows(connection, sql, (codec.vector(search.vector), *given, *search.sieve.given, limit))
        if len(found) < limit or _is_settled(found, search.k) or limit >= MOST:
            return _best(found, search)
        limit *= 4


def by_graph(connection: Connection, search: Search, graph: Graph) -> list[tuple[Row, float]] | None:
    """The nearest rows that the graph finds; None where it gave up before it had enough, or is of another model."""
    vector = codec.vector(search.vector)
    given = (vector, *search.sieve.given, graph.embedder, vector)
    limit, read = 2 * search.k + HALF, search.k + SPARE
    while True:
        breadth = min(max(graph.breadth or BREADTH, limit), BROADEST)
        session.plan_for_graph(connection, breadth, iterates=graph.iterates and bool(search.sieve.sql))
        found = rows(connection, graph_sql(search, limit, read), given, prepare=True)
        if not found or found[0][1] < limit:
            return None
        if _is_settled(found, search.k) or limit >= MOST:
            return _best(found, search)
        limit, read = limit * 4, limit * 4


def graph_sql(search: Search, limit: int, read: int) -> str:
    """So many candidates of the graph, ordered by the vectors as they were given, and what is shown of the nearest.

    The model is compared once and first; where it is another, there are no candidates.
    """
    half = f"halfvec({len(search.vector)})"
    return (
        f"WITH g AS MATERIALIZED (SELECT s.row, s.vector, s.vector <=> %s::vector AS far FROM {search.space.table} s"
        f" WHERE s.collection = {search.number}{search.sieve.sql}"
        f" AND (SELECT embedder = %s FROM collections WHERE number = {search.number})"
        f" ORDER BY s.vector::{half} <-> %s::vector::{half} LIMIT {limit})"
        f" SELECT n.far, (SELECT count(*) FROM g), n.vector, {search.space.shown}"
        f" FROM (SELECT row, vector, far FROM g ORDER BY far LIMIT {read}) n {search.space.joins}"
    )


def _is_settled(found: Sequence[Row], k: int) -> bool:
    """Whether nothing beyond what was read, at its cosine distances, can be equal to the k-th."""
    far = sorted(each[0] for each in found)
    return bool(far[-1] - far[k - 1] > order.SLACK)


def _best(found: Sequence[Row], search: Search) -> list[tuple[Row, float]]:
    """What is shown of the k nearest, and their cosines."""
    if not found:
        return []
    scores = order.cosines(codec.read_vectors([each[2] for each in found], len(search.vector)), search.vector)
    best = order.best(range(len(found)), [each[3] for each in found], scores, search.k)
    return [(found[at][3:], score) for at, score in best]
