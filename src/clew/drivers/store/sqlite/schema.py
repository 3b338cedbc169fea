"""The tables of a collection as SQL, how they are made, and the errors of SQLite as DriverFailed with advice."""

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

FILE = "clew.db"
VERSION = 13
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

# `chunks` is what a reader is shown and `signals` what an index follows: a chunk that only moved changes the first and
# not the second, and showing a hit never reads its vector. A signal's row is never reused and never changes but for a
# vector that is filled in (empty while the chunk is `pending`), so an index that knows the last row and the last change
# it has seen knows what it lacks; `gone` holds the tombstones of removed rows, and of filled ones, without terms.
# Document frequencies are counted by the index: a table of them would be written all over by every put, ten times what
# the put itself writes. A chunk's text is stored besides its document's: cutting it from a long document would read all
# the pages before it. A document's text is stored in pieces, so that a conversation grows without being rewritten.
# `birth` is the collection's id, `staged` the model of the vectors in the table `staged`, `print` is an entry's
# fingerprint.
# A thread has a piece for each message, ordered by `n`, with its id, its parent and the missing message that it
# answers; its chunks name their piece, and places are counted from its start. `blocks` are the sizes of 128 pieces
# each, [n, chars, chunks].
# `named` has jobs, sessions, claims and what else is kept beside the content. `sum` is the checksum of a row.
TABLES = """
CREATE TABLE meta(
  one INTEGER PRIMARY KEY CHECK(one = 1), embedder TEXT NOT NULL, dim INTEGER NOT NULL, change INTEGER NOT NULL,
  documents INTEGER NOT NULL, chunks INTEGER NOT NULL, length INTEGER NOT NULL, last INTEGER NOT NULL,
  pending INTEGER NOT NULL, pruned INTEGER NOT NULL, birth TEXT NOT NULL, created TEXT, staged TEXT,
  sum INTEGER NOT NULL);
CREATE TABLE documents(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, uri TEXT NOT NULL, kind TEXT NOT NULL,
  hash TEXT NOT NULL, stamp TEXT NOT NULL, chars INTEGER NOT NULL, chunks INTEGER NOT NULL, summary TEXT NOT NULL,
  meta TEXT NOT NULL, access TEXT, summary_by TEXT NOT NULL, created TEXT, updated TEXT, sum INTEGER NOT NULL,
  revision INTEGER NOT NULL, facets TEXT NOT NULL, vector BLOB, pending INTEGER, found_sum INTEGER NOT NULL);
CREATE INDEX documents_pending ON documents(pending, row) WHERE pending IS NOT NULL;
CREATE TABLE pieces(
  doc INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, sections TEXT NOT NULL, chars INTEGER NOT NULL,
  chunks INTEGER NOT NULL, message TEXT, parent TEXT, awaits TEXT, sum INTEGER NOT NULL, block INTEGER,
  PRIMARY KEY(doc, n)) WITHOUT ROWID;
CREATE INDEX pieces_block ON pieces(doc, block, n, chars, chunks) WHERE block IS NOT NULL;
CREATE INDEX pieces_message ON pieces(doc, message) WHERE message IS NOT NULL;
CREATE INDEX pieces_parent ON pieces(doc, parent) WHERE parent IS NOT NULL;
CREATE INDEX pieces_awaits ON pieces(awaits) WHERE awaits IS NOT NULL;
CREATE TABLE blocks(
  doc INTEGER NOT NULL, block INTEGER NOT NULL, chars INTEGER NOT NULL, chunks INTEGER NOT NULL, sizes TEXT NOT NULL,
  sum INTEGER NOT NULL, PRIMARY KEY(doc, block)) WITHOUT ROWID;
CREATE TABLE chunks(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc INTEGER NOT NULL, piece INTEGER, idx INTEGER NOT NULL,
  start INTEGER NOT NULL, stop INTEGER NOT NULL, print INTEGER NOT NULL, text TEXT NOT NULL, headings TEXT NOT NULL,
  context TEXT NOT NULL, at TEXT, meta TEXT NOT NULL, channel TEXT, sum INTEGER NOT NULL, length INTEGER NOT NULL,
  pending INTEGER);
CREATE INDEX chunks_doc ON chunks(doc, piece, idx);
CREATE INDEX chunks_channel ON chunks(channel, row) WHERE channel IS NOT NULL;
CREATE INDEX chunks_pending ON chunks(pending, row) WHERE pending IS NOT NULL;
CREATE TABLE signals(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL, seconds REAL, length INTEGER NOT NULL, facets TEXT NOT NULL,
  terms BLOB NOT NULL, counts BLOB NOT NULL, vector BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE gone(
  change INTEGER NOT NULL, row INTEGER NOT NULL, terms BLOB NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY(change, row)) WITHOUT ROWID;
CREATE TABLE staged(row INTEGER PRIMARY KEY, vector BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE named(
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, sum INTEGER NOT NULL,
  UNIQUE(kind, name));
"""
STATEMENTS = [each for each in TABLES.split(";\n") if each.strip()]


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
        problem, _, advice = _advise_on_error(error).partition("; ")
        raise kind(f"{place}: {problem} ({error}); {advice}") from error


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
