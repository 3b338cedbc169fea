"""The SQL tables of a collection, connections with checksum functions, and the errors of SQLite with advice."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from clew.core.errors import CollectionDamaged, DriverFailed, ReadOnlyStore, StoreMismatch
from clew.core.time import to_iso
from clew.drivers.store import checksums
from clew.drivers.store.checks import other_format_error
from clew.drivers.store.embed import other_model_error
from clew.drivers.store.sqlite.files import PRIVATE_FILE, make_private_folder

FILE = "clew.db"
VERSION = 14
WRITE_TIMEOUT = 30.0  # seconds that a writer waits for another one
PRIMARY_CODE = 0xFF  # the bits of the primary result code in an error code of SQLite

# Error texts of SQLite for a damaged file, of our functions for an unreadable row, and of Python for invalid UTF-8.
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

# `chunks` is for readers and `signals` for indexes: a chunk that only moved changes only the first, and showing a hit
# never reads its vector. A signal's row number is never reused, and the row changes only when its vector is filled in
# (empty while the chunk is `pending`). So an index that knows its last row and last change can compute what it lacks;
# `gone` has the tombstones of removed rows, and of filled ones, the latter without terms. The index counts document
# frequencies: each put would scatter writes over a table of them, ten times as many as its own. A chunk's text is
# stored besides its document's: cutting it from a long document would read all pages before it. A document's text is
# stored in pieces, so that a conversation grows without a rewrite. `birth` is the collection's id, `staged` the model
# of the vectors in the table `staged`, `print` the fingerprint of a chunk's entry.
# A thread has a piece for each message, ordered by `n`, with its id, its parent, and the missing parent that it awaits.
# Its chunks name their piece, and their places are relative to it. `blocks` are the sizes of 128 pieces each,
# [n, chars, chunks].
# `named` has jobs, sessions, claims and other values beside the content. `sum` is the checksum of a row.
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
    """A context manager that turns every error of SQLite into a DriverFailed with advice."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error:
            raise_if_sqlite_error(self._place, error)


def raise_if_sqlite_error(place: str, error: BaseException) -> None:
    """Raise DriverFailed with advice for an error of SQLite; ignore any other."""
    if isinstance(error, (sqlite3.Error, UnicodeError)):
        code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
        kind = ReadOnlyStore if code == sqlite3.SQLITE_READONLY else DriverFailed
        if any(sign in str(error).lower() for sign in _DAMAGE):
            kind = CollectionDamaged
        problem, _, advice = _advise_on_error(error).partition("; ")
        raise kind(f"{place}: {problem} ({error}); {advice}") from error


def has_tables(connection: sqlite3.Connection, place: str) -> bool:
    """Return whether a database has the tables of a collection, of any version."""
    with translate_errors(place):
        return bool(connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0])


def read_meta(connection: sqlite3.Connection, place: str, *names: str) -> tuple[Any, ...]:
    """Read columns of the collection's record; StoreMismatch for another version, CollectionDamaged if corrupt."""
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
    """Make the error for a collection without its record."""
    return CollectionDamaged(
        f"{place}: the record of the collection is gone; restore a backup of the file, or an export into a new "
        "collection, or add the sources to a new one"
    )


def check_record(place: str, stored: int, columns: Sequence[Any]) -> None:
    """Raise CollectionDamaged unless the checksum of the collection's record matches its columns."""
    if stored not in (checksums.UNCHECKED, checksums.hash_values(*columns)):
        raise _record_damaged_error(place)


def _record_damaged_error(place: str) -> CollectionDamaged:
    return CollectionDamaged(
        f"{place}: the record of the collection is damaged: what is stored is not what was written; "
        "`clew doctor --repair` makes it again from the tables"
    )


def prepare_tables(connection: sqlite3.Connection, place: str, *, embedder: str, dim: int, collection_id: str) -> None:
    """Create the tables of a new collection; StoreMismatch if another version or another model filled it."""
    with translate_errors(place):
        if not read_version(connection):
            _create_tables(connection, place, (embedder, dim, collection_id))
        name, width = read_meta(connection, place, "embedder", "dim")
    if (name, width) != (embedder, dim):
        raise other_model_error(place, name, width, embedder, dim)


def _create_tables(connection: sqlite3.Connection, place: str, meta: tuple[str, int, str]) -> None:
    """Create the tables in an empty file, unless another process has; StoreMismatch for a file of another program."""
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
        if connection.in_transaction:  # SQLite ends it itself if the disk is full
            connection.execute("ROLLBACK")
        raise


def read_version(connection: sqlite3.Connection) -> int:
    """Read the version of the tables; 0 if there are none."""
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
        return checksums.HALF_CHARACTER
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


