"""The doctor of a folder: checks and repair of the SQLite file.

It also makes collections open again that are refused as a whole (a foreign log, missing changes, a damaged file).
"""

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from clew.core.doctor import Area, Defect
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.patterns import compile_pattern
from clew.core.time import parse_iso_or_none
from clew.drivers.store.rows import record_to_facets
from clew.drivers.store.sqlite import schema
from clew.drivers.store.sqlite.folder import is_foreign_log, read_last_change, write_last_change
from clew.drivers.store.sqlite.schema import STATEMENTS, VERSION
from clew.drivers.store.sqlite.signals import find_width

MAX_PROBLEMS = 100  # for SQLite to list
_PART = compile_pattern(r"\s*CREATE INDEX (\w+) ")
_PARTS = [made.group(1) for statement in STATEMENTS if (made := _PART.match(statement))]
_KEYS = {"pieces": "doc {0}, n {0}", "blocks": "doc {0}, block {0}", "gone": "change {0}, row {0}"}  # else rowid
_BARE = (
    "SELECT DISTINCT d.id FROM chunks c JOIN documents d ON d.row = c.doc LEFT JOIN signals s ON s.row = c.row"
    " WHERE s.row IS NULL OR (length(s.vector) = 0) <> (c.pending IS 1) OR c.pending <> 1"
)
_NAMES = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
_COUNT_DOCUMENTS = "SELECT count(*), coalesce(max(revision), 0), coalesce(max(row), 0) FROM documents"
_COUNT_CHUNKS = (
    "SELECT count(*), CAST(total(length) AS INTEGER), count(nullif(pending IS 1, 0)), coalesce(max(row), 0) FROM chunks"
)
_NAMED = "sum <> row_sum(kind, name, CAST(value AS BLOB))"  # a damaged value may not be text
_ERASING = "kind = 'erasing'"  # an erasure cannot be finished without its record
# Dispensable rows, and the conditions for orphan or damaged ones.
_LOOSE: tuple[tuple[Area, str, str, str], ...] = (
    ("orphans", "{} rows of signals belong to nothing", "signals", "row NOT IN (SELECT row FROM chunks)"),
    ("truth", "a record of a removed chunk is damaged", "gone", f"sum <> {schema.FIXED['gone']}"),
    ("truth", "a vector of the model that is not in use is damaged", "staged", f"sum <> {schema.FIXED['staged']}"),
    ("truth", "a job, a session or what else is kept by name is damaged", "named", f"{_NAMED} AND NOT {_ERASING}"),
)


def inspect_file(db: sqlite3.Connection, *, is_quick: bool) -> Iterator[Defect]:
    """Yield defects of the file, and of rows that no other check reads; `is_quick` skips comparing indexes."""
    check = "quick_check" if is_quick else "integrity_check"
    for (problem,) in db.execute(f"PRAGMA {check}({MAX_PROBLEMS})").fetchall():
        if problem != "ok":
            yield Defect("index" if " index " in problem else "truth", f"SQLite: {problem}", "", "copy")
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    for name in _PARTS:
        if name not in there:
            yield Defect("index", f"{name} is missing among the indexes of the tables", "", "copy")
    for (doc_id,) in db.execute(_BARE):
        yield Defect("vectors", f"the document {doc_id!r} has chunks without a vector", doc_id, "rechunk")
    for area, problem, table, condition in _LOOSE:
        (count,) = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
        if count:
            yield Defect(area, problem.format(count), "", "delete")
    if db.execute(f"SELECT 1 FROM named WHERE {_NAMED} AND {_ERASING}").fetchone():
        yield Defect("truth", "the record of an unfinished erasure is damaged")


def prepare_repair(db: sqlite3.Connection, ids: Sequence[str], change: int) -> None:
    """Delete dispensable rows with defects, and make the next put rewrite the chunks of these documents."""
    for _, _, table, condition in _LOOSE:
        db.execute(f"DELETE FROM {table} WHERE {condition}")
    db.execute("DELETE FROM gone")
    found = f"row_sum({', '.join(schema.FOUND_BY)})"
    for columns in db.execute(
        f"SELECT {', '.join(schema.RECORD)} FROM documents WHERE found_sum <> {found}"
    ).fetchall():
        sql = "UPDATE documents SET facets = ?, vector = NULL WHERE row = ?"
        with suppress(ValueError, TypeError):  # the record is damaged, too
            db.execute(sql, (record_to_facets(columns), columns[-1]))
    db.execute(f"UPDATE documents SET found_sum = {found}")
    # No fingerprint is 0, so the next put replaces all; until then they stay. Valid values let them leave tombstones.
    docs = "SELECT row FROM documents WHERE id IN (SELECT value FROM json_each(?))"
    db.execute(f"UPDATE chunks SET print = 0 WHERE doc IN ({docs})", (json.dumps(list(ids)),))
    db.execute("UPDATE chunks SET length = 0 WHERE typeof(length) <> 'integer'")
    db.execute("UPDATE signals SET terms = x'' WHERE typeof(terms) <> 'blob'")
    schema.write_meta(db, pruned=change)


