"""The doctor of a folder: what SQLite, the checksums, the counts and the index say of a collection, and its repair."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress

from clew.core.doctor import Area, Defect
from clew.core.pattern import compile_pattern
from clew.drivers.store import codec
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.inspection import inspect_staged
from clew.drivers.store.sqlite import sums
from clew.drivers.store.sqlite.accept import COUNTS, LAST, ORPHANED
from clew.drivers.store.sqlite.database import CollectionState
from clew.drivers.store.sqlite.tables import STATEMENTS
from clew.drivers.store.sqlite.vectors import unpack_vector

MAX_PROBLEMS = 100  # that SQLite lists
MAX_STAGED = 1000  # staged vectors whose length is computed
RECOVERED, SHOWN = "recovered-", 60  # the id of a document whose record is gone, and characters of it that are told
_PART = compile_pattern(r"\s*CREATE INDEX (\w+) ")
_PARTS = [made.group(1) for statement in STATEMENTS if (made := _PART.match(statement))]
_OF_ROWS = "row NOT IN (SELECT row FROM chunks) AND row NOT IN (SELECT row FROM documents)"
_ORPHANS = {
    **dict.fromkeys(("pieces", "blocks", "chunks"), f"doc NOT IN (SELECT row FROM documents UNION {ORPHANED})"),
    "signals": "row NOT IN (SELECT row FROM chunks)",
    "staged": _OF_ROWS,
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


def inspect_tables(db: sqlite3.Connection, state: CollectionState, *, is_quick: bool) -> Iterator[Defect]:
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


def _inspect_staged(db: sqlite3.Connection, state: CollectionState) -> Iterator[Defect]:
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
