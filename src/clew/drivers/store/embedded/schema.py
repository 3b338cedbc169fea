"""The tables of a collection, and a connection to them with the errors in our own words."""

import os
import sqlite3
import time
from pathlib import Path

from clew.core.errors import DriverFailed, StoreMismatch

VERSION = 3
FILE = "clew.db"
WAIT = 30.0  # seconds that a writer waits for another one

CHANNEL = "json_extract(c.meta, '$.channel')"  # as the index below has it

# `chunks` is what a reader is shown and `signals` what an index follows: a chunk that only moved changes the first and
# not the second, and showing a hit never reads its vector. A signal's row is never reused and never changes, so an
# index that knows the last row and the last change it has seen knows all that it misses; `gone` tells it what to take
# out. How many chunks have a word is counted by the index: a table of it would be written all over by every put, ten
# times what the put itself writes. A chunk's text stands beside
# its document's: cutting it from a long document would read all the pages before it. A document's text is kept in
# pieces, so that a conversation grows without being written anew.
TABLES = """
CREATE TABLE meta(
  one INTEGER PRIMARY KEY CHECK(one = 1), embedder TEXT NOT NULL, dim INTEGER NOT NULL, change INTEGER NOT NULL,
  documents INTEGER NOT NULL, chunks INTEGER NOT NULL, length INTEGER NOT NULL, last INTEGER NOT NULL,
  pruned INTEGER NOT NULL, birth TEXT NOT NULL);
CREATE TABLE documents(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, uri TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL,
  summary TEXT NOT NULL, meta TEXT NOT NULL, facets TEXT NOT NULL, hash TEXT NOT NULL, stamp TEXT NOT NULL,
  chars INTEGER NOT NULL, chunks INTEGER NOT NULL, pieces INTEGER NOT NULL, vector BLOB);
CREATE INDEX documents_uri ON documents(uri, id);
CREATE TABLE pieces(
  doc INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE, n INTEGER NOT NULL, text TEXT NOT NULL,
  sections TEXT NOT NULL, PRIMARY KEY(doc, n)) WITHOUT ROWID;
CREATE TABLE chunks(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  idx INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, headings TEXT NOT NULL, context TEXT NOT NULL,
  at TEXT, meta TEXT NOT NULL, print INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX chunks_doc ON chunks(doc, idx);
CREATE TABLE signals(
  row INTEGER PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE, id TEXT NOT NULL, seconds REAL,
  length INTEGER NOT NULL, facets TEXT NOT NULL, terms BLOB NOT NULL, counts BLOB NOT NULL, vector BLOB NOT NULL);
CREATE TABLE gone(
  change INTEGER NOT NULL, row INTEGER NOT NULL, terms BLOB NOT NULL, PRIMARY KEY(change, row)) WITHOUT ROWID;
"""
# What brings a collection of an earlier version to the next one; a new collection goes through them all.
UPGRADES = {
    1: "CREATE INDEX chunks_channel ON chunks(json_extract(meta, '$.channel'), row)"
    " WHERE json_extract(meta, '$.channel') IS NOT NULL",
    2: """
CREATE TABLE shadow(
  one INTEGER PRIMARY KEY CHECK(one = 1), embedder TEXT NOT NULL, dim INTEGER NOT NULL, was_used INTEGER NOT NULL);
CREATE TABLE shadows(
  row INTEGER PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE summary_shadows(
  row INTEGER PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TRIGGER chunk_says_other AFTER UPDATE OF text, headings, context ON chunks
  WHEN old.text IS NOT new.text OR old.headings IS NOT new.headings OR old.context IS NOT new.context
  BEGIN DELETE FROM shadows WHERE row = new.row; END;
CREATE TRIGGER summary_says_other AFTER UPDATE OF summary, vector ON documents
  WHEN old.summary IS NOT new.summary OR old.vector IS NOT new.vector
  BEGIN DELETE FROM summary_shadows WHERE row = new.row; END
""",
}


