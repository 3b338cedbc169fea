"""The collections of a server: which there are, and the removal of one."""

from psycopg import Connection

from clew.core.collection import CollectionRecord
from clew.core.errors import DriverFailed, NotFound
from clew.core.time import from_iso
from clew.drivers.store.postgres import pool
from clew.drivers.store.postgres.errors import describe_address, translate_errors
from clew.drivers.store.postgres.setup import has_right_format
from clew.drivers.store.postgres.upkeep import ALL_COLLECTIONS, drop_graph, drop_partition, empty_partition


def list_collections(url: str) -> list[CollectionRecord]:
    """The collections of a database, by name; DriverFailed if the role may not see which there are."""
    place = describe_address(url)
    with translate_errors(place), pool.connect(url, ALL_COLLECTIONS) as connection:
        if not has_right_format(connection, place):
            return []
        if not _may_list(connection):
            raise DriverFailed(
                f"{place}: this role may see one collection at a time, by its name, and not which there are; list them "
                "as the owner of the tables"
            )
        names = [name for (name,) in pool.fetch_rows(connection, "SELECT name FROM collections ORDER BY name")]
        return [_read_record(connection, name) for name in names]


def drop_collection(url: str, name: str) -> CollectionRecord:
    """Removes a collection with every row and graph of it, whole or not at all; what it was, or NotFound."""
    place = describe_address(url)
    with translate_errors(place), pool.connect(url, name) as connection:
        found = (
            pool.fetch_rows(connection, "SELECT number FROM collections WHERE name = %s", (name,))
            if has_right_format(connection, place)
            else []
        )
        if not found:
            raise NotFound(f"there is no collection {name!r} in {place}; `clew collections` lists them")
        record, number = _read_record(connection, name), int(found[0][0])
        for table in ("signals", "summaries"):  # and nobody builds them again while this connection is open
            drop_graph(connection, table, number)
        with connection.transaction():  # for which writers wait
            connection.execute("SELECT 1 FROM collections WHERE number = %s FOR UPDATE", (number,))
            empty_partition(connection, number)
            # The documents go while the collection is there: row security admits what belongs to them only then.
            connection.execute("DELETE FROM documents WHERE collection = %s", (number,))
            connection.execute("DELETE FROM collections WHERE number = %s", (number,))
        drop_partition(connection, number)
    return record


def _may_list(connection: Connection) -> bool:
    """Whether row security lets this role see all collections: it owns the tables, or is free of it."""
    ((may,),) = pool.fetch_rows(
        connection,
        "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, c.relowner, 'USAGE') FROM pg_roles r, pg_class c"
        " WHERE r.rolname = current_user AND c.oid = 'clew.collections'::regclass",
    )
    return bool(may)


def _read_record(connection: Connection, name: str) -> CollectionRecord:
    """What the tables say of a collection; the connection then sees its rows and no others."""
    connection.execute("SELECT set_config('clew.collection', %s, false)", (name,))
    ((number, documents, chunks, embedder, created),) = pool.fetch_rows(
        connection, "SELECT number, documents, chunks, embedder, created FROM collections WHERE name = %s", (name,)
    )
    ((updated,),) = pool.fetch_rows(connection, "SELECT max(updated) FROM documents WHERE collection = %s", (number,))
    size = estimate_disk_usage(connection, number, chunks)
    return CollectionRecord(name, documents, chunks, embedder, created, from_iso(updated), size)


def estimate_disk_usage(connection: Connection, number: int, chunks: int) -> int:
    """About how many bytes of the server's disk a collection takes: its partition, and its share of the other tables.

    The share is by its chunks.
    """
    ((own, shared, all_chunks),) = pool.fetch_rows(
        connection,
        "SELECT sum(pg_total_relation_size(oid)) FILTER (WHERE relname = %s)::int8,"
        " sum(pg_total_relation_size(oid)) FILTER (WHERE NOT relispartition)::int8,"
        " max(reltuples) FILTER (WHERE relname = 'chunks')"
        " FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind = 'r'",
        (f"postings_{number}",),
    )
    return int((own or 0) + shared * chunks / max(all_chunks, chunks, 1))
