"""The repairs of a folder's collection: rows that cannot be trusted go, and counts are added up again."""

import sqlite3
from collections.abc import Sequence

from clew.core.doctor import Defect
from clew.core.types import Document
from clew.drivers.store.embedded import sums, write
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.parts import create_missing_parts
from clew.drivers.store.embedded.read import read_document
from clew.drivers.store.embedded.schema import translate_errors
from clew.drivers.store.inspection import find_bad_jobs, find_bad_sessions, find_ids, is_text_damaged

# What each count must be, in the record of the collection and in those of the documents.
COUNTS = {
    "documents": "SELECT count(*) FROM documents",
    "chunks": "SELECT count(*) FROM chunks",
    "length": "SELECT coalesce(sum(length), 0) FROM signals",
}
ORPHANS = {
    "pieces": "doc NOT IN (SELECT row FROM documents)",
    "blocks": "doc NOT IN (SELECT row FROM documents)",
    "chunks": "doc NOT IN (SELECT row FROM documents)",
    "signals": "row NOT IN (SELECT row FROM chunks)",
    "shadows": "row NOT IN (SELECT row FROM chunks)",
    "summary_shadows": "row NOT IN (SELECT row FROM documents)",
    "claims": "row NOT IN (SELECT row FROM documents)",
}


def repair_tables(database: Database, defects: Sequence[Defect]) -> None:
    """Removes documents that cannot be trusted, marks chunks that are to be replaced, and adds up the counts again."""
    with database.write_transaction() as db:
        create_missing_parts(db)
        db.execute("REINDEX")
        removed = [each for each in find_ids(defects, "remove") if _is_still_damaged(database, db, each)]
        db.executemany("DELETE FROM documents WHERE id = ?", [(each,) for each in removed])
        for doc_id in find_ids(defects, "rechunk"):
            # No fingerprint is 0, so the put that replaces them keeps none; until then they stay.
            db.execute("UPDATE chunks SET print = 0 WHERE doc = (SELECT row FROM documents WHERE id = ?)", (doc_id,))
        for table, condition in ORPHANS.items():
            db.execute(f"DELETE FROM {table} WHERE {condition}")
        if any(each.remedy == "delete" and each.area == "truth" for each in defects):
            _delete_damaged(db)
        if any(each.remedy == "discard" for each in defects):
            for table in ("shadow", "shadows", "summary_shadows"):
                db.execute(f"DELETE FROM {table}")
        _recount(db, [*find_ids(defects, "recount"), *find_ids(defects, "rechunk")])


def _is_still_damaged(database: Database, db: sqlite3.Connection, doc_id: str) -> bool:
    """Whether a document is as damaged as it was found: another process may have written it anew."""

    def read_again() -> Document:
        with translate_errors(database.place):
            return read_document(db, doc_id)

    return is_text_damaged(read_again)


def _delete_damaged(db: sqlite3.Connection) -> None:
    """Deletes rows that can be done without: sessions, the calibration, staged vectors."""
    db.execute(f"DELETE FROM sessions WHERE sum <> -1 AND sum IS NOT row_sum({', '.join(sums.SESSION)})")
    db.execute("DELETE FROM calibration WHERE sum <> -1 AND sum IS NOT row_sum(text)")
    for table in ("shadows", "summary_shadows"):
        db.execute(f"DELETE FROM {table} WHERE sum <> -1 AND sum IS NOT row_sum(row, vector)")
    jobs = find_bad_jobs(db.execute("SELECT id, state, request, result FROM jobs").fetchall())
    db.executemany("DELETE FROM jobs WHERE id = ?", [(each,) for each in jobs])
    sessions = find_bad_sessions(db.execute("SELECT name, documents, messages FROM sessions").fetchall())
    db.executemany("DELETE FROM sessions WHERE name = ?", [(each,) for each in sessions])


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
    counts = ", ".join(f"{name} = ({sql})" for name, sql in COUNTS.items())
    db.execute(
        f"UPDATE meta SET {counts}, last = max(last, (SELECT coalesce(max(row), 0) FROM chunks)),"
        " change = change + 1, pruned = change + 1"
    )