class failing:  # noqa: N801
    """Turns every error of SQLite into a DriverFailed that says what to do. A search passes here several times."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, UnicodeEncodeError)):
            raise DriverFailed(f"{self._place}: {_advice(error)} ({error})") from error


def connect(folder: Path | None) -> sqlite3.Connection:
    """A connection to the collection in a folder, which is made if it is not there; None: one in memory."""
    if folder is None:
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DriverFailed(f"{folder}: cannot be made a collection ({error}); give another folder") from error
    if (folder / FILE).exists() and not is_writable(folder):
        return reading(folder / FILE)
    with failing(str(folder / FILE)):
        connection = sqlite3.connect(folder / FILE, timeout=WAIT, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("PRAGMA page_size = 8192")  # a row with a vector of 384 and its terms takes 2.5 kB
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: each time waits for the disk
            connection.execute("PRAGMA cache_size = -16000")
            connection.execute("PRAGMA mmap_size = 268435456")  # a hit reads a few rows all over a large file
        except BaseException:
            connection.close()
            raise
    return connection


def is_writable(folder: Path) -> bool:
    """Whether a collection can be changed: not on a disc, a snapshot or another's folder."""
    return os.access(folder, os.W_OK)


def reading(file: Path) -> sqlite3.Connection:
    """A connection that only reads; where nothing can be written beside the file, as one that cannot change."""
    fixed = "" if is_writable(file.parent) else "&immutable=1"
    with failing(str(file)):
        return sqlite3.connect(
            f"{file.as_uri()}?mode=ro{fixed}", uri=True, timeout=WAIT, check_same_thread=False, isolation_level=None
        )


def prepare(connection: sqlite3.Connection, place: str, *, embedder: str, dim: int, birth: str) -> None:
    """Makes the tables of a new collection, upgrades those of an older one, refuses one filled in another way."""
    with failing(place):
        if _version(connection) != VERSION:
            _create(connection, place, (embedder, dim, birth))
        name, width = connection.execute("SELECT embedder, dim FROM meta").fetchone()
    if (name, width) != (embedder, dim):
        raise StoreMismatch(
            f"{place} was filled with {name} ({width} dimensions) and cannot be searched or extended with {embedder} "
            f"({dim}); open it with {name}, or add the sources to a new collection"
        )


def _create(connection: sqlite3.Connection, place: str, given: tuple[str, int, str]) -> None:
    """Makes the tables, or brings those of an earlier version up to this one; somebody else's are refused."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version == 0 and tables == 0:
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES(1, ?, ?, 0, 0, 0, 0, 0, 0, ?)", given)
            version = 1
        if version not in range(1, VERSION + 1):
            raise StoreMismatch(_other_version(place, version))
        for older in range(version, VERSION):
            for statement in UPGRADES[older].split(";\n"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _other_version(place: str, version: int) -> str:
    if version > VERSION:
        return f"{place} was written by a newer Clew (format {version}, this one reads {VERSION}); update Clew"
    return f"{place} is a database, but not a collection of Clew (format {VERSION}); give another folder"


def _use_wal(connection: sqlite3.Connection) -> None:
    """Turns the write-ahead log on; SQLite does not wait for its lock here, so we do."""
    until = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _advice(error: Exception) -> str:
    text = str(error).lower()
    if isinstance(error, UnicodeEncodeError):
        return 'a text holds half of a character pair, which cannot be stored; decode it with errors="replace"'
    if "closed" in text:
        return "the store is closed; open it again"
    if "locked" in text or "busy" in text:
        return f"another process has been writing for more than {WAIT:.0f} seconds; try again when it is done"
    if "full" in text:
        return "the disk is full; make room and try again, nothing was half written"
    if "malformed" in text or "not a database" in text or "corrupt" in text:
        return "the file is damaged; put back a copy of it, or remove the folder and add the sources again"
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return "the file cannot be opened for writing; check that it is there and who may write in its folder"
    if isinstance(error, sqlite3.IntegrityError):
        return "a chunk id is already taken; ids must be unique within a collection"
    return "the database failed; try again, and check the disk if it fails again"
