"""Opening a collection: check the server and pgvector, create the tables and the collection."""

from dataclasses import dataclass
from importlib.resources import files

from psycopg import Connection, errors

from clew.core.errors import DriverFailed
from clew.drivers.store.checks import other_format_error
from clew.drivers.store.embed import model_switched_error, other_model_error
from clew.drivers.store.postgres import pool
from clew.drivers.store.postgres.errors import describe_address, translate_errors

MIN_SERVER, MIN_PGVECTOR = 15, (0, 7)
FORMAT = 18  # of schema.sql
SETUP_LOCK = 0x636C6577  # "clew"


@dataclass(frozen=True, slots=True)
class OpenCollection:
    """An open collection, and properties of its server."""

    number: int
    vector_oid: int  # of the type vector in this database
    has_iterative_scan: bool  # whether pgvector can continue a scan if a filter leaves too few
    embedder: str
    dim: int
    is_half: bool  # whether the vectors of chunks are stored in half precision
    place: str  # for messages


def check_model_unchanged(collection: OpenCollection, embedder: str) -> None:
    """Raise ModelSwitched if the current `embedder` is not the one with which the collection was opened."""
    if embedder != collection.embedder:
        raise model_switched_error(collection.place, embedder, collection.embedder)


def open_collection(url: str, *, collection: str, embedder: str, dim: int, is_half: bool) -> OpenCollection:
    """Open or create a collection; StoreMismatch if another model filled it.

    is_half: Whether a new collection stores the vectors of chunks in half precision.
    """
    place = describe_address(url)
    with translate_errors(place), pool.connect(url, collection) as connection:
        version = _ensure_pgvector(connection, place)
        prepare_tables(connection, place)
        found = _find_collection(connection, collection)
        if not found:
            _make_collection(connection, collection, embedder, dim, is_half=is_half)
            found = _find_collection(connection, collection)
        assert found
        number, name, width, keeps_half = found
        ((oid,),) = pool.fetch_rows(connection, "SELECT 'vector'::regtype::oid::int8")
    place = f"{place}, collection {collection!r}"
    if (name, width) != (embedder, dim):
        raise other_model_error(place, name, width, embedder, dim)
    return OpenCollection(number, oid, version >= (0, 8), embedder, dim, keeps_half, place)


def read_stored_embedder_name(url: str, collection: str, _: str = "") -> str | None:
    """Read the name of a collection's embedder; None if there is no such collection."""
    place = describe_address(url)
    with translate_errors(place), pool.connect(url, collection) as connection:
        if not has_right_format(connection, place):
            return None
        found = _find_collection(connection, collection)
        return found[1] if found else None


def make_app_role(url: str) -> None:
    """Create the role `clew_app` with the minimal rights for a store, or grant it missing ones.

    It has no password; `ALTER ROLE clew_app PASSWORD '…'` sets one.
    """
    place = describe_address(url)
    with translate_errors(place), pool.connect(url, "") as connection:
        _ensure_pgvector(connection, place)
        prepare_tables(connection, place)
        with connection.transaction():
            connection.execute((files("clew.drivers.store.postgres") / "app_role.sql").read_text("utf-8"))


def prepare_tables(connection: Connection, place: str) -> None:
    """Create the tables if there are none, while other programs wait; StoreMismatch for another format."""
    if has_right_format(connection, place):
        return
    connection.execute("SELECT pg_advisory_lock(%s)", (SETUP_LOCK,))
    try:
        if not has_right_format(connection, place):
            with connection.transaction():
                connection.execute(read_schema())
                connection.execute("INSERT INTO format VALUES(%s)", (FORMAT,))
    except errors.InsufficientPrivilege as error:
        raise DriverFailed(
            f"{place}: the tables of Clew are missing, and this role may not create them ({error}); open the "
            "collection once as the owner of the database, then grant this role what app_role.sql lists"
        ) from error
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))


def read_schema() -> str:
    """Read the SQL that creates the tables in an empty database."""
    return (files("clew.drivers.store.postgres") / "schema.sql").read_text("utf-8")


def read_format(connection: Connection) -> int:
    """Read the format of the tables; 0 if there are none."""
    for table in ("format", "migrations"):  # an earlier Clew numbered its migrations
        if pool.fetch_rows(connection, "SELECT to_regclass(%s)::text", (f"clew.{table}",))[0][0]:
            ((number,),) = pool.fetch_rows(connection, f"SELECT coalesce(max(number), 0) FROM clew.{table}")
            return int(number)
    return 0


def has_right_format(connection: Connection, place: str) -> bool:
    """Return whether the tables exist; StoreMismatch if another version of Clew created them."""
    number = read_format(connection)
    if number not in (0, FORMAT):
        raise other_format_error(place, number, FORMAT, target="database")
    return number == FORMAT


def _make_collection(connection: Connection, name: str, embedder: str, dim: int, *, is_half: bool) -> None:
    """Create a collection and its partition, unless another program has just created it."""
    statement = (
        "INSERT INTO collections(name, embedder, dim, is_half) VALUES(%s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING RETURNING 1"
    )
    with connection.transaction():
        if pool.fetch_rows(connection, statement, (name, embedder, dim, is_half)):
            connection.execute("SELECT clew.make_partition()")


def _find_collection(connection: Connection, name: str) -> tuple[int, str, int, bool] | None:
    """Return number, embedder, dimension and `is_half` of a collection; None if there is none."""
    statement = "SELECT number, embedder, dim, is_half FROM collections WHERE name = %s"
    found = pool.fetch_rows(connection, statement, (name,))
    return (found[0][0], found[0][1], found[0][2], found[0][3]) if found else None


def _ensure_pgvector(connection: Connection, place: str) -> tuple[int, ...]:
    """Enable pgvector if necessary; return its version."""
    server = connection.info.server_version // 10000
    if server < MIN_SERVER:
        raise DriverFailed(f"{place}: PostgreSQL {server} is too old; Clew needs {MIN_SERVER} or later")
    sql = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    found = pool.fetch_rows(connection, sql)
    if not found:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (errors.UndefinedFile, errors.FeatureNotSupported) as error:
            raise DriverFailed(f"{place}: the server has no pgvector; install it there ({error})") from error
        except errors.InsufficientPrivilege as error:
            raise DriverFailed(
                f"{place}: pgvector is not enabled in this database, and this role may not enable it; "
                "an administrator runs CREATE EXTENSION vector"
            ) from error
        except errors.UniqueViolation:  # another program has just enabled it
            pass
        found = pool.fetch_rows(connection, sql)
        pool.configure_connection(connection, _read_collection_name(connection))
    version = tuple(int(part) for part in found[0][0].split(".")[:2])
    if version < MIN_PGVECTOR:
        raise DriverFailed(
            f"{place}: pgvector {found[0][0]} is too old, Clew needs 0.7 or later; install it and run "
            "ALTER EXTENSION vector UPDATE"
        )
    return version


def _read_collection_name(connection: Connection) -> str:
    ((name,),) = pool.fetch_rows(connection, "SELECT current_setting('clew.collection')")
    return str(name)
