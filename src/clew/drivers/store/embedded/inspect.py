"""The doctor of a folder: what SQLite, the checksums, the counts and the index say of a collection, and its repair."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from clew.core.doctor import Area, Defect, Remedy
from clew.core.pattern import compile_pattern
from clew.core.types import Chunk, Document
from clew.drivers.store import codec
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.embedded import put, sums
from clew.drivers.store.embedded.accept import COUNTS, ORPHANED, rewrite_database
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.hits import HitCache
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.tables import STATEMENTS
from clew.drivers.store.embedded.vectors import unpack_vector
from clew.drivers.store.entries import DocumentEntries, facets_to_json
from clew.drivers.store.inspection import (
    InspectedStore,
    Listed,
    RawDocument,
    find_bad_jobs,
    find_bad_sessions,
    find_ids,
    inspect_staged,
    inspect_while_unchanged,
    restore,
)

MAX_PROBLEMS = 100  # that SQLite lists
RECOVERED, SHOWN = "recovered-", 60  # the id of a document whose record is gone, and characters of it that are told
MAX_STAGED = 1000  # staged vectors whose length is computed
_PART = compile_pattern(r"\s*CREATE (?:INDEX|TRIGGER) (\w+) ")
_PARTS = [made.group(1) for statement in STATEMENTS if (made := _PART.match(statement))]
_ORPHANS = {
    **dict.fromkeys(("pieces", "blocks", "chunks"), f"doc NOT IN (SELECT row FROM documents UNION {ORPHANED})"),
    **dict.fromkeys(("signals", "shadows"), "row NOT IN (SELECT row FROM chunks)"),
    **dict.fromkeys(("summary_shadows", "claims"), "row NOT IN (SELECT row FROM documents)"),
}
# Documents whose record is gone: where each begins, and a record for each that matches no checksum.
_LOST = f"""SELECT doc, coalesce(
  (SELECT CAST(text AS BLOB) FROM pieces WHERE doc = lost.doc ORDER BY n LIMIT 1),
  (SELECT CAST(text AS BLOB) FROM chunks WHERE doc = lost.doc ORDER BY piece, idx LIMIT 1)) FROM ({ORPHANED}) lost"""
_ADD_RECORDS = f"""INSERT INTO documents(
  row, id, uri, title, kind, summary, meta, facets, hash, stamp, chars, chunks, pieces, sum, found_sum)
  SELECT doc, '{RECOVERED}' || doc, '', '', '', '', '{{}}', '[]', '', '', 0, 0, 0, 0, 0 FROM ({ORPHANED})"""
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
        " WHERE c.row NOT IN (SELECT row FROM signals)",
    ),
)
# Rows that are read by nothing else here: what they are, and their checksum.
_SUMMED = {
    "gone": ("a record of a removed chunk", sums.FIXED["gone"]),
    "sessions": ("a session", f"row_sum({', '.join(sums.SESSION)})"),
    "calibration": ("the calibration", "row_sum(CAST(text AS BLOB))"),  # damage may leave no text
    "erasing": ("the record of an unfinished erasure", "row_sum(CAST(text AS BLOB))"),
    "shadows": ("a vector of the model that is not in use", sums.FIXED["shadows"]),
    "summary_shadows": ("a vector of the model that is not in use", sums.FIXED["summary_shadows"]),
}
_UNREAD = {
    "jobs": ("id", "SELECT id, state, request, result FROM jobs", find_bad_jobs),
    "sessions": ("name", "SELECT name, documents, messages FROM sessions", find_bad_sessions),
}


class InspectMethods(InspectedStore):
    """What `doctor` asks of a store; part of EmbeddedStore."""

    remedy_unreadable: Remedy = "copy"
    _database: Database
    _indexes: IndexManager
    _hits: HitCache

    def list_raw(self) -> list[Listed]:
        """Every document."""
        names = "CAST(uri AS BLOB), CAST(title AS BLOB)"  # damage may leave no text
        with self._database.read_transaction() as db:
            rows = db.execute(f"SELECT id, CAST(chunks AS INTEGER), {names} FROM documents NOT INDEXED").fetchall()
        return [Listed(row[0], row[1], (row[2] or row[3] or b"").decode("utf-8", "replace")) for row in rows]

    def inspect_tables(self, *, is_quick: bool) -> Iterator[Defect]:
        """What is wrong with the file, the tables and the index; quickly, without comparing indexes with tables."""
        with self._database.read_transaction() as db:
            yield from _inspect_file(db, is_quick=is_quick)
            yield from _inspect_rows(db)
            yield from _inspect_staged(db)
        yield from inspect_while_unchanged(
            lambda: self._database.read_state_anew().change,
            lambda: self._indexes.inspect(self._database.read_state_anew(), is_quick=is_quick),
        )

    def read_raw(self, doc_id: str) -> RawDocument | None:
        """The rows of a document; None if it is not there."""
        with self._database.read_transaction() as db:
            return read_raw(db, doc_id)

    def read_facets(self, doc_ids: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What filters see: the facets of documents by id, and facets and seconds of their chunks by id."""
        ids = (json.dumps(list(doc_ids)),)
        with self._database.read_transaction() as db:
            wholes = db.execute("SELECT id, facets FROM documents WHERE id IN (SELECT value FROM json_each(?))", ids)
            parts = db.execute(
                "SELECT s.id, s.facets, s.seconds FROM signals s JOIN chunks c ON c.row = s.row JOIN documents d"
                " ON d.row = c.doc WHERE d.id IN (SELECT value FROM json_each(?))",
                ids,
            )
            return dict(wholes), {chunk_id: (facets, seconds) for chunk_id, facets, seconds in parts}

    def make_facets(self, document: Document, chunk: Chunk | None = None) -> str:
        """The facets that the store writes."""
        return facets_to_json(document, chunk)

    def repair(self, defects: list[Defect]) -> None:
        """Keeps what is sound of damaged documents, deletes what belongs to nothing, and adds up the counts again.

        Every index is then too far behind, and is built again by the next search.
        """
        self._indexes.discard()
        if any(each.remedy == "copy" for each in defects):
            with self._database.reader as db:
                rewrite_database(db)
            return  # what is wrong with the rows is asked anew
        with self._database.write_transaction() as db:
            db.execute(_ADD_RECORDS)
            ids = find_ids(defects, "rechunk", "keep", "remove")
            restore(
                ids,
                lambda doc_id: read_raw(db, doc_id),
                lambda doc_id: db.execute("DELETE FROM documents WHERE id = ?", (doc_id,)),
                lambda document: put.put_documents(db, [DocumentEntries(document, ())]),
            )
            # No fingerprint is 0, so the put that replaces them keeps none; until then they stay.
            sql = "UPDATE chunks SET print = 0 WHERE doc = (SELECT row FROM documents WHERE id = ?)"
            db.executemany(sql, [(doc_id,) for doc_id in ids])
            # They are counted until then, and leave tombstones.
            db.execute("UPDATE signals SET length = 0 WHERE typeof(length) <> 'integer'")
            db.execute("UPDATE signals SET terms = x'' WHERE typeof(terms) <> 'blob'")
            _delete_rows(db, defects)
            counts = ", ".join(f"{name} = ({sql})" for name, sql in COUNTS.items())
            db.execute(
                f"UPDATE meta SET {counts}, last = max(last, (SELECT coalesce(max(row), 0) FROM chunks)),"
                " change = change + 1, pruned = change + 1"
            )
        self._hits.clear()


