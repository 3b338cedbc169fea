"""Collections in a folder that are refused as a whole: a log of another, missing changes, a damaged file or record."""

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from clew.core.doctor import Defect
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.time import parse_iso_or_none
from clew.drivers.store.sqlite import connection, schema, sums
from clew.drivers.store.sqlite.folder import read_last_change, write_last_change
from clew.drivers.store.sqlite.tables import STATEMENTS, VERSION
from clew.drivers.store.sqlite.vectors import find_width

COUNTS = {
    "documents": "SELECT count(*) FROM documents",
    "chunks": "SELECT count(*) FROM chunks",
    "length": "SELECT coalesce(sum(length), 0) FROM signals",
    "pending": "SELECT count(*) FROM chunks WHERE pending = 1",
}
LAST = "SELECT max((SELECT coalesce(max(row), 0) FROM chunks), (SELECT coalesce(max(row), 0) FROM documents))"
# The numbers of documents that have sound rows, and no record.
ORPHANED = " UNION ".join(
    f"SELECT doc FROM {table} WHERE doc NOT IN (SELECT row FROM documents) AND sum = {sums.FIXED[table]}"
    for table in ("pieces", "chunks")
)
_KEYS = {"pieces": "doc {0}, n {0}", "blocks": "doc {0}, block {0}", "gone": "change {0}, row {0}"}  # else rowid
# A record whose number is damaged gets the one with which it matches its checksum.
_RENUMBER = (
    f"UPDATE OR IGNORE documents SET row = lost.doc FROM ({ORPHANED}) lost WHERE row NOT IN (SELECT doc FROM pieces)"
    f" AND sum = row_sum({', '.join('lost.doc' if name == 'row' else name for name in sums.RECORD)})"
)


def is_foreign_log(folder: Path, collection_id: str) -> bool:
    """Whether the log makes the collection another than the one whose last change was noted in this folder.

    SQLite applies any log, and what comes of it may look whole. A switch of model gives the collection another id too,
    which is noted a moment after: the file then has the other model. Files that were put here together agree with each
    other, and are not foreign.
    """
    file = folder / schema.FILE
    try:
        if not (folder / connection.LOG).stat().st_size or not file.stat().st_size:
            return False
    except OSError:
        return False
    seen = _read_identity(file, with_log=True)
    if seen is None or seen[0] == collection_id:
        return False
    alone = _read_identity(file, with_log=False)
    return alone is None or (alone[0] != seen[0] and alone[1] == seen[1])


def _read_identity(file: Path, *, with_log: bool) -> tuple[Any, ...] | None:
    """The id of the collection and its model; None if they cannot be read."""
    try:
        if with_log:
            opened = connection.open_read_only_connection(file)
        else:
            opened = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
        with closing(opened) as db:
            found: tuple[Any, ...] | None = db.execute("SELECT birth, embedder FROM meta").fetchone()
            return found
    except (sqlite3.Error, UnicodeDecodeError, DriverFailed):
        return None


def accept_what_is_there(folder: Path, embedder: str, known: Sequence[str]) -> Iterator[Defect]:
    """Let a collection be opened that is refused as a whole; yields what was wrong, repaired.

    A damaged record of the collection is made again, and the last change that is there counts as the last there was.

    embedder: The name of its embedder, where nothing stored says it.
    known: Names that a stored name is believed by.
    """
    file = folder / schema.FILE
    if not file.exists():
        return
    last = read_last_change(folder)
    try:
        birth, change = _read_last_change(file)
    except CollectionDamaged as error:
        _rewrite_file(file, error)
        problem = str(error).partition("; ")[0]
        try:
            birth, change = _read_last_change(file)
        except CollectionDamaged:
            with schema.translate_errors(str(file)):
                _rebuild_record(folder, last[1] if last else 0, embedder, known)
            yield Defect("truth", problem, "", "rebuild", is_repaired=True)
            return
        yield Defect("truth", problem, "", "copy", is_repaired=True)
    if last is None:
        return
    if is_foreign_log(folder, last[0]):
        problem = f"{file}: the log beside it is of another collection"
    elif birth == last[0] and change < last[1]:
        problem = f"{file}: the last {last[1] - change} changes are missing"
    else:
        return
    write_last_change(folder, birth, change)
    yield Defect("truth", problem, "", "accept", is_repaired=True)


def _read_last_change(file: Path) -> tuple[Any, ...]:
    with schema.translate_errors(str(file)), closing(connection.open_read_only_connection(file)) as db:
        return schema.read_meta(db, str(file), "birth", "change")