META = (
    *("embedder", "dim", "change", "documents", "chunks", "length", "last", "pending", "pruned", "birth", "created"),
    "staged",
)
RECORD = (
    *("id", "title", "uri", "kind", "hash", "stamp", "chars", "chunks", "summary", "meta", "access", "summary_by"),
    *("created", "updated", "row"),
)
FOUND_BY = ("row", "id", "facets", "vector", "revision")  # the columns of a document that searches use
FIXED = {
    "pieces": "row_sum(doc, n, text, sections, chars, chunks, message, parent, awaits)",
    "blocks": "row_sum(doc, block, chars, chunks, sizes)",
    "chunks": "row_sum(row, doc, piece, idx, start, stop, headings, context, at, meta, text, id)",
    "signals": "signal_sum(row, id, facets, seconds, length, terms, counts, vector)",
    "gone": "row_sum(change, row, terms)",
    "staged": "row_sum(row, vector)",
    "named": "row_sum(kind, name, value)",
}


def register_functions(connection: sqlite3.Connection) -> None:
    """Register the checksum functions on a connection."""
    functions = {
        "row_sum": (checksums.hash_values, -1),
        "signal_sum": (lambda *columns: checksums.hash_signal(columns), 8),
    }
    for name, (function, width) in functions.items():
        connection.create_function(name, width, function, deterministic=True)


def write_meta(db: sqlite3.Connection, **columns: Any) -> None:
    """Update columns of the collection's record, and its checksum."""
    db.execute(_update_meta(tuple(columns)), tuple(columns.values()))


@cache
def _update_meta(names: tuple[str, ...]) -> str:
    given = {name: f"?{number}" for number, name in enumerate(names, 1)}
    changes = ", ".join(f"{name} = {value}" for name, value in given.items())
    return f"UPDATE meta SET {changes}, sum = row_sum({', '.join(given.get(name, name) for name in META)})"


LOG = f"{FILE}-wal"
PAGE_SIZE = 8192  # a row with a vector of 384 dimensions and its terms takes 2.5 kB


def connect(folder: Path | None) -> sqlite3.Connection:
    """Connect to the collection in a folder, creating it if necessary (None: in memory)."""
    if folder is None:
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        register_functions(connection)
        return connection
    try:
        make_private_folder(folder)
    except OSError as error:
        raise DriverFailed(f"{folder}: the collection cannot be created ({error}); give another folder") from error
    if (folder / FILE).exists() and not is_writable(folder):
        return open_read_only_connection(folder / FILE)
    with translate_errors(str(folder / FILE)):
        with suppress(OSError):  # SQLite raises the error; its log gets the same permissions
            os.close(os.open(folder / FILE, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
        connection = sqlite3.connect(
            folder / FILE, timeout=WRITE_TIMEOUT, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            _enable_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cell_size_check = ON")  # detect damaged pages on load
            connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages; each checkpoint waits for the disk
            connection.execute("PRAGMA cache_size = -16000")
            connection.execute("PRAGMA mmap_size = 268435456")  # a hit reads a few scattered rows of a large file
            register_functions(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def is_writable(folder: Path) -> bool:
    """Return whether a collection can be changed; False on a read-only disk, in a snapshot or without permission."""
    return os.access(folder, os.W_OK)


def is_frozen(file: Path) -> bool:
    """Return whether a read-only database has no log: SQLite then reads only the file, without locks."""
    return not is_writable(file.parent) and not file.with_name(LOG).exists()


def open_read_only_connection(file: Path) -> sqlite3.Connection:
    """Open a read-only connection, which also reads the log that a writer keeps beside the file."""
    with translate_errors(str(file)):
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode=ro{'&immutable=1' if is_frozen(file) else ''}",
            uri=True,
            timeout=WRITE_TIMEOUT,
            check_same_thread=False,
            isolation_level=None,
            factory=_ReadOnlyConnection,
        )
        register_functions(connection)
        return connection


class _ReadOnlyConnection(sqlite3.Connection):
    """A connection that waits while the first writer opens the log.

    In that moment, which may precede any transaction, SQLite wants to recover the log but may not write.
    """

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        deadline = time.monotonic() + WRITE_TIMEOUT
        while True:
            try:
                return super().execute(*statement)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_RECOVERY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def close_connection(connection: sqlite3.Connection, folder: Path | None) -> None:
    """Close a connection; empty the log but keep it, since read-only users need it to follow a writer."""
    with suppress(sqlite3.Error, OSError, UnicodeDecodeError):
        if folder and is_writable(folder) and not connection.in_transaction:
            connection.execute("PRAGMA busy_timeout = 0")  # other connections will do this later
            with closing(open_read_only_connection(folder / FILE)) as last:
                last.execute("SELECT count(*) FROM sqlite_master").fetchone()
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.close()
    connection.close()


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Enable the write-ahead log, with retries, since SQLite does not wait for this lock."""
    deadline = time.monotonic() + WRITE_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
