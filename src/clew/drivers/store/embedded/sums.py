"""Checksums in SQLite: the functions that compute them, and the triggers that keep those of rows that change in place.

Chunks, signals and pieces are written with theirs, and so are new documents. Documents and the record of the collection
change column by column, so triggers of the connection compute theirs then; a program that writes without them leaves
rows that do not match.
"""

import sqlite3
from collections.abc import Mapping

from clew.drivers.store import checksums, codec

RECORD = tuple(name.strip().removeprefix("d.") for name in codec.RECORD_COLUMNS.split(","))[:-1]
META = ("embedder", "dim", "change", "documents", "chunks", "length", "last", "pruned", "birth", "created")
FOUND_BY = ("row", "id", "facets", "vector", "pieces", "revision")  # of a document: what it is found by
SESSION = ("name", "documents", "messages", "used", "kept")
# What each checksum is of, by table and column: of rows that change in place, and of those that do not.
CHANGING: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "documents": {"sum": RECORD, "found_sum": FOUND_BY},
    "meta": {"sum": META},
    "sessions": {"sum": SESSION},
    "calibration": {"sum": ("text",)},
    "erasing": {"sum": ("text",)},
}
FIXED = {
    "pieces": "row_sum(doc, n, text, sections, chars, chunks, message, parent, awaits)",
    "chunks": "row_sum(row, doc, piece, idx, start, stop, headings, context, at, meta, text, id)",
    "signals": "signal_sum(row, id, facets, seconds, length, terms, counts, vector)",
    "gone": "row_sum(change, row, terms)",
    "shadows": "row_sum(row, vector)",
    "summary_shadows": "row_sum(row, vector)",
}
PLACED_SUM = "row_sum(row, doc, ?1, ?2, ?3, ?4, headings, context, at, meta, text, id)"  # of a chunk that is moved


def register_functions(connection: sqlite3.Connection) -> None:
    """Gives a connection the functions that compute checksums."""
    functions = {
        "text_chars": (lambda data: len(data.decode("utf-8", "replace")), 1),  # SQLite's own counts up to a NUL
        "row_sum": (checksums.hash_values, -1),
        "signal_sum": (lambda *columns: checksums.hash_signal(columns), 8),
    }
    for name, (function, width) in functions.items():
        connection.create_function(name, width, function, deterministic=True)


def create_triggers(connection: sqlite3.Connection) -> None:
    """Keeps the checksums of rows that this connection changes in place."""
    for table, sums in CHANGING.items():
        changed = ", ".join(sorted({name for names in sums.values() for name in names} - {"row"}))
        unsummed = " AND ".join(f"new.{column} = {checksums.UNCHECKED}" for column in sums)
        for event, when in (("INSERT", f" WHEN {unsummed}"), (f"UPDATE OF {changed}", "")):
            connection.execute(
                f"CREATE TEMP TRIGGER IF NOT EXISTS sum_{table}_{event[:6]} AFTER {event} ON main.{table}{when}"
                f" BEGIN UPDATE {table} SET {make_assignments(table, 'new.')} WHERE rowid = new.rowid; END"
            )


def make_assignments(table: str, of: str = "") -> str:
    """SQL that sets the checksums of a row that changes in place."""
    sums = CHANGING[table].items()
    return ", ".join(f"{column} = row_sum({', '.join(f'{of}{name}' for name in names)})" for column, names in sums)


def read_checked_text(db: sqlite3.Connection, table: str, name: str) -> str:
    """The one text of a table, empty if there is none; CollectionDamaged if it is not as written."""
    found = db.execute(f"SELECT text, sum FROM {table}").fetchone()
    if not found:
        return ""
    checksums.check(name, found[1], found[0])
    return str(found[0])
