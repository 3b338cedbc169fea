"""The repairs of a folder's collection: rows that cannot be trusted go, and counts are added up again."""

import json
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

from clew.core.doctor import Defect
from clew.core.errors import CollectionDamaged, DriverFailed, NotFound
from clew.core.time import parse_iso_or_none
from clew.drivers.store import checksums
from clew.drivers.store.embedded import connection, schema, sums, write
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.folder import read_last_change, write_last_change
from clew.drivers.store.embedded.foreign_log import is_foreign_log
from clew.drivers.store.embedded.parts import create_missing_parts
from clew.drivers.store.embedded.raw import read_raw
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


def accept_what_is_there(folder: Path, embedders: Sequence[str]) -> Iterator[Defect]:
    """Let a collection be opened that is refused as a whole; yields what was wrong, repaired.

    A damaged record of the collection is made again, and the last change that is there counts as the last there was.

    embedders: Names that its embedder may have.
    """
    file = folder / schema.FILE
    if not file.exists():
        return
    last = read_last_change(folder)
    with schema.translate_errors(str(file)):
        try:
            with closing(connection.open_read_only_connection(file)) as db:
                birth, change = schema.read_meta(db, str(file), "birth", "change")
        except CollectionDamaged:
            birth, change = _mend_record(folder, last, embedders)
            problem = f"{file}: the record of the collection is damaged"
            yield Defect("truth", problem, "", "mend", is_repaired=True)
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


def _mend_record(folder: Path, last: tuple[str, int] | None, embedders: Sequence[str]) -> tuple[str, int]:
    """Make the record of the collection again; returns the collection's id and change number.

    Every column is tried as it is stored and as the rest of the collection says. The record with the right checksum is
    the one that was written. Where none has it, all is derived, and a new id makes every index be built again.
    """
    place = str(folder / schema.FILE)
    db = connection.connect(folder)
    try:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        db.execute("BEGIN IMMEDIATE")
        found = db.execute(f"SELECT {', '.join(sums.META)}, sum FROM meta").fetchone()
        if found is None:
            raise schema.record_gone_error(place)
        stored = dict(zip((*sums.META, "sum"), found, strict=True))
        derived = _derive_columns(db, last, embedders)
        tried = [dict.fromkeys([stored[name], *derived.get(name, ())]) for name in sums.META]
        record = next((each for each in product(*tried) if checksums.hash_values(*each) == stored["sum"]), None)
        if record is None:
            record = tuple(_choose_columns(place, stored, derived)[name] for name in sums.META)
            db.execute("DELETE FROM gone")
        columns = ", ".join(f"{name} = ?" for name in (*sums.META, "sum"))
        db.execute(f"UPDATE meta SET {columns}", (*record, checksums.hash_values(*record)))
        db.execute("COMMIT")
    finally:
        connection.close_connection(db, folder)
    birth, change = (record[sums.META.index(name)] for name in ("birth", "change"))
    if last and birth != last[0]:
        write_last_change(folder, birth, change)
    return birth, change


def _derive_columns(
    db: sqlite3.Connection, last: tuple[str, int] | None, embedders: Sequence[str]
) -> dict[str, list[Any]]:
    """What other places say of columns of the record, the most certain first."""
    derived: dict[str, list[Any]] = {name: list(db.execute(sql).fetchone()) for name, sql in COUNTS.items()}
    derived["last"] = list(db.execute("SELECT coalesce(max(row), 0) FROM signals").fetchone())
    widths = [width for (width,) in db.execute("SELECT length(vector) FROM signals LIMIT 1")]
    derived["dim"] = [width // size for width in widths for size in (4, 2)]  # bytes of a number
    derived["birth"], derived["change"] = ([each] for each in last) if last else ([], [])
    derived["pruned"] = [0]
    derived["embedder"] = list(embedders)
    with suppress(DriverFailed, ValueError, KeyError, TypeError):  # it is damaged too
        if text := sums.read_checked_text(db, "calibration", ""):
            derived["embedder"].insert(0, str(json.loads(text)["embedder"]))
    return derived


def _choose_columns(place: str, stored: Mapping[str, Any], derived: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The record that nothing proves; CollectionDamaged if even the embedder is in doubt."""
    name = stored["embedder"]
    if name not in derived["embedder"]:
        raise CollectionDamaged(
            f"{place}: the record of the collection is damaged, and nothing says whether {name!r} is its embedder; "
            "name that: `clew --embedder NAME doctor --repair`"
        )
    change = derived["change"][0] + 1 if derived["change"] else stored["change"]
    return {
        **{column: values[0] for column, values in derived.items() if values},
        "embedder": name,
        "dim": stored["dim"] if stored["dim"] in derived["dim"] else next(iter(derived["dim"]), stored["dim"]),
        "change": change,
        "pruned": change,
        "birth": uuid.uuid4().hex,
        "created": stored["created"] if parse_iso_or_none(str(stored["created"])) else None,
    }