def read_raw(db: sqlite3.Connection, doc_id: str) -> RawDocument | None:
    """The rows of a document. Bytes that are no text are read as a text that no checksum has."""
    before, db.text_factory = db.text_factory, lambda data: data.decode("utf-8", "replace")
    try:
        record = db.execute(f"SELECT {codec.RECORD_COLUMNS} FROM documents d WHERE d.id = ?", (doc_id,)).fetchone()
        if record is None:
            return None
        doc = (record[-2],)
        pieces = db.execute(f"SELECT {codec.PIECE_COLUMNS} FROM pieces WHERE doc = ? ORDER BY n", doc).fetchall()
        chunks = db.execute(
            f"SELECT {codec.RAW_CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc WHERE c.doc = ?", doc
        ).fetchall()
        return RawDocument(record, pieces, chunks)
    finally:
        db.text_factory = before


def _inspect_file(db: sqlite3.Connection, *, is_quick: bool) -> Iterator[Defect]:
    """What SQLite says of the file, and the indexes and triggers that are missing."""
    check = "quick_check" if is_quick else "integrity_check"
    for (problem,) in db.execute(f"PRAGMA {check}({MAX_PROBLEMS})").fetchall():
        if problem != "ok":
            yield Defect("index" if " index " in problem else "truth", f"SQLite: {problem}", "", "copy")
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')")}
    for name in _PARTS:
        if name not in there:
            yield Defect("index", f"{name} is missing among the indexes and triggers of the tables", "", "copy")


