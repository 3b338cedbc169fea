"""The doctor of a folder: what SQLite, the checksums, the counts and the index say of a collection, and repairs."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from clew.core.doctor import Defect, Remedy
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.drivers.store import checksums, codec
from clew.drivers.store.embedded import sums, write
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.hits import HitCache
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.inspection import DocumentReader, find_ids, inspect_documents

MAX_PROBLEMS = 100  # that SQLite lists
_OF_INDEX = ("missing from index", "wrong # of entries in index", "non-unique entry in index", "out of order")
# What each count must be, in the record of the collection and in those of the documents.
_COUNTS = {
    "documents": "SELECT count(*) FROM documents",
    "chunks": "SELECT count(*) FROM chunks",
    "length": "SELECT coalesce(sum(length), 0) FROM signals",
}
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
_ORPHANS = {
    "pieces": "doc NOT IN (SELECT row FROM documents)",
    "blocks": "doc NOT IN (SELECT row FROM documents)",
    "chunks": "doc NOT IN (SELECT row FROM documents)",
    "signals": "row NOT IN (SELECT row FROM chunks)",
    "shadows": "row NOT IN (SELECT row FROM chunks)",
    "summary_shadows": "row NOT IN (SELECT row FROM documents)",
    "claims": "row NOT IN (SELECT row FROM documents)",
}
_TEXTS = {"calibration": "the calibration", "erasing": "the record of an unfinished erasure"}


class InspectMethods:
    """What `doctor` asks of a store; part of EmbeddedStore."""

    _database: Database
    _indexes: IndexManager
    _hits: HitCache

    def inspect(self: "InspectedStore") -> tuple[list[Defect], Mapping[str, int]]:
        """What is wrong with the tables, each document and the index, and how much was checked."""
        try:
            defects = list(inspect_tables(self._database))
            ids, checked = list_ids(self._database)
            defects += inspect_documents(self, ids)
            return defects + self._indexes.inspect(self._database.read_state()), checked
        except CollectionDamaged as error:  # what cannot be read cannot be looked at further
            return [Defect("truth", str(error))], {}

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


def inspect_tables(database: Database) -> Iterator[Defect]:
    """What is wrong with the tables as a whole."""
    with database.read_transaction() as db:
        yield from _inspect_file(db)
        for name, sql in _COUNTS.items():
            ((stored,), (real,)) = (db.execute(each).fetchone() for each in (f"SELECT {name} FROM meta", sql))
            if stored != real:
                yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "recount")
        if db.execute("SELECT last < (SELECT coalesce(max(row), 0) FROM chunks) FROM meta").fetchone()[0]:
            yield Defect("counts", "there are chunks after the last row of the collection", "", "recount")
        for sql, what in ((_WRONG_DOCUMENTS, "its chunks or characters"), (_WRONG_SIZES, "its messages")):
            for (doc_id,) in db.execute(sql):
                yield Defect("counts", f"the record of the document {doc_id!r} miscounts {what}", doc_id, "recount")
        for table, condition in _ORPHANS.items():
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
        for table in ("shadows", "summary_shadows"):
            yield from _inspect_rows(db, table, ("row", "vector"), "a vector of the model that is not in use", "delete")


def _inspect_file(db: sqlite3.Connection) -> Iterator[Defect]:
    """What SQLite says of the file."""
    for (problem,) in db.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})").fetchall():
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


def list_ids(database: Database) -> tuple[list[str], Mapping[str, int]]:
    """The ids of all documents as the table itself lists them, and how many rows there are to check."""
    with database.read_transaction() as db:
        ids = [doc_id for (doc_id,) in db.execute("SELECT id FROM documents NOT INDEXED")]
        (chunks,) = db.execute("SELECT count(*) FROM chunks NOT INDEXED").fetchone()
    return ids, {"documents": len(ids), "chunks": chunks}


def repair_tables(database: Database, defects: Sequence[Defect]) -> None:
    """Removes documents that cannot be trusted and chunks that are to be made again, and adds up the counts again."""
    with database.write_transaction() as db:
        db.execute("REINDEX")
        db.executemany("DELETE FROM documents WHERE id = ?", [(each,) for each in find_ids(defects, "remove")])
        for doc_id in find_ids(defects, "rechunk"):
            db.execute("DELETE FROM chunks WHERE doc = (SELECT row FROM documents WHERE id = ?)", (doc_id,))
        for table, condition in _ORPHANS.items():
            db.execute(f"DELETE FROM {table} WHERE {condition}")
        if any(each.remedy == "delete" and each.area == "truth" for each in defects):
            _delete_damaged(db)
        _recount(db, [*find_ids(defects, "recount"), *find_ids(defects, "rechunk")])


def _delete_damaged(db: sqlite3.Connection) -> None:
    """Deletes rows that can be done without: sessions, the calibration, staged vectors."""
    db.execute(f"DELETE FROM sessions WHERE sum <> -1 AND sum IS NOT row_sum({', '.join(sums.SESSION)})")
    db.execute("DELETE FROM calibration WHERE sum <> -1 AND sum IS NOT row_sum(text)")
    for table in ("shadows", "summary_shadows"):
        db.execute(f"DELETE FROM {table} WHERE sum <> -1 AND sum IS NOT row_sum(row, vector)")


def _recount(db: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Adds up the counts of documents, and of the collection; every index is then too far behind, and is rebuilt."""
    for doc_id in ids:
        found = db.execute("SELECT row FROM documents WHERE id = ?", (doc_id,)).fetchone()
        if not found:
            continue
        (doc,) = found
        db.execute(
            "UPDATE pieces SET chars = text_chars(text), chunks ="
            " (SELECT count(*) FROM chunks c WHERE c.doc = pieces.doc AND c.piece = pieces.n)"
            " WHERE message IS NOT NULL AND doc = ?",
            (doc,),
        )
        db.execute(f"UPDATE pieces SET sum = {sums.PIECE_SUM} WHERE doc = ?", (doc,))
        db.execute(
            f"UPDATE documents SET {write.NEW_REVISION},"
            " chunks = (SELECT count(*) FROM chunks c WHERE c.doc = documents.row),"
            " chars = (SELECT coalesce(sum(text_chars(p.text)), 0) FROM pieces p WHERE p.doc = documents.row)"
            " WHERE row = ?",
            (doc,),
        )
        numbers = db.execute("SELECT n FROM pieces WHERE doc = ? AND message IS NOT NULL", (doc,)).fetchall()
        db.execute("DELETE FROM blocks WHERE doc = ?", (doc,))
        write.refresh_blocks(db, doc, [n for (n,) in numbers])
    db.execute("DELETE FROM gone")
    counts = ", ".join(f"{name} = ({sql})" for name, sql in _COUNTS.items())
    db.execute(
        f"UPDATE meta SET {counts}, last = max(last, (SELECT coalesce(max(row), 0) FROM chunks)),"
        " change = change + 1, pruned = change + 1"
    )
