"""Makes the tables of a collection, and the errors of SQLite as DriverFailed with advice."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from clew.core.errors import CollectionDamaged, DriverFailed, ReadOnlyStore, StoreMismatch
from clew.core.time import to_iso
from clew.drivers.store import checksums
from clew.drivers.store.checks import other_format_error
from clew.drivers.store.embed import other_model_error
from clew.drivers.store.sqlite.sums import META
from clew.drivers.store.sqlite.tables import STATEMENTS, VERSION

FILE = "clew.db"
WRITE_TIMEOUT = 30.0  # seconds that a writer waits for another one
PRIMARY_CODE = 0xFF  # the bits of an error code of SQLite that say its kind

# What SQLite says of a damaged file, our functions of a row that they cannot read, and Python of bytes without text.
_DAMAGE = (
    "malformed",
    "not a database",
    "corrupt",
    "user-defined function raised",
    "could not decode",
    "can't decode",  # a message of SQLite that quotes such bytes
    "no such table",
    "no such column",
)


class translate_errors:  # noqa: N801
    """A context in which every error of SQLite becomes a DriverFailed that says what to do."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error:
            raise_if_sqlite_error(self._place, error)


def raise_if_sqlite_error(place: str, error: BaseException) -> None:
    """Raises DriverFailed with advice for an error of SQLite; returns for any other."""
    if isinstance(error, (sqlite3.Error, UnicodeError)):
        code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
        kind = ReadOnlyStore if code == sqlite3.SQLITE_READONLY else DriverFailed
        if any(sign in str(error).lower() for sign in _DAMAGE):
            kind = CollectionDamaged
        raise kind(f"{place}: {_advise_on_error(error)} ({error})") from error


def has_tables(connection: sqlite3.Connection, place: str) -> bool:
    """Whether a database has the tables of a collection, of any version."""
    with translate_errors(place):
        return bool(connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0])


def read_meta(connection: sqlite3.Connection, place: str, *names: str) -> tuple[Any, ...]:
    """Read columns of the record; StoreMismatch if another version wrote it, CollectionDamaged if it is damaged."""
    if (version := read_version(connection)) != VERSION:
        raise _other_version_error(place, version)
    try:
        cursor = connection.execute("SELECT * FROM meta")
        found = cursor.fetchone()
    except sqlite3.OperationalError as error:
        if "could not decode" not in str(error).lower():
            raise
        raise _record_damaged_error(place) from error
    if found is None:
        raise record_gone_error(place)
    record = dict(zip((name for name, *_ in cursor.description), found, strict=True))
    check_record(place, record["sum"], [record[name] for name in META])
    return tuple(record[name] for name in names)


def record_gone_error(place: str) -> CollectionDamaged:
    """The error for a collection without its record."""
    return CollectionDamaged(
        f"{place}: the record of the collection is gone; restore a backup of the file, or an export into a new "
        "collection, or add the sources to a new one"
    )


def check_record(place: str, stored: int, columns: Sequence[Any]) -> None:
    """CollectionDamaged unless the checksum of the record of the collection is that of its columns."""
    if stored not in (checksums.UNCHECKED, checksums.hash_values(*columns)):
        raise _record_damaged_error(place)


def _record_damaged_error(place: str) -> CollectionDamaged:
    return CollectionDamaged(
        f"{place}: the record of the collection is damaged: what is stored is not what was written; "
        "`clew doctor --repair` makes it again from the tables"
    )


def prepare_tables(connection: sqlite3.Connection, place: str, *, embedder: str, dim: int, collection_id: str) -> None:
    """Creates the tables of a new collection; StoreMismatch if another version or another model filled it."""
    with translate_errors(place):
        if not read_version(connection):
            _create_tables(connection, place, (embedder, dim, collection_id))
        name, width = read_meta(connection, place, "embedder", "dim")
    if (name, width) != (embedder, dim):
        raise other_model_error(place, name, width, embedder, dim)


def _create_tables(connection: sqlite3.Connection, place: str, meta: tuple[str, int, str]) -> None:
    """Creates the tables in an empty file, unless another process has done so; StoreMismatch for another program's."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = read_version(connection)
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version != VERSION:
            if tables:
                raise _other_version_error(place, version)
            for statement in STATEMENTS:
                connection.execute(statement)
            embedder, dim, birth = meta
            record = (embedder, dim, 0, 0, 0, 0, 0, 0, 0, birth, to_iso(datetime.now(UTC)), None)
            names, marks = ", ".join(META), ", ".join("?" * len(META))
            sql = f"INSERT INTO meta(one, {names}, sum) VALUES(1, {marks}, ?)"
            connection.execute(sql, (*record, checksums.hash_values(*record)))
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself where the disk is full
            connection.execute("ROLLBACK")
        raise


def read_version(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 where there are none."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _other_version_error(place: str, version: int) -> StoreMismatch:
    if version > 0:
        return other_format_error(place, version, VERSION)
    return StoreMismatch(
        f"{place} is a database, but not a collection of Clew; nothing was changed; give another folder with --path, "
        "or move the file away"
    )


def _advise_on_error(error: Exception) -> str:
    text = str(error).lower()
    if isinstance(error, UnicodeEncodeError):
        return 'a text holds half of a character pair, which cannot be stored; decode it with errors="replace"'
    if "closed" in text:
        return "the store is closed; open it again"
    if "locked" in text or "busy" in text:
        return f"another process has been writing for more than {WRITE_TIMEOUT:.0f} seconds; try again when it is done"
    if "full" in text:
        return "the disk is full; make room and try again; nothing was half written"
    if "disk i/o error" in text:
        return (
            "the disk is full, over a quota or failing; make room or check it, and try again; nothing was half written"
        )
    if any(sign in text for sign in _DAMAGE):
        return (
            "the file is damaged; `clew doctor` names what is, and `clew doctor --repair` mends what can be; otherwise "
            "restore a backup of it, or an export into a new collection"
        )
    if any(sign in text for sign in ("readonly", "read-only", "unable to open", "because it is a view")):
        return "the file cannot be opened for writing; check that it exists and the permissions of its folder"
    if isinstance(error, sqlite3.IntegrityError):
        return "a chunk id is already taken; ids must be unique within a collection"
    return "the database failed; try again, and check the disk if it fails again"
