"""Upkeep of a collection on a server: its graphs, and the room that deleted rows take."""

from psycopg import Connection, errors, sql

from clew.core.settings import StoreConfig
from clew.drivers.store.postgres import partitions
from clew.drivers.store.postgres.connect.errors import translate_errors
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.protection import TABLES
from clew.drivers.store.postgres.search import graph

GRAPHS = ("signals", "summaries")  # tables with a graph for each large collection
MIN_REBUILT_BYTES = 4 << 20  # of a graph, below which its size says nothing
GRAPH_ROW_BYTES = 400  # of a graph beside each vector in half precision: its neighbours
MAX_GRAPH_GROWTH = 2.0  # over what its vectors take, above which a graph is built anew


def build_due_graphs(pool: Pool, collection: OpenCollection, config: StoreConfig) -> None:
    """Builds the graphs of a collection that are due."""
    state = pool.run_read(lambda connection: graph.read_graph_state(connection, collection.number))
    tables = (
        ("signals", state.chunks, state.has_chunk_graph),
        ("summaries", state.documents, state.has_summary_graph),
    )
    due = [(table, rows) for table, rows, exists in tables if rows >= config.exact_below and not exists]
    if due and collection.dim <= graph.MAX_DIM:
        with translate_errors(pool.place), pool.open_connection() as connection:
            for table, rows in due:
                graph.build_graph(connection, table, collection, collection.dim, rows)


def maintain(pool: Pool, collection: OpenCollection, config: StoreConfig) -> list[str]:
    """Builds graphs that are due or mostly deleted rows, and vacuums the tables; what was done.

    Others search and write meanwhile. The tables are those of all collections of the database, so there is one
    upkeep of it at a time: two would wait for each other.
    """
    with translate_errors(pool.place), pool.open_connection() as connection:
        if not graph.try_lock(connection, "maintain"):
            return ["nothing done: the upkeep of this database is under way in another program"]
        is_owner = graph.is_owner(connection, "signals")
        left = sum(graph.drop_leftovers(connection, table, collection.number) for table in GRAPHS if is_owner)
        emptied = partitions.drop_leftovers(connection) if is_owner else 0
        build_due_graphs(pool, collection, config)
        if not is_owner:
            return ["the role does not own the tables; its owner, or autovacuum, removes deleted rows"]
        before = _count_dead_rows(connection)
        for table in TABLES:
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier("clew", table)))
        done = [f"dropped {left} indexes that rebuilds of graphs had left"] if left else []
        done += [f"dropped {emptied} partitions of collections that are gone"] if emptied else []
        done.append(f"vacuumed {len(TABLES)} tables, with about {before:,} deleted rows")
        state = graph.read_graph_state(connection, collection.number)
        rows = {"signals": state.chunks, "summaries": state.documents}
        return done + [line for table, count in rows.items() for line in _rebuild(connection, collection, table, count)]


def _rebuild(connection: Connection, collection: OpenCollection, table: str, rows: int) -> list[str]:
    """Builds a graph anew that takes far more than its vectors need; what was done."""
    name = f"{table}_graph_{collection.number}"
    ((size,),) = fetch_rows(connection, "SELECT pg_relation_size(to_regclass(%s))", (f"clew.{name}",))
    needed = MAX_GRAPH_GROWTH * max(rows, 1) * (2 * collection.dim + GRAPH_ROW_BYTES)
    if not size or size < max(MIN_REBUILT_BYTES, needed):
        return []
    if not graph.try_lock(connection, name):  # a switch to another model, or the removal of the collection
        return []
    connection.execute("SELECT set_config('max_parallel_maintenance_workers', '0', false)")
    index = sql.Identifier("clew", name)
    try:
        connection.execute(sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(index))
    except errors.UndefinedObject:  # it was dropped meanwhile, by a switch to another model
        return []
    ((now,),) = fetch_rows(connection, "SELECT pg_relation_size(to_regclass(%s))", (f"clew.{name}",))
    return [f"built the graph of {table} anew: {size:,} bytes became {now or 0:,}"]


def _count_dead_rows(connection: Connection) -> int:
    statement = "SELECT coalesce(sum(n_dead_tup), 0)::int8 FROM pg_stat_all_tables WHERE schemaname = 'clew'"
    return int(fetch_rows(connection, statement)[0][0])
