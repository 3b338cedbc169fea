"""Opening: the server is fit, the tables are there and of this version, and so is the collection."""

from dataclasses import dataclass
from importlib.resources import files

from psycopg import Connection, errors

from clew.core.errors import DriverFailed, StoreMismatch
from clew.drivers.store.postgres.connect import errors as trouble
from clew.drivers.store.postgres.connect import pool

LEAST_SERVER, LEAST_VECTOR = 15, (0, 7)
LOCK = 0x636C6577  # "clew": who holds it migrates


@dataclass(frozen=True, slots=True)
class Opened:
    """What is known of a collection and its server once it is open."""

    number: int
    vector: int  # the type's number in this database
    iterates: bool  # pgvector goes on searching where a filter leaves too few
    embedder: str
    place: str  # for messages


def opened(url: str, *, collection: str, embedder: str, dim: int) -> Opened:
    """The collection, made if it is not there; StoreMismatch if it was filled in another way."""
    where = trouble.place(url)
    with trouble.failing(where), pool.connect(url, collection) as connection:
        version = _vector_version(connection, where)
        migrate(connection, where)
        known = _collection(connection, collection)
        if not known:
            connection.execute(
                "INSERT INTO collections(name, embedder, dim) VALUES(%s, %s, %s) ON CONFLICT DO NOTHING",
                (collection, embedder, dim),
            )
            known = _collection(connection, collection)
        assert known
        number, name, width = known
        ((oid,),) = pool.rows(connection, "SELECT 'vector'::regtype::oid::int8")
    if (name, width) != (embedder, dim):
        raise StoreMismatch(
            f"{where}, collection {collection!r}, was filled with {name} ({width} dimensions) and cannot be searched "
            f"or extended with {embedder} ({dim}); open it with {name}, or add the sources to a new collection"
        )
    return Opened(number, oid, version >= (0, 8), embedder, f"{where}, collection {collection!r},")


def kept_embedder(url: str, collection: str) -> str | None:
    """The name of the embedder that a collection was filled with; None where there is no such collection."""
    with trouble.failing(trouble.place(url)), pool.connect(url, collection) as connection:
        if not _version(connection):
            return None
        known = _collection(connection, collection)
        return known[1] if known else None


def make_app_role(url: str) -> None:
    """Makes the role `clew_app`, which can do no more than a store needs, or grants it what it lacks.

    It has no password; `ALTER ROLE clew_app PASSWORD '…'` gives it one.
    """
    where = trouble.place(url)
    with trouble.failing(where), pool.connect(url, "") as connection:
        _vector_version(connection, where)
        migrate(connection, where)
        with connection.transaction():
            connection.execute((files("clew.drivers.store.postgres") / "app_role.sql").read_text("utf-8"))


def migrate(connection: Connection, where: str) -> None:
    """Brings the tables up to this version, one step a transaction, while every other program waits."""
    steps = migrations()
    if _version(connection) == len(steps):
        return
    connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
    try:
        version = _version(connection)
        if version > len(steps):
            raise StoreMismatch(
                f"{where}: the tables were written by a newer Clew (format {version}, this one reads {len(steps)}); "
                "update Clew"
            )
        for number in range(version + 1, len(steps) + 1):
            name, sql = steps[number - 1]
            with connection.transaction():
                if number == 1:
                    connection.execute(
                        "CREATE SCHEMA IF NOT EXISTS clew; CREATE TABLE clew.migrations("
                        "number int PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
                    )
                connection.execute(sql)
                connection.execute("INSERT INTO migrations(number, name) VALUES(%s, %s)", (number, name))
    except errors.InsufficientPrivilege as error:
        raise DriverFailed(
            f"{where}: the tables of Clew are missing or old, and this role may not make them ({error}); open the "
            "collection once as the owner of the database, then grant this role what app_role.sql lists"
        ) from error
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))


def migrations() -> list[tuple[str, str]]:
    """The steps from an empty database to the tables of this version: name and SQL, in order."""
    found = (files("clew.drivers.store.postgres") / "migrations").iterdir()
    return [(file.name, file.read_text("utf-8")) for file in sorted(found, key=lambda file: file.name)]


def _version(connection: Connection) -> int:
    """How many steps have been made."""
    if not pool.rows(connection, "SELECT to_regclass('clew.migrations')::text")[0][0]:
        return 0
    ((version,),) = pool.rows(connection, "SELECT coalesce(max(number), 0) FROM clew.migrations")
    return int(version)


def _collection(connection: Connection, name: str) -> tuple[int, str, int] | None:
    found = pool.rows(connection, "SELECT number, embedder, dim FROM collections WHERE name = %s", (name,))
    return (found[0][0], found[0][1], found[0][2]) if found else None


def _vector_version(connection: Connection, where: str) -> tuple[int, ...]:
    """The version of pgvector, which is turned on if it is not."""
    server = connection.info.server_version // 10000
    if server < LEAST_SERVER:
        raise DriverFailed(f"{where}: PostgreSQL {server} is too old; Clew needs {LEAST_SERVER} or later")
    sql = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    found = pool.rows(connection, sql)
    if not found:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (errors.UndefinedFile, errors.FeatureNotSupported) as error:
            raise DriverFailed(f"{where}: the server has no pgvector; install it there ({error})") from error
        except errors.InsufficientPrivilege as error:
            raise DriverFailed(
                f"{where}: pgvector is not turned on in this database, and this role may not do it; "
                "an administrator runs CREATE EXTENSION vector"
            ) from error
        except errors.UniqueViolation:  # another program has just done it
            pass
        found = pool.rows(connection, sql)
        pool.configure(connection, _name(connection))
    version = tuple(int(part) for part in found[0][0].split(".")[:2])
    if version < LEAST_VECTOR:
        raise DriverFailed(
            f"{where}: pgvector {found[0][0]} is too old, Clew needs 0.7 or later; install it and run "
            "ALTER EXTENSION vector UPDATE"
        )
    return version


def _name(connection: Connection) -> str:
    ((name,),) = pool.rows(connection, "SELECT current_setting('clew.collection')")
    return str(name)
