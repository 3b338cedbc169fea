"""The repairs of a folder's collection: rows that cannot be trusted go, and counts are added up again."""

import sqlite3
from collections.abc import Sequence

from clew.core.doctor import Defect
from clew.core.errors import NotFound
from clew.drivers.store.embedded import sums, write
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.parts import create_missing_parts
from clew.drivers.store.embedded.raw import read_raw
from clew.drivers.store.embedded.tables import PART_BITS
from clew.drivers.store.embedded.tokens import find_damaged_tokens
from clew.drivers.store.inspection import find_bad_jobs, find_bad_sessions, find_ids
from clew.drivers.store.mend import plan_mending

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
    "tokens": "row NOT IN (SELECT row FROM chunks)",
    "token_parts": f"place >> {PART_BITS} NOT IN (SELECT row FROM tokens)",
    "claims": "row NOT IN (SELECT row FROM documents)",
}


def repair_tables(database: Database, defects: Sequence[Defect]) -> None:
    """Removes documents that cannot be trusted, marks chunks that are to be replaced, and adds up the counts again."""
    with database.write_transaction() as db:
        create_missing_parts(db)
        db.execute("REINDEX")
        damaged = find_ids(defects, "mend", "keep", "trim", "remove")
        for doc_id in damaged:  # as it is now: another process may have written it anew
            _mend(db, doc_id)
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
        # This makes the checksums anew, so it comes after what mends them.
        _recount(db, find_ids(defects, "recount", "rechunk", "trim"))


def _mend(db: sqlite3.Connection, doc_id: str) -> None:
    """Writes what mends a document; without a text that can be trusted it goes."""
    try:
        raw = read_raw(db, doc_id)
    except NotFound:
        return
    mending, doc = plan_mending(raw), raw.record[-2]
    if mending.remedy == "remove":
        db.execute("DELETE FROM documents WHERE row = ?", (doc,))
    if mending.remedy in ("", "remove"):
        return
    if mending.record:
        values = ", ".join(f"{name} = ?" for name in mending.record)
        db.execute(f"UPDATE documents SET {values} WHERE row = ?", (*mending.record.values(), doc))
    if mending.remedy == "keep":
        write.clear_summary_vector(db, doc_id)
    db.executemany("DELETE FROM pieces WHERE doc = ? AND n = ?", [(doc, n) for n in mending.lost])
    write.write_pieces(db, doc, mending.pieces)
    db.execute("DELETE FROM chunks WHERE doc = ?1 AND piece NOT IN (SELECT n FROM pieces WHERE doc = ?1)", (doc,))


def _delete_damaged(db: sqlite3.Connection) -> None:
    """Deletes rows that can be done without: sessions, the calibration, staged vectors and those of tokens."""
    db.execute(f"DELETE FROM sessions WHERE sum <> -1 AND sum IS NOT row_sum({', '.join(sums.SESSION)})")
    db.execute("DELETE FROM calibration WHERE sum <> -1 AND sum IS NOT row_sum(text)")
    for table in ("shadows", "summary_shadows"):
        db.execute(f"DELETE FROM {table} WHERE sum <> -1 AND sum IS NOT row_sum(row, vector)")
    db.executemany("DELETE FROM tokens WHERE row = ?", [(row,) for row in find_damaged_tokens(db)])
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
