"""The doctor of a folder: what SQLite, the checksums, the counts and the index say of a collection."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from clew.core.doctor import Defect, Inspection, Remedy
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.stored import StoredDocument
from clew.core.time import to_timestamp
from clew.drivers.store import checksums, codec
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.embedded import sums
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.hits import HitCache
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.parts import find_missing_parts
from clew.drivers.store.embedded.raw import read_raw
from clew.drivers.store.embedded.repair import COUNTS, ORPHANS, repair_tables
from clew.drivers.store.embedded.vectors import unpack_vector
from clew.drivers.store.entries import facets_to_json
from clew.drivers.store.inspection import (
    DocumentReader,
    find_bad_jobs,
    find_bad_sessions,
    inspect_documents,
    inspect_while_unchanged,
    sample_documents,
)
from clew.drivers.store.mend import Mending, plan_mending

MAX_PROBLEMS = 100  # that SQLite lists
MAX_STAGED = 1000  # staged vectors whose length is computed
_OF_INDEX = ("missing from index", "wrong # of entries in index", "non-unique entry in index", "out of order")
_WRONG_DOCUMENTS = (
    "SELECT d.id FROM documents d WHERE d.chunks <> (SELECT count(*) FROM chunks c WHERE c.doc = d.row)"
    " OR d.chars <> (SELECT coalesce(sum(text_chars(p.text)), 0) FROM pieces p WHERE p.doc = d.row)"
)
_WRONG_SIZES = (
    "SELECT DISTINCT d.id FROM documents d JOIN pieces p ON p.doc = d.row WHERE p.message IS NOT NULL"
    " AND (p.chars <> text_chars(p.text)"
    " OR p.chunks <> (SELECT count(*) FROM chunks c WHERE c.doc = p.doc AND c.piece = p.n))"
    " UNION SELECT d.id FROM documents d JOIN blocks b ON b.doc = d.row WHERE (b.chars, b.chunks) IS NOT"
    " (SELECT coalesce(sum(p.chars), 0), coalesce(sum(p.chunks), 0) FROM pieces p NOT INDEXED"
    " WHERE p.doc = b.doc AND (p.n >> 7) = b.block AND p.message IS NOT NULL)"
    f" OR b.sum NOT IN (-1, {codec.sum_block('b.')})"
    " UNION SELECT d.id FROM documents d JOIN pieces p ON p.doc = d.row WHERE p.message IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.doc = p.doc AND b.block = (p.n >> 7))"
)
_TEXTS = {"calibration": "the calibration", "erasing": "the record of an unfinished erasure"}


class InspectMethods:
    """What `doctor` asks of a store; part of EmbeddedStore."""

    _database: Database
    _indexes: IndexManager
    _hits: HitCache

    def inspect(self: "InspectedStore", *, max_chunks: int | None = None) -> Inspection:
        """What is wrong with the tables, each document and the index, and how much was checked."""
        try:
            sizes, chunks = list_sizes(self._database)
            ids = sample_documents(sizes, max_chunks)
            is_sample = len(ids) < len(sizes)
            defects = list(inspect_tables(self._database, is_quick=is_sample))
            defects += inspect_documents(self, ids)
            defects += inspect_while_unchanged(
                lambda: self._database.read_state_anew().change,
                lambda: self._indexes.inspect(self._database.read_state_anew(), is_quick=is_sample),
            )
        except CollectionDamaged as error:  # what cannot be read cannot be looked at further
            return Inspection((Defect("truth", str(error)),))
        shown = sum(dict(sizes)[doc_id] for doc_id in ids) if is_sample else chunks
        names = list_names(self._database) if defects else {}
        return Inspection(tuple(defects), {"documents": len(ids), "chunks": shown}, tuple(ids), is_sample, names)

    def plan_mending(self, doc_id: str) -> Mending:
        """What mends a document whose record or text is damaged."""
        with self._database.read_transaction() as db:
            return plan_mending(read_raw(db, doc_id))

    def find_wrong_filters(self, stored: Sequence[StoredDocument]) -> set[str]:
        """The ids of those documents that filters see otherwise than they are: by labels, authors, times, meta."""
        return find_wrong_filters(self._database, stored)

    def repair(self, defects: list[Defect]) -> None:
        """Removes and recounts what the defects call for; the index is built again by the next search."""
        if defects:
            self._indexes.discard()
            repair_tables(self._database, defects)
            self._hits.clear()


class InspectedStore(DocumentReader, Protocol):
    """What the methods need of the store that they are part of."""

    _database: Database
    _indexes: IndexManager


def inspect_tables(database: Database, *, is_quick: bool = False) -> Iterator[Defect]:
    """What is wrong with the tables as a whole; quickly, without comparing the indexes of SQLite with them."""
    with database.read_transaction() as db:
        yield from _inspect_file(db, is_quick=is_quick)
        yield from _inspect_schema(db)
        for name, sql in COUNTS.items():
            ((stored,), (real,)) = (db.execute(each).fetchone() for each in (f"SELECT {name} FROM meta", sql))
            if stored != real:
                yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "recount")
        if db.execute("SELECT last < (SELECT coalesce(max(row), 0) FROM chunks) FROM meta").fetchone()[0]:
            yield Defect("counts", "there are chunks after the last row of the collection", "", "recount")
        for sql, what in ((_WRONG_DOCUMENTS, "its chunks or characters"), (_WRONG_SIZES, "its messages")):
            for (doc_id,) in db.execute(sql):
                yield Defect("counts", f"the record of the document {doc_id!r} miscounts {what}", doc_id, "recount")
        for table, condition in ORPHANS.items():
            (count,) = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
            if count:
                yield Defect("orphans", f"{count} rows of {table} belong to nothing", "", "delete")
        (count,) = db.execute("SELECT count(*) FROM chunks WHERE row NOT IN (SELECT row FROM signals)").fetchone()
        if count:
            for (doc_id,) in db.execute(
                "SELECT DISTINCT d.id FROM chunks c JOIN documents d ON d.row = c.doc"
                " WHERE c.row NOT IN (SELECT row FROM signals)"
            ):
                yield Defect("vectors", f"chunks of the document {doc_id!r} have no vector", doc_id, "rechunk")
        for table, name in _TEXTS.items():
            remedy: Remedy = "delete" if table == "calibration" else ""
            yield from _try_read(name, remedy, lambda table=table, name=name: sums.read_checked_text(db, table, name))
        yield from _inspect_rows(db, "gone", ("change", "row", "terms"), "the record of a removed chunk", "delete")
        yield from _inspect_rows(db, "sessions", sums.SESSION, "a session", "delete")
        yield from _inspect_unread(db)
        for table in ("shadows", "summary_shadows"):
            yield from _inspect_rows(db, table, ("row", "vector"), "a vector of the model that is not in use", "delete")
        yield from inspect_staged(db)


def inspect_staged(db: sqlite3.Connection) -> Iterator[Defect]:
    """What is wrong with the staged vectors: of no model, of that in use, of another width or length."""
    staged = db.execute("SELECT embedder, dim FROM shadow").fetchone()
    (count,) = db.execute("SELECT (SELECT count(*) FROM shadows) + (SELECT count(*) FROM summary_shadows)").fetchone()
    if staged is None:
        if count:
            yield Defect("staged", f"{count} staged vectors are of no model", "", "discard")
        return
    name, dim = staged
    if (name,) == db.execute("SELECT embedder FROM meta").fetchone():
        yield Defect("staged", f"vectors of {name} are staged, which is the model in use", "", "discard")
    for table in ("shadows", "summary_shadows"):
        found = db.execute(f"SELECT vector FROM {table} LIMIT {MAX_STAGED}").fetchall()
        if any(not _is_whole(vector, dim) for (vector,) in found):
            yield Defect(
                "staged", f"staged vectors of {name} are not of its width, or not of unit length", "", "discard"
            )
            return


def _is_whole(data: bytes, dim: int) -> bool:
    """Whether a vector has its width and unit length."""
    if len(data) not in (2 * dim, 4 * dim):
        return False
    vector = unpack_vector(data, dim)
    return bool(abs(float(vector @ vector) - 1.0) <= 2 * UNIT_TOLERANCE)


def _inspect_schema(db: sqlite3.Connection) -> Iterator[Defect]:
    """The indexes and triggers of the tables that are missing."""
    for name in find_missing_parts(db):
        yield Defect("index", f"{name} is missing among the indexes and triggers of the tables", "", "rebuild")


def _inspect_unread(db: sqlite3.Connection) -> Iterator[Defect]:
    """Jobs and sessions that were written so that they cannot be read."""
    if bad := find_bad_jobs(db.execute("SELECT id, state, request, result FROM jobs")):
        yield Defect("truth", f"{len(bad)} jobs cannot be read", "", "delete")
    if bad := find_bad_sessions(db.execute("SELECT name, documents, messages FROM sessions")):
        yield Defect("truth", f"{len(bad)} sessions cannot be read", "", "delete")


def find_wrong_filters(database: Database, stored: Sequence[StoredDocument]) -> set[str]:
    """The ids of those documents whose facets or times are not those of their rows."""
    with database.read_transaction() as db:
        ids = json.dumps([each.document.id for each in stored])
        rows = db.execute(
            "SELECT s.id, s.facets, s.seconds FROM signals s JOIN chunks c ON c.row = s.row JOIN documents d"
            " ON d.row = c.doc WHERE d.id IN (SELECT value FROM json_each(?))",
            (ids,),
        )
        seen = {chunk_id: (facets, seconds) for chunk_id, facets, seconds in rows}
        whole = dict(
            db.execute("SELECT id, facets FROM documents WHERE id IN (SELECT value FROM json_each(?))", (ids,))
        )
    return {
        each.document.id
        for each in stored
        if whole.get(each.document.id) != facets_to_json(each.document)
        or any(
            seen.get(chunk.id) != (facets_to_json(each.document, chunk), to_timestamp(chunk.at))
            for chunk in each.chunks
        )
    }


def _inspect_file(db: sqlite3.Connection, *, is_quick: bool) -> Iterator[Defect]:
    """What SQLite says of the file."""
    check = "quick_check" if is_quick else "integrity_check"
    for (problem,) in db.execute(f"PRAGMA {check}({MAX_PROBLEMS})").fetchall():
        if problem != "ok":
            is_index = any(sign in problem for sign in _OF_INDEX)
            yield Defect("index" if is_index else "truth", f"SQLite: {problem}", "", "rebuild" if is_index else "")


def _inspect_rows(
    db: sqlite3.Connection, table: str, names: Sequence[str], what: str, remedy: Remedy
) -> Iterator[Defect]:
    for *columns, stored in db.execute(f"SELECT {', '.join(names)}, sum FROM {table}"):
        if stored not in (checksums.UNCHECKED, checksums.hash_values(*columns)):
            yield Defect("truth", f"{what} is damaged", "", remedy)
            return


def _try_read(name: str, remedy: Remedy, read: Any) -> Iterator[Defect]:
    try:
        read()
    except (DriverFailed, sqlite3.Error) as error:
        yield Defect("truth", f"{name} cannot be read ({error})", "", remedy)


def list_sizes(database: Database) -> tuple[list[tuple[str, int]], int]:
    """The ids of all documents as the table itself lists them, each with its chunks, and how many chunks there are."""
    with database.read_transaction() as db:
        sizes = db.execute("SELECT id, chunks FROM documents NOT INDEXED").fetchall()
        (chunks,) = db.execute("SELECT count(*) FROM chunks NOT INDEXED").fetchone()
    return sizes, chunks


def list_names(database: Database) -> dict[str, str]:
    """The address or title of each document by its id, whether or not its record is as written."""
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in ("id", "uri", "title"))  # damage may leave no text
    with database.read_transaction() as db:
        rows = db.execute(f"SELECT {columns} FROM documents NOT INDEXED").fetchall()
    texts = [[(each or b"").decode("utf-8", "replace") for each in row] for row in rows]
    return {doc_id: uri or title for doc_id, uri, title in texts if uri or title}
