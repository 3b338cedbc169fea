"""The graph of a large collection: an HNSW index of its own over its vectors in half precision."""

from dataclasses import dataclass
from time import sleep

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.errors import DriverFailed
from clew.drivers.store.postgres.connect.pool import fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection

MAX_DIM = 4000  # dimensions that pgvector indexes in half precision
LOCK_SECONDS = 0.1  # between attempts to take the lock of a graph
MAX_MEMORY = 512  # MB to build one in; a graph that needs more is built more slowly


@dataclass(frozen=True, slots=True)
class GraphState:
    """The counts and the embedder of a collection, and which of its graphs exist."""

    change: int
    documents: int
    chunks: int
    embedder: str
    has_chunk_graph: bool
    has_summary_graph: bool


def read_graph_state(connection: Connection, number: int) -> GraphState:
    """The counts and embedder of a collection now, and which of its HNSW graphs exist."""
    has = "coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('clew.{0}_graph_{1}')), false)"
    found = fetch_rows(
        connection,
        "SELECT change, documents, chunks, embedder,"
        f" {has.format('signals', number)}, {has.format('summaries', number)} FROM collections WHERE number = {number}",
    )
    return GraphState(*found[0]) if found else GraphState(0, 0, 0, "", False, False)


def build_graph(connection: Connection, table: str, collection: OpenCollection, dim: int, rows: int) -> None:
    """Builds the graph over a table's vectors, unless another program is building it or has built it."""
    name = f"{table}_graph_{collection.number}"
    if not try_lock(connection, name):
        return
    now = read_graph_state(connection, collection.number)
    if now.embedder != collection.embedder or (now.has_chunk_graph if table == "signals" else now.has_summary_graph):
        return
    memory = min(MAX_MEMORY, 64 + rows * (2 * dim + 1000) // 1_000_000)
    # Without parallel workers: with them, some packages of pgvector crash on some processors, and the server ends all
    # connections. Others read and write meanwhile, so a longer build does no harm.
    connection.execute(
        "SELECT set_config('maintenance_work_mem', %s, false),"
        " set_config('max_parallel_maintenance_workers', '0', false)",
        (f"{memory}MB",),
    )
    if not is_owner(connection, table):
        connection.execute("SELECT build_graph(%s)", (table,))
        return
    connection.execute(f"DROP INDEX IF EXISTS clew.{name}")  # the rest of an interrupted build
    column = "half" if collection.is_half and table == "signals" else "vector"
    connection.execute(  # as the SQL function build_graph does, but while others write
        f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw (({column}::halfvec({dim})) halfvec_l2_ops)"
        f" WITH (m = 16, ef_construction = 128) WHERE collection = {collection.number}"
    )
    connection.execute(f"ANALYZE {table}")


def drop_graph(connection: Connection, table: str, number: int) -> None:
    """Drops the graph over a table's vectors; nobody can build it again until the connection is closed."""
    name = f"{table}_graph_{number}"
    while not try_lock(connection, name):  # a statement that waits would stop the builder, which waits for it
        sleep(LOCK_SECONDS)
    if is_owner(connection, table):
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS clew.{name}")
        drop_leftovers(connection, table, number)
        return
    connection.execute("SELECT drop_graph(%s)", (table,))
    if left := _list_leftovers(connection, name):
        raise DriverFailed(
            f"a rebuild that was cut off has left the index {left[0]}, which this role may not drop; run "
            "`clew jobs maintain` as the owner of the tables, then try again"
        )


def drop_leftovers(connection: Connection, table: str, number: int) -> int:
    """Drops what rebuilds of a graph that were cut off have left, which takes vectors of one width; how many."""
    left = _list_leftovers(connection, f"{table}_graph_{number}")
    for name in left:
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS clew.{name}")
    return len(left)


def _list_leftovers(connection: Connection, name: str) -> list[str]:
    sql = (
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind = 'i'"
        " AND relname ~ %s ORDER BY 1"
    )
    return [left for (left,) in fetch_rows(connection, sql, (f"^{name}_cc(new|old)[0-9]*$",))]


def is_owner(connection: Connection, table: str) -> bool:
    """Whether the role owns a table, or may act for who does."""
    sql = "SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)"
    ((is_owner,),) = fetch_rows(connection, sql, (f"clew.{table}",))
    return bool(is_owner)


def try_lock(connection: Connection, name: str) -> bool:
    """Whether the lock of a name could be taken, which is then held until the connection is closed."""
    key = xxh3_64_intdigest(name.encode()) - (1 << 63)
    return bool(fetch_rows(connection, "SELECT pg_try_advisory_lock(%s)", (key,))[0][0])
