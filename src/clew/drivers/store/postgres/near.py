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
from clew.drivers.store.postgres.pool import Row, rows
from clew.drivers.store.postgres.sieve import Sieve

BREADTH = 160  # candidates that a search in the graph keeps
BROADEST = 1000  # that pgvector takes
MORE = 16  # candidates beyond those asked for, so that equal ones can be told apart by id
HALF = 32  # … and beyond twice as many from the graph, because half precision shuffles neighbours
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


def exact(connection: Connection, search: Search, few: Sieve | None) -> list[tuple[Row, float]]:
    """The nearest of all rows, or of a few, with their cosines."""
    source, given = f"{search.space.table} s", tuple[Any, ...]()
    if few:
        source, given = f"(SELECT DISTINCT x.row FROM ({few.sql}) x) y JOIN {source} ON s.row = y.row", few.given
    limit = search.k + MORE
    while True:
        sql = _sql(search, "s.vector <=> %s::vector", source)
        found = rows(connection, sql, (codec.vector(search.vector), *given, *search.sieve.given, limit))
        if _is_settled([each[1] for each in found], search.k, limit):
            return _best(found, search)
        limit *= 4


def by_graph(
    connection: Connection, search: Search, breadth: int | None, *, iterates: bool
) -> list[tuple[Row, float]] | None:
    """The nearest rows that the graph finds; None where it gave up before it had enough."""
    half = f"halfvec({len(search.vector)})"
    limit = 2 * search.k + HALF
    sql = _sql(search, f"s.vector::{half} <-> %s::vector::{half}", f"{search.space.table} s")
    settings = ["set_config('enable_sort', 'off', true)", "set_config('hnsw.ef_search', %s, true)"]
    if iterates:  # past rows that a filter keeps out
        settings.append("set_config('hnsw.iterative_scan', 'relaxed_order', true)")
    while True:
        broad = min(max(breadth or BREADTH, limit), BROADEST)
        with connection.pipeline(), connection.transaction():
            connection.execute(f"SELECT {', '.join(settings)}", (str(broad),))
            found = rows(connection, sql, (codec.vector(search.vector), *search.sieve.given, limit))
        if len(found) < limit:
            return None
        if _is_settled([each[1] ** 2 / 2 for each in found], search.k, limit):
            return _best(found, search)
        limit *= 4


def _sql(search: Search, far: str, source: str) -> str:
    return (
        f"WITH n AS MATERIALIZED (SELECT s.row, s.vector, {far} AS far FROM {source}"
        f" WHERE s.collection = {search.number}{search.sieve.sql} ORDER BY far LIMIT %s)"
        f" SELECT n.vector, n.far, {search.space.shown} FROM n {search.space.joins}"
    )


def _is_settled(far: Sequence[float], k: int, limit: int) -> bool:
    """Whether nothing beyond what was found, at such cosine distances, can be equal to the k-th."""
    near = sorted(far)
    return len(near) < limit or near[-1] - near[k - 1] > order.SLACK or limit >= MOST


def _best(found: Sequence[Row], search: Search) -> list[tuple[Row, float]]:
    if not found:
        return []
    vectors = codec.read_vectors([each[0] for each in found], len(search.vector))
    scores = order.cosines(vectors, search.vector)
    best = order.best(range(len(found)), [each[2] for each in found], scores, search.k)
    return [(found[at][2:], score) for at, score in best]