def _rewrite_file(file: Path, error: CollectionDamaged) -> None:
    """Rewrite a database that cannot be opened; raises the error where it is none of this version."""
    with (
        schema.translate_errors(str(file)),
        closing(sqlite3.connect(file, timeout=schema.WRITE_TIMEOUT, isolation_level=None)) as db,
    ):
        db.execute("PRAGMA writable_schema = ON")  # reads the tables, whatever is wrong with their indexes
        if schema.read_version(db) != VERSION:
            raise error
        rewrite_rows(db)


def rewrite_rows(db: sqlite3.Connection) -> None:
    """Copy all rows that can be read into new tables with new indexes, and put these in place of the database.

    A table is read from both ends, so that a page that cannot be read takes no others with it.
    """
    before, db.text_factory = db.text_factory, lambda data: data.decode("utf-8", "replace")
    try:
        version = db.execute("PRAGMA data_version").fetchone()
        with closing(sqlite3.connect("", isolation_level=None)) as fresh:  # a temporary file
            sums.register_functions(fresh)
            fresh.execute(f"PRAGMA page_size = {connection.PAGE_SIZE}")
            fresh.execute("BEGIN")
            for statement in STATEMENTS:
                fresh.execute(statement)
            for (table,) in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                _copy_rows(db, fresh, table)
            fresh.execute(_RENUMBER)
            fresh.execute(f"PRAGMA user_version = {VERSION}")
            fresh.execute("COMMIT")
            if db.execute("PRAGMA data_version").fetchone() != version:
                raise DriverFailed("another process changed the collection while it was copied; repair it again")
            fresh.backup(db)
    finally:
        db.text_factory = before


def _copy_rows(db: sqlite3.Connection, fresh: sqlite3.Connection, table: str) -> None:
    columns = [name for (name,) in fresh.execute("SELECT name FROM pragma_table_info(?)", (table,))]
    copied = f"INSERT OR IGNORE INTO {table} VALUES({', '.join('?' * len(columns))})"
    for direction in ("ASC", "DESC"):
        key = _KEYS.get(table, "rowid {0}").format(direction)
        try:
            rows = db.execute(f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY {key}")
            fresh.executemany(copied, rows)
            return
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & schema.PRIMARY_CODE != sqlite3.SQLITE_CORRUPT:
                raise


def _rebuild_record(folder: Path, last_change: int, embedder: str, known: Sequence[str]) -> None:
    """Make the record of the collection again from the tables, with a new id: every index is built again."""
    place = str(folder / schema.FILE)
    db = connection.connect(folder)
    try:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        db.execute("BEGIN IMMEDIATE")
        stored = db.execute("SELECT embedder, dim, created FROM meta").fetchone()
        if stored is None:
            raise schema.record_gone_error(place)
        counted = {name: db.execute(sql).fetchone()[0] for name, sql in COUNTS.items()}
        (revision,) = db.execute("SELECT coalesce(max(revision), 0) FROM documents").fetchone()
        (last,) = db.execute(LAST).fetchone()
        (vector,) = db.execute("SELECT vector FROM signals WHERE length(vector) > 0 LIMIT 1").fetchone() or (b"",)
        change = max(last_change, revision) + 1
        made = {
            **counted,
            "embedder": _find_embedder(db, place, stored[0], embedder, known),
            "dim": find_width(vector) or stored[1],
            "change": change,
            "last": last,
            "pruned": change,
            "birth": uuid.uuid4().hex,
            "created": stored[2] if parse_iso_or_none(str(stored[2])) else None,
            "staged": None,
        }
        sums.write_meta(db, **made)
        db.execute("DELETE FROM gone")
        db.execute("DELETE FROM staged")
        db.execute("COMMIT")
    finally:
        connection.close_connection(db, folder)
    write_last_change(folder, made["birth"], change)


def _find_embedder(db: sqlite3.Connection, place: str, stored: str, given: str, known: Sequence[str]) -> str:
    """The embedder by the calibration, by the damaged record where that is a known name, or as it is given."""
    with suppress(DriverFailed, ValueError, KeyError, TypeError):  # it is damaged too
        found = db.execute(
            f"SELECT value FROM named WHERE kind = 'calibration' AND sum = {sums.FIXED['named']}"
        ).fetchone()
        if found:
            return str(json.loads(json.loads(found[0]))["embedder"])
    if stored in known or given:
        return stored if stored in known else given
    raise CollectionDamaged(
        f"{place}: the record of the collection is damaged, and nothing says whether {stored!r} is its embedder; "
        "name that: `clew --embedder NAME doctor --repair`"
    )
