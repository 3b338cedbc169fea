"""The doctor of a folder: what SQLite, the checksums and the counts say of a collection, and its repair.

A collection that is refused as a whole (a log of another, missing changes, a damaged file or record) is accepted here.
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
from clew.core.pattern import compile_pattern
from clew.core.time import parse_iso_or_none
from clew.drivers.store import codec
from clew.drivers.store.backend import Head
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.inspection import inspect_staged
from clew.drivers.store.sqlite import connection, schema, sums
from clew.drivers.store.sqlite.folder import is_foreign_log, read_last_change, write_last_change
from clew.drivers.store.sqlite.tables import STATEMENTS, VERSION
from clew.drivers.store.sqlite.vectors import find_width, unpack_vector

MAX_PROBLEMS = 100  # that SQLite lists
MAX_STAGED = 1000  # staged vectors whose length is computed
RECOVERED, SHOWN = "recovered-", 60  # the id of a document whose record is gone, and characters of it that are told
_PART = compile_pattern(r"\s*CREATE INDEX (\w+) ")
_PARTS = [made.group(1) for statement in STATEMENTS if (made := _PART.match(statement))]
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
_ORPHANS = {
    **dict.fromkeys(("pieces", "blocks", "chunks"), f"doc NOT IN (SELECT row FROM documents UNION {ORPHANED})"),
    "signals": "row NOT IN (SELECT row FROM chunks)",
    "staged": "row NOT IN (SELECT row FROM chunks) AND row NOT IN (SELECT row FROM documents)",
}
# Documents whose record is gone: where each begins, and a record for each that matches no checksum.
_LOST = f"""SELECT doc, coalesce(
  (SELECT CAST(text AS BLOB) FROM pieces WHERE doc = lost.doc ORDER BY n LIMIT 1),
  (SELECT CAST(text AS BLOB) FROM chunks WHERE doc = lost.doc ORDER BY piece, idx LIMIT 1)) FROM ({ORPHANED}) lost"""
_ADD_RECORDS = f"""INSERT INTO documents
  SELECT doc, '{RECOVERED}' || doc, '', '', '', '', '', 0, 0, '', '{{}}', NULL, '', NULL, NULL, 0, 0, '[]', NULL, NULL,
  0 FROM ({ORPHANED})"""
# Documents with something wrong in an area: what it is, and the ids of them.
_WRONG: tuple[tuple[Area, str, str], ...] = (
    (
        "counts",
        "miscounts its chunks or characters",
        "SELECT d.id FROM documents d WHERE d.chunks <> (SELECT count(*) FROM chunks c WHERE c.doc = d.row)"
        " OR d.chars <> (SELECT coalesce(sum(text_chars(CAST(p.text AS BLOB))), 0) FROM pieces p WHERE p.doc = d.row)",
    ),
    (
        "vectors",
        "has chunks without a vector",
        "SELECT DISTINCT d.id FROM chunks c JOIN documents d ON d.row = c.doc"
        " LEFT JOIN signals s ON s.row = c.row WHERE s.row IS NULL OR (length(s.vector) = 0) <> (c.pending IS 1)"
        " OR c.pending <> 1",
    ),
)
# Rows that are read by nothing else here: what they are.
_SUMMED = {
    "gone": "a record of a removed chunk",
    "named": "a job, a session or what else is kept by name",
    "staged": "a vector of the model that is not in use",
}
_NAMED_SUM = "row_sum(kind, name, CAST(value AS BLOB))"  # damage may leave no text
_ERASING = "kind <> 'erasing'"  # without its record, an erasure would not be finished
_KEYS = {"pieces": "doc {0}, n {0}", "blocks": "doc {0}, block {0}", "gone": "change {0}, row {0}"}  # else rowid
# A record whose number is damaged gets the one with which it matches its checksum.
_RENUMBER = (
    f"UPDATE OR IGNORE documents SET row = lost.doc FROM ({ORPHANED}) lost WHERE row NOT IN (SELECT doc FROM pieces)"
    f" AND sum = row_sum({', '.join('lost.doc' if name == 'row' else name for name in sums.RECORD)})"
)


def inspect_tables(db: sqlite3.Connection, state: Head, *, is_quick: bool) -> Iterator[Defect]:
    """What is wrong with the file and the tables; quickly, without comparing indexes with tables."""
    check = "quick_check" if is_quick else "integrity_check"
    for (problem,) in db.execute(f"PRAGMA {check}({MAX_PROBLEMS})").fetchall():
        if problem != "ok":
            yield Defect("index" if " index " in problem else "truth", f"SQLite: {problem}", "", "copy")
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    for name in _PARTS:
        if name not in there:
            yield Defect("index", f"{name} is missing among the indexes of the tables", "", "copy")
    yield from _inspect_rows(db)
    yield from _inspect_staged(db, state)


def _inspect_rows(db: sqlite3.Connection) -> Iterator[Defect]:
    """What is wrong with the counts, and with rows that belong to nothing or are of no document."""
    for name, sql in COUNTS.items():
        ((stored,), (real,)) = (db.execute(each).fetchone() for each in (f"SELECT {name} FROM meta", sql))
        if stored != real:
            yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "rebuild")
    if db.execute(f"SELECT last < ({LAST}) FROM meta").fetchone()[0]:
        yield Defect("counts", "there are rows after the last row of the collection", "", "rebuild")
    for area, problem, sql in _WRONG:
        for (doc_id,) in db.execute(sql):
            yield Defect(area, f"the document {doc_id!r} {problem}", doc_id, "rechunk")
    for doc, text in db.execute(_LOST):
        start = bytes(text).decode("utf-8", "replace")[:SHOWN]
        problem, name = f"the record of the document that begins {start!r} is gone", f"{RECOVERED}{doc}"
        advice = f"its text is kept as {name}, which nobody sees by a label; add its source again, then drop {name}"
        yield Defect("truth", problem, name, "keep", next_step=advice)
    for table, condition in _ORPHANS.items():
        (count,) = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
        if count:
            yield Defect("orphans", f"{count} rows of {table} belong to nothing", "", "delete")
    for table, what in _SUMMED.items():
        if db.execute(f"SELECT 1 FROM {table} WHERE {_name_wrong(table)} LIMIT 1").fetchone():
            yield Defect("truth", f"{what} is damaged", "", "delete")
    if db.execute(f"SELECT 1 FROM named WHERE sum <> {_NAMED_SUM} AND NOT {_ERASING}").fetchone():
        yield Defect("truth", "the record of an unfinished erasure is damaged")


def _name_wrong(table: str) -> str:
    """The condition of rows that are not as written and can be done without."""
    return f"sum <> {_NAMED_SUM} AND {_ERASING}" if table == "named" else f"sum <> {sums.FIXED[table]}"


def _inspect_staged(db: sqlite3.Connection, state: Head) -> Iterator[Defect]:
    model = state.staged
    (count,) = db.execute("SELECT count(*) FROM staged").fetchone()
    dim = model.dim if model else 0
    vectors = db.execute(f"SELECT vector FROM staged LIMIT {MAX_STAGED}")
    has_wrong = any(not _is_whole(vector, dim) for (vector,) in vectors)
    yield from inspect_staged(model.embedder if model else None, state.embedder, count, has_wrong=has_wrong)


def _is_whole(data: bytes, dim: int) -> bool:
    """Whether a vector has its width and unit length."""
    if len(data) not in (2 * dim, 4 * dim):
        return False
    vector = unpack_vector(data, dim)
    return bool(abs(float(vector @ vector) - 1.0) <= 2 * UNIT_TOLERANCE)


def prepare_repair(db: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Adds records that are gone, and lets the chunks of documents be written anew by the next put."""
    db.execute(_ADD_RECORDS)
    found = f"row_sum({', '.join(sums.FOUND_BY)})"
    for columns in db.execute(f"SELECT {', '.join(sums.RECORD)} FROM documents WHERE found_sum <> {found}").fetchall():
        sql = "UPDATE documents SET facets = ?, vector = NULL WHERE row = ?"
        with suppress(ValueError, TypeError):  # the record is damaged too
            db.execute(sql, (codec.record_to_facets(columns), columns[-1]))
    db.execute(f"UPDATE documents SET found_sum = {found}")
    # No fingerprint is 0, so the put that replaces them keeps none; until then they stay.
    docs = "SELECT row FROM documents WHERE id IN (SELECT value FROM json_each(?))"
    db.execute(f"UPDATE chunks SET print = 0 WHERE doc IN ({docs})", (json.dumps(list(ids)),))
    # They are counted until then, and leave tombstones.
    db.execute("UPDATE signals SET length = 0 WHERE typeof(length) <> 'integer'")
    db.execute("UPDATE signals SET terms = x'' WHERE typeof(terms) <> 'blob'")


def finish_repair(db: sqlite3.Connection, defects: Sequence[Defect]) -> None:
    """Deletes rows that belong to nothing or are damaged and can be done without, and adds up the counts."""
    for table, condition in _ORPHANS.items():
        db.execute(f"DELETE FROM {table} WHERE {condition}")
    for table in _SUMMED:
        db.execute(f"DELETE FROM {table} WHERE {_name_wrong(table)}")
    db.execute("DELETE FROM gone")
    columns = {name: db.execute(sql).fetchone()[0] for name, sql in COUNTS.items()}
    if any(each.area == "staged" and each.remedy for each in defects):
        db.execute("DELETE FROM staged")
        columns["staged"] = None
    change, last = db.execute(f"SELECT change + 1, max(last, ({LAST})) FROM meta").fetchone()
    sums.write_meta(db, **columns, last=last, change=change, pruned=change)


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
