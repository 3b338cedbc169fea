"""Checksums in SQLite: the functions that compute them, and the triggers that keep those of rows that change in place.

Chunks, signals and pieces are written with theirs, and so are new documents. Documents and the record of the collection
change column by column, so triggers of the connection compute theirs then; a program that writes without them leaves
rows that do not match.
"""

import sqlite3

from clew.drivers.store import checksums, codec

_RECORD = tuple(name.strip().removeprefix("d.") for name in codec.RECORD_COLUMNS.split(","))[:-1]
META = ("embedder", "dim", "change", "documents", "chunks", "length", "last", "pruned", "birth", "created")
FOUND_BY = ("row", "id", "facets", "vector", "pieces", "revision")  # of a document: what it is found by
_SIGNAL = ("row", "id", "facets", "seconds", "length", "terms", "counts", "vector")
_PIECE = ("doc", "n", "text", "sections", "chars", "chunks", "message", "parent", "awaits")
_CHUNK = ("row", "doc", "piece", "idx", "start", "stop", "headings", "context", "at", "meta", "text", "id")
SESSION = ("name", "documents", "messages", "used", "kept")


def _join(names: tuple[str, ...], of: str = "") -> str:
    return ", ".join(f"{of}{name}" for name in names)


# What each checksum is of, by table and column.
_FILLED = {
    "documents": {"sum": "record_sum({record})", "found_sum": "row_sum({found})"},
    "meta": {"sum": "row_sum({meta})"},
    "sessions": {"sum": "row_sum({session})"},
    "calibration": {"sum": "row_sum({text})"},
    "erasing": {"sum": "row_sum({text})"},
}
_BULK = {
    "pieces": f"piece_sum({_join(_PIECE)})",
    "chunks": f"chunk_sum({_join(_CHUNK)})",
    "signals": f"signal_sum({_join(_SIGNAL)})",
    "gone": "row_sum(change, row, terms)",
    "shadows": "row_sum(row, vector)",
    "summary_shadows": "row_sum(row, vector)",
}
_LISTS = {"record": _RECORD, "found": FOUND_BY, "meta": META, "session": SESSION, "text": ("text",)}
SIGNAL_SUM, PIECE_SUM = _BULK["signals"], _BULK["pieces"]
PLACED_SUM = "chunk_sum(row, doc, ?1, ?2, ?3, ?4, headings, context, at, meta, text, id)"  # of a chunk that is moved


def register_functions(connection: sqlite3.Connection) -> None:
    """Gives a connection the functions that compute checksums."""
    functions = {
        "text_chars": (len, 1),  # SQLite's own counts up to a NUL
        "row_sum": (checksums.hash_values, -1),
        "record_sum": (checksums.hash_record, len(_RECORD)),
        "signal_sum": (lambda *columns: checksums.hash_signal(columns), len(_SIGNAL)),
        "piece_sum": (lambda doc, *piece: checksums.hash_piece(doc, piece), len(_PIECE)),
        "chunk_sum": (lambda *c: checksums.hash_chunk(c[0], c[1], c[2:6], c[6:11], c[11]), len(_CHUNK)),
    }
    for name, (function, width) in functions.items():
        connection.create_function(name, width, function, deterministic=True)


def create_triggers(connection: sqlite3.Connection) -> None:
    """Keeps the checksums of rows that this connection changes in place."""
    for table, sums in _FILLED.items():
        made = _make_assignments(sums, "new.")
        names = {name for sql in sums.values() for name in _LISTS[sql.split("{")[1].rstrip("})")]}
        changed = _join(tuple(sorted(names - {"row"})))
        unsummed = " AND ".join(f"new.{column} = {checksums.UNCHECKED}" for column in sums)
        for event, when in (("INSERT", f" WHEN {unsummed}"), (f"UPDATE OF {changed}", "")):
            connection.execute(
                f"CREATE TEMP TRIGGER IF NOT EXISTS sum_{table}_{event[:6]} AFTER {event} ON main.{table}{when}"
                f" BEGIN UPDATE {table} SET {made} WHERE rowid = new.rowid; END"
            )


def read_checked_text(db: sqlite3.Connection, table: str, name: str) -> str:
    """The one text of a table, empty if there is none; CollectionDamaged if it is not as written."""
    found = db.execute(f"SELECT text, sum FROM {table}").fetchone()
    if not found:
        return ""
    checksums.check_values(name, found[1], found[0])
    return str(found[0])


def _make_assignments(sums: dict[str, str], of: str = "") -> str:
    lists = {name: _join(names, of) for name, names in _LISTS.items()}
    return ", ".join(f"{column} = {sql.format(**lists)}" for column, sql in sums.items())