def accept_what_is_there(folder: Path, embedder: str, known: Sequence[str]) -> Iterator[Defect]:
    """Make a collection open again that is refused as a whole; yield the defects, repaired.

    A damaged record of the collection is rebuilt, and the last existing change counts as the last one.

    embedder: The name of its embedder, if no stored value tells it.
    known: Names of embedders, to decide whether a name in a damaged record is valid.
    """
    file = folder / schema.FILE
    if not file.is_file():
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
    with schema.translate_errors(str(file)), closing(schema.open_read_only_connection(file)) as db:
        return schema.read_meta(db, str(file), "birth", "change")


def _rewrite_file(file: Path, error: CollectionDamaged) -> None:
    """Rewrite a database that cannot be opened; raise `error` if it has another version."""
    with (
        schema.translate_errors(str(file)),
        closing(sqlite3.connect(file, timeout=schema.WRITE_TIMEOUT, isolation_level=None)) as db,
    ):
        db.execute("PRAGMA writable_schema = ON")  # reads tables even if their indexes are damaged
        if schema.read_version(db) != VERSION:
            raise error
        rewrite_rows(db)


def rewrite_rows(db: sqlite3.Connection) -> None:
    """Copy all readable rows into new tables with new indexes, and replace the database by these.

    Each table is read from both ends, so that an unreadable page hides no other rows. A missing table becomes empty.
    """
    before, db.text_factory = db.text_factory, lambda data: data.decode("utf-8", "replace")
    try:
        version = db.execute("PRAGMA data_version").fetchone()
        with closing(sqlite3.connect("", isolation_level=None)) as fresh:  # a temporary file
            schema.register_functions(fresh)
            fresh.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
            fresh.execute("BEGIN")
            for statement in STATEMENTS:
                fresh.execute(statement)
            there, wanted = ({name for (name,) in each.execute(_NAMES)} for each in (db, fresh))
            is_certain = there <= wanted  # an unknown name may be the damaged name of a table
            for (table,) in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if table in there or not is_certain:
                    _copy_rows(db, fresh, table)
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
    """Rebuild the record of the collection from the tables, with a new id, so that indexes are rebuilt."""
    place = str(folder / schema.FILE)
    db = schema.connect(folder)
    try:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        db.execute("BEGIN IMMEDIATE")
        stored = db.execute("SELECT embedder, dim, created FROM meta").fetchone()
        if stored is None:
            raise schema.record_gone_error(place)
        documents, revision, last = db.execute(_COUNT_DOCUMENTS).fetchone()
        chunks, length, pending, last_chunk = db.execute(_COUNT_CHUNKS).fetchone()
        (vector,) = db.execute("SELECT vector FROM signals WHERE length(vector) > 0 LIMIT 1").fetchone() or (b"",)
        change = max(last_change, revision) + 1
        made = {
            "documents": documents,
            "chunks": chunks,
            "length": length,
            "pending": pending,
            "last": max(last, last_chunk),
            "embedder": _find_embedder(db, place, stored[0], embedder, known),
            "dim": find_width(vector) or stored[1],
            "change": change,
            "pruned": change,
            "birth": uuid.uuid4().hex,
            "created": stored[2] if parse_iso_or_none(str(stored[2])) else None,
            "staged": None,
        }
        schema.write_meta(db, **made)
        db.execute("DELETE FROM gone")
        db.execute("DELETE FROM staged")
        db.execute("COMMIT")
    finally:
        schema.close_connection(db, folder)
    write_last_change(folder, made["birth"], change)


def _find_embedder(db: sqlite3.Connection, place: str, stored: str, given: str, known: Sequence[str]) -> str:
    """Find the embedder: from the calibration, else from the damaged record if the name is known, else `given`."""
    with suppress(DriverFailed, ValueError, KeyError, TypeError):  # damaged, too
        found = db.execute(
            f"SELECT value FROM named WHERE kind = 'calibration' AND sum = {schema.FIXED['named']}"
        ).fetchone()
        if found:
            return str(json.loads(json.loads(found[0]))["embedder"])
    if stored in known or given:
        return stored if stored in known else given
    raise CollectionDamaged(
        f"{place}: the record of the collection is damaged, and nothing says whether {stored!r} is its embedder; "
        "name that: `clew --embedder NAME doctor --repair`"
    )
