"""Upkeep of collections on a server: graphs, partitions and deleted rows; also the list and removal of collections.

A large collection has its own HNSW index over its vectors in half precision. The postings of each collection have their
own table, `postings_NUMBER`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import sleep

from psycopg import Connection, errors, sql
from xxhash import xxh3_64_intdigest

from clew.core.errors import DriverFailed, NotFound
from clew.core.report import Purge
from clew.core.settings import StoreConfig
from clew.core.stored import CollectionRecord
from clew.core.time import from_iso
from clew.drivers.store.postgres.errors import describe_address, translate_errors
from clew.drivers.store.postgres.inspect import TABLES
from clew.drivers.store.postgres.pool import Pool, connect, fetch_rows
from clew.drivers.store.postgres.setup import OpenCollection, has_right_format

GRAPHS = ("signals", "summaries")  # tables with a graph for each large collection
MIN_REBUILT_BYTES = 4 << 20  # smaller graphs are not rebuilt: their size says nothing
GRAPH_ROW_BYTES = 400  # of a graph per vector in half precision, for its neighbours
MAX_GRAPH_GROWTH = 2.0  # rebuild a graph that is larger than its vectors need by this factor
MAX_DIM = 4000  # dimensions that pgvector can index in half precision
LOCK_SECONDS = 0.1  # between attempts to take the lock of a graph
MAX_MEMORY = 512  # MB for building a graph; a larger graph is built more slowly
LOCK_TIMEOUT = "60s"  # to wait for users of a table
NOTE = (
    "the server's write-ahead log, archives of it, replicas, backups and logs are its operator's, and exports are "
    "their owners': they keep what was erased until they are recycled or removed"
)
# The tables with rows of a collection, including its own partition.
_TABLES = (
    "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('clew') AND relkind = 'r'"
    " AND relname <> 'format' AND (NOT relispartition OR relname = %s) ORDER BY 1"
)
ALL_COLLECTIONS = "*"  # a connection names this to list all collections; no collection can have this name
DROP_TIMEOUT = "500ms"  # for dropping a partition: searches of other collections may have to wait meanwhile


def build_due_graphs(pool: Pool, collection: OpenCollection, config: StoreConfig) -> None:
    """Build the graphs of a collection that are due."""
    state = pool.run_read(lambda connection: read_graph_state(connection, collection.number))
    due = [(table, rows) for table, rows, exists in state.graphs if rows >= config.exact_below and not exists]
    if due and collection.dim <= MAX_DIM:
        with translate_errors(pool.place), pool.open_connection() as connection:
            for table, rows in due:
                build_graph(connection, table, collection, collection.dim, rows)


def maintain(pool: Pool, collection: OpenCollection, config: StoreConfig) -> list[str]:
    """Build graphs that are due or bloated, and vacuum the tables; describe what was done.

    Others can search and write meanwhile. All collections of the database share the tables, so only one upkeep runs at
    a time: two would wait for each other.
    """
    with translate_errors(pool.place), pool.open_connection() as connection:
        if not try_lock(connection, "maintain"):
            return ["nothing done: the upkeep of this database is under way in another program"]
        owns = is_owner(connection, "signals")
        left = sum(drop_leftovers(connection, table, collection.number) for table in GRAPHS if owns)
        emptied = drop_left_partitions(connection) if owns else 0
        build_due_graphs(pool, collection, config)
        if not owns:
            return ["the role does not own the tables; its owner, or autovacuum, removes deleted rows"]
        before = _count_dead_rows(connection)
        for table in TABLES:
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier("clew", table)))
        done = [f"dropped {left} indexes that rebuilds of graphs had left"] if left else []
        done += [f"dropped {emptied} partitions of collections that are gone"] if emptied else []
        done.append(f"vacuumed {len(TABLES)} tables, with about {before:,} deleted rows")
        graphs = read_graph_state(connection, collection.number).graphs
        return done + [line for table, rows, _ in graphs for line in _rebuild(connection, collection, table, rows)]


def _rebuild(connection: Connection, collection: OpenCollection, table: str, rows: int) -> list[str]:
    """Rebuild a graph that is far larger than its vectors need; describe what was done."""
    name = f"{table}_graph_{collection.number}"
    ((size,),) = fetch_rows(connection, "SELECT pg_relation_size(to_regclass(%s))", (f"clew.{name}",))
    needed = MAX_GRAPH_GROWTH * max(rows, 1) * (2 * collection.dim + GRAPH_ROW_BYTES)
    if not size or size < max(MIN_REBUILT_BYTES, needed):
        return []
    if not try_lock(connection, name):  # held by a model switch or the removal of the collection
        return []
    connection.execute("SELECT set_config('max_parallel_maintenance_workers', '0', false)")
    index = sql.Identifier("clew", name)
    try:
        connection.execute(sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(index))
    except errors.UndefinedObject:  # dropped meanwhile by a model switch
        return []
    ((now,),) = fetch_rows(connection, "SELECT pg_relation_size(to_regclass(%s))", (f"clew.{name}",))
    return [f"built the graph of {table} anew: {size:,} bytes became {now or 0:,}"]


def _count_dead_rows(connection: Connection) -> int:
    statement = "SELECT coalesce(sum(n_dead_tup), 0)::int8 FROM pg_stat_all_tables WHERE schemaname = 'clew'"
    return int(fetch_rows(connection, statement)[0][0])


@dataclass(frozen=True, slots=True)
class GraphState:
    """The counts and the embedder of a collection, and its existing graphs."""

    documents: int
    chunks: int
    embedder: str
    has_chunk_graph: bool
    has_summary_graph: bool

    @property
    def graphs(self) -> tuple[tuple[str, int, bool], ...]:
        """(table, number of the collection's rows, whether the graph exists) for each table with a graph."""
        return ("signals", self.chunks, self.has_chunk_graph), ("summaries", self.documents, self.has_summary_graph)


def read_graph_state(connection: Connection, number: int) -> GraphState:
    """Read the current counts, embedder and HNSW graphs of a collection."""
    has = "coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('clew.{0}_graph_{1}')), false)"
    found = fetch_rows(
        connection,
        "SELECT documents, chunks, embedder,"
        f" {has.format('signals', number)}, {has.format('summaries', number)} FROM collections WHERE number = {number}",
    )
    return GraphState(*found[0]) if found else GraphState(0, 0, "", False, False)


def build_graph(connection: Connection, table: str, collection: OpenCollection, dim: int, rows: int) -> None:
    """Build the graph over a table's vectors, unless another program is building it or has built it."""
    name = f"{table}_graph_{collection.number}"
    if not try_lock(connection, name):
        return
    now = read_graph_state(connection, collection.number)
    if now.embedder != collection.embedder or any(exists for each, _, exists in now.graphs if each == table):
        return
    memory = min(MAX_MEMORY, 64 + rows * (2 * dim + 1000) // 1_000_000)
    # No parallel workers: with them, some packages of pgvector crash on some processors, and the server ends all
    # connections. Others can read and write meanwhile, so a longer build does no harm.
    connection.execute(
        "SELECT set_config('maintenance_work_mem', %s, false),"
        " set_config('max_parallel_maintenance_workers', '0', false)",
        (f"{memory}MB",),
    )
    if not is_owner(connection, table):
        connection.execute("SELECT build_graph(%s)", (table,))
        return
    connection.execute(f"DROP INDEX IF EXISTS clew.{name}")  # the remains of an interrupted build
    column = "half" if collection.is_half and table == "signals" else "vector"
    connection.execute(  # like the SQL function build_graph, but while others write
        f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw (({column}::halfvec({dim})) halfvec_l2_ops)"
        f" WITH (m = 16, ef_construction = 128) WHERE collection = {collection.number}"
    )
    connection.execute(f"ANALYZE {table}")


def drop_graph(connection: Connection, table: str, number: int) -> None:
    """Drop the graph over a table's vectors; nobody can build it again until the connection is closed."""
    name = f"{table}_graph_{number}"
    while not try_lock(connection, name):  # poll: a waiting statement would block the builder, a deadlock
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
    """Drop the indexes left by interrupted rebuilds, which still enforce the old dimension; return how many."""
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


def is_owner(connection: Connection, table: str | None = None) -> bool:
    """Return whether the role owns an existing table (None: all of them), or may act for the owner."""
    which = "relnamespace = to_regnamespace('clew') AND relkind = 'r'" if table is None else "oid = to_regclass(%s)"
    sql = f"SELECT bool_and(pg_has_role(current_user, relowner, 'USAGE')) FROM pg_class WHERE {which}"
    return bool(fetch_rows(connection, sql, () if table is None else (f"clew.{table}",))[0][0])


def try_lock(connection: Connection, name: str) -> bool:
    """Try to take a named advisory lock, held until the connection is closed; return whether it was taken."""
    key = xxh3_64_intdigest(name.encode()) - (1 << 63)
    return bool(fetch_rows(connection, "SELECT pg_try_advisory_lock(%s)", (key,))[0][0])


def rewrite_tables(pool: Pool, number: int) -> Purge:
    """Rewrite the tables of a collection without dead rows, and their statistics, if the role may."""
    with translate_errors(pool.place), pool.open_connection() as connection:
        ((role,),) = fetch_rows(connection, "SELECT current_user::text")
        tables = [name for (name,) in fetch_rows(connection, _TABLES, (f"postings_{number}",))]
        if not is_owner(connection):
            names = ", ".join(f"clew.{table}" for table in tables)
            text = (
                f"the role {role} may not rewrite the tables, whose files keep deleted rows until then; their "
                f"owner runs VACUUM (FULL, ANALYZE) {names}"
            )
            return Purge(forbidden=(text,))
        again = _rewrite(connection, tables)
        connection.execute("ANALYZE clew.postings")  # a partitioned table has its own statistics
        rewritten = f"VACUUM (FULL, ANALYZE) of {len(tables) - len(again)} of {len(tables)} tables"
        return Purge((rewritten,), tuple(again), tuple(_rewrite_statistics(connection, role)))


def rewrite_named(pool: Pool) -> None:
    """Remove the dead rows of the table `named`, if the role may."""
    with translate_errors(pool.place), pool.open_connection() as connection:
        if is_owner(connection):
            _rewrite(connection, ("named",))


def _rewrite(connection: Connection, tables: Sequence[str]) -> list[str]:
    """Rewrite tables, indexes and statistics without deleted rows; describe the tables that were in use for too long.

    Every table is locked while it is rewritten, so other programs wait.
    """
    # No parallel workers: with them, some packages of pgvector crash when they build a graph.
    connection.execute(
        "SELECT set_config('lock_timeout', %s, false), set_config('max_parallel_maintenance_workers', '0', false)",
        (LOCK_TIMEOUT,),
    )
    undone: list[str] = []
    for table in tables:
        try:
            connection.execute(sql.SQL("VACUUM (FULL, ANALYZE) {}").format(sql.Identifier("clew", table)))
        except errors.LockNotAvailable:
            undone.append(f"clew.{table} was in use and is not rewritten; run the erasure again")
    return undone


def _rewrite_statistics(connection: Connection, role: str) -> list[str]:
    """Remove older statistics from the disk: they contain sample values of every column."""
    ((allowed,),) = fetch_rows(
        connection,
        "SELECT r.rolsuper OR pg_has_role(current_user, d.datdba, 'USAGE') FROM pg_roles r, pg_database d"
        " WHERE r.rolname = current_user AND d.datname = current_database()",
    )
    statement = "VACUUM (FULL) pg_catalog.pg_statistic"
    if not allowed:
        return [
            f"the role {role} may not rewrite the server's statistics, which sample values; an administrator runs "
            f"{statement}"
        ]
    try:
        connection.execute(statement)
    except errors.LockNotAvailable:
        return [f"the server's statistics were in use and are not rewritten; an administrator runs {statement}"]
    return []


def empty_partition(connection: Connection, number: int) -> None:
    """Empty the partition of a collection, in a transaction; do nothing if the role is not its owner."""
    if is_owner(connection, f"postings_{number}"):
        connection.execute(f"TRUNCATE clew.postings_{number}")


def drop_partition(connection: Connection, number: int) -> bool:
    """Drop the partition of a removed collection, outside a transaction; return False if that must wait."""
    if not is_owner(connection, f"postings_{number}"):
        return False
    try:
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (DROP_TIMEOUT,))
            connection.execute(f"DROP TABLE IF EXISTS clew.postings_{number}")
    except (errors.LockNotAvailable, errors.DeadlockDetected):  # upkeep drops it later
        return False
    return True


def drop_left_partitions(connection: Connection) -> int:
    """Drop the partitions of removed collections; return how many. Only for the owner of the tables."""
    with connection.transaction():
        connection.execute("SELECT set_config('clew.collection', %s, true)", (ALL_COLLECTIONS,))
        found = fetch_rows(
            connection,
            "SELECT substring(relname from 10)::int AS number FROM pg_class WHERE relnamespace = 'clew'::regnamespace"
            " AND relispartition AND relkind = 'r' AND relname ~ '^postings_[0-9]+$'"
            " EXCEPT SELECT number FROM clew.collections ORDER BY 1",
        )
    return sum(drop_partition(connection, number) for (number,) in found)


def list_collections(url: str) -> list[CollectionRecord]:
    """List the collections of a database, by name; DriverFailed if the role may not list them."""
    place = describe_address(url)
    with translate_errors(place), connect(url, ALL_COLLECTIONS) as connection:
        if not has_right_format(connection, place):
            return []
        if not _may_list(connection):
            raise DriverFailed(
                f"{place}: this role may see one collection at a time, by its name, and not which there are; list them "
                "as the owner of the tables"
            )
        names = [name for (name,) in fetch_rows(connection, "SELECT name FROM collections ORDER BY name")]
        return [_read_record(connection, name) for name in names]


def drop_collection(url: str, name: str) -> CollectionRecord:
    """Remove a collection with all its rows and graphs, atomically; return its last record, or raise NotFound."""
    place = describe_address(url)
    with translate_errors(place), connect(url, name) as connection:
        found = (
            fetch_rows(connection, "SELECT number FROM collections WHERE name = %s", (name,))
            if has_right_format(connection, place)
            else []
        )
        if not found:
            raise NotFound(f"there is no collection {name!r} in {place}; `clew collections` lists them")
        record, number = _read_record(connection, name), int(found[0][0])
        for table in ("signals", "summaries"):  # nobody can build them again while this connection is open
            drop_graph(connection, table, number)
        with connection.transaction():  # writers wait
            connection.execute("SELECT 1 FROM collections WHERE number = %s FOR UPDATE", (number,))
            empty_partition(connection, number)
            # Delete the documents first: row-level security shows their rows only while the collection exists.
            connection.execute("DELETE FROM documents WHERE collection = %s", (number,))
            connection.execute("DELETE FROM collections WHERE number = %s", (number,))
        drop_partition(connection, number)
    return record


def _may_list(connection: Connection) -> bool:
    """Return whether this role can see all collections: it owns the tables, or bypasses row-level security."""
    ((may,),) = fetch_rows(
        connection,
        "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, c.relowner, 'USAGE') FROM pg_roles r, pg_class c"
        " WHERE r.rolname = current_user AND c.oid = 'clew.collections'::regclass",
    )
    return bool(may)


def _read_record(connection: Connection, name: str) -> CollectionRecord:
    """Read the record of a collection; the connection then sees only its rows."""
    connection.execute("SELECT set_config('clew.collection', %s, false)", (name,))
    ((number, documents, chunks, embedder, created),) = fetch_rows(
        connection, "SELECT number, documents, chunks, embedder, created FROM collections WHERE name = %s", (name,)
    )
    ((updated,),) = fetch_rows(connection, "SELECT max(updated) FROM documents WHERE collection = %s", (number,))
    size = estimate_disk_usage(connection, number, chunks)
    return CollectionRecord(name, documents, chunks, embedder, created, from_iso(updated), size)


def estimate_disk_usage(connection: Connection, number: int, chunks: int) -> int:
    """Estimate the bytes on disk of a collection: its partition, and its share of other tables, by chunks."""
    ((own, shared, all_chunks),) = fetch_rows(
        connection,
        "SELECT sum(pg_total_relation_size(oid)) FILTER (WHERE relname = %s)::int8,"
        " sum(pg_total_relation_size(oid)) FILTER (WHERE NOT relispartition)::int8,"
        " max(reltuples) FILTER (WHERE relname = 'chunks')"
        " FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind = 'r'",
        (f"postings_{number}",),
    )
    return int((own or 0) + shared * chunks / max(all_chunks, chunks, 1))
