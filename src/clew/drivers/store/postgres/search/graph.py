"""The graph of a collection: an HNSW index of its own over its vectors in half precision, made when it is large."""

from dataclasses import dataclass

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.drivers.store.postgres.connect.pool import rows
from clew.drivers.store.postgres.connect.setup import Opened

WIDEST = 4000  # dimensions that a graph in half precision takes
MEMORY = 512  # MB at most to build one in; beyond, it is built more slowly


@dataclass(frozen=True, slots=True)
class State:
    """Where a collection stands, and which of its graphs are there."""

    change: int
    documents: int
    chunks: int
    embedder: str
    over_chunks: bool
    over_summaries: bool


def state(connection: Connection, number: int) -> State:
    """Where a collection stands now."""
    has = "coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('clew.{0}_graph_{1}')), false)"
    found = rows(
        connection,
        "SELECT change, documents, chunks, embedder,"
        f" {has.format('signals', number)}, {has.format('summaries', number)} FROM collections WHERE number = {number}",
    )
    return State(*found[0]) if found else State(0, 0, 0, "", False, False)


def build(connection: Connection, table: str, known: Opened, dim: int, many: int) -> None:
    """Builds the graph over a table's vectors, unless another program is at it or was in the meantime."""
    name = f"{table}_graph_{known.number}"
    if not rows(connection, "SELECT pg_try_advisory_lock(%s)", (_key(name),))[0][0]:
        return
    now = state(connection, known.number)
    if now.embedder != known.embedder or (now.over_chunks if table == "signals" else now.over_summaries):
        return
    memory = min(MEMORY, 64 + many * (2 * dim + 1000) // 1_000_000)
    # By one process: where several build one, some packages of pgvector fail on some processors, and the server ends
    # all connections. Others read and write meanwhile, so that it takes longer is no harm.
    connection.execute(
        "SELECT set_config('maintenance_work_mem', %s, false),"
        " set_config('max_parallel_maintenance_workers', '0', false)",
        (f"{memory}MB",),
    )
    if not _is_owner(connection, table):
        connection.execute("SELECT build_graph(%s)", (table,))
        return
    connection.execute(f"DROP INDEX IF EXISTS clew.{name}")  # one that was broken off
    connection.execute(  # as build_graph has it, but while others write
        f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw ((vector::halfvec({dim})) halfvec_l2_ops)"
        f" WITH (m = 16, ef_construction = 128) WHERE collection = {known.number}"
    )
    connection.execute(f"ANALYZE {table}")


def drop(connection: Connection, table: str, number: int) -> None:
    """Drops the graph over a table's vectors; until the connection is closed nobody builds it again."""
    name = f"{table}_graph_{number}"
    connection.execute("SELECT pg_advisory_lock(%s)", (_key(name),))
    if _is_owner(connection, table):
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS clew.{name}")
    else:
        connection.execute("SELECT drop_graph(%s)", (table,))


def _is_owner(connection: Connection, table: str) -> bool:
    sql = "SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)"
    ((is_owner,),) = rows(connection, sql, (f"clew.{table}",))
    return bool(is_owner)


def _key(name: str) -> int:
    return xxh3_64_intdigest(name.encode()) - (1 << 63)