def _inspect_rows(db: sqlite3.Connection) -> Iterator[Defect]:
    """What is wrong with the counts, and with rows that belong to nothing or are of no document."""
    for name, sql in COUNTS.items():
        ((stored,), (real,)) = (db.execute(each).fetchone() for each in (f"SELECT {name} FROM meta", sql))
        if stored != real:
            yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "rebuild")
    if db.execute("SELECT last < (SELECT coalesce(max(row), 0) FROM chunks) FROM meta").fetchone()[0]:
        yield Defect("counts", "there are chunks after the last row of the collection", "", "rebuild")
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
    for table, (what, made) in _SUMMED.items():
        if db.execute(f"SELECT 1 FROM {table} WHERE sum NOT IN (-1, {made}) LIMIT 1").fetchone():
            yield Defect("truth", f"{what} is damaged", "", "" if table == "erasing" else "delete")
    for table, (_, sql, find_bad) in _UNREAD.items():
        if bad := find_bad(db.execute(sql)):
            yield Defect("truth", f"{len(bad)} {table} cannot be read", "", "delete")


def _inspect_staged(db: sqlite3.Connection) -> Iterator[Defect]:
    name, dim = db.execute("SELECT embedder, dim FROM shadow").fetchone() or (None, 0)
    (used,) = db.execute("SELECT embedder FROM meta").fetchone()
    tables = ("shadows", "summary_shadows")
    count = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    vectors = [row for table in tables for row in db.execute(f"SELECT vector FROM {table} LIMIT {MAX_STAGED}")]
    has_wrong = any(not _is_whole(vector, dim) for (vector,) in vectors)
    yield from inspect_staged(name, used, count, has_wrong=has_wrong)


def _is_whole(data: bytes, dim: int) -> bool:
    """Whether a vector has its width and unit length."""
    if len(data) not in (2 * dim, 4 * dim):
        return False
    vector = unpack_vector(data, dim)
    return bool(abs(float(vector @ vector) - 1.0) <= 2 * UNIT_TOLERANCE)


def _delete_rows(db: sqlite3.Connection, defects: Sequence[Defect]) -> None:
    """Deletes rows that belong to nothing, and of those that can be done without the damaged ones."""
    for table, condition in _ORPHANS.items():
        db.execute(f"DELETE FROM {table} WHERE {condition}")
    for table, (_, made) in _SUMMED.items():
        if table != "erasing":
            db.execute(f"DELETE FROM {table} WHERE sum NOT IN (-1, {made})")
    for table, (key, sql, find_bad) in _UNREAD.items():
        bad = find_bad(db.execute(sql).fetchall())
        db.executemany(f"DELETE FROM {table} WHERE {key} = ?", [(each,) for each in bad])
    db.execute("DELETE FROM gone")
    if any(each.area == "staged" and each.remedy for each in defects):
        for table in ("shadow", "shadows", "summary_shadows"):
            db.execute(f"DELETE FROM {table}")
