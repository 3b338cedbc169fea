"""Checksums in SQLite: what each is of, the functions that compute them, and the record of the collection."""

import sqlite3
from functools import cache
from typing import Any

from clew.drivers.store import checksums

META = (
    *("embedder", "dim", "change", "documents", "chunks", "length", "last", "pending", "pruned", "birth", "created"),
    "staged",
)
RECORD = (
    *("id", "title", "uri", "kind", "hash", "stamp", "chars", "chunks", "summary", "meta", "access", "summary_by"),
    *("created", "updated", "row"),
)
FOUND_BY = ("row", "id", "facets", "vector", "revision")  # of a document: what it is found by
FIXED = {
    "pieces": "row_sum(doc, n, text, sections, chars, chunks, message, parent, awaits)",
    "blocks": "row_sum(doc, block, chars, chunks, sizes)",
    "chunks": "row_sum(row, doc, piece, idx, start, stop, headings, context, at, meta, text, id)",
    "signals": "signal_sum(row, id, facets, seconds, length, terms, counts, vector)",
    "gone": "row_sum(change, row, terms)",
    "staged": "row_sum(row, vector)",
    "named": "row_sum(kind, name, value)",
}


def register_functions(connection: sqlite3.Connection) -> None:
    """Gives a connection the functions that compute checksums."""
    functions = {
        "row_sum": (checksums.hash_values, -1),
        "signal_sum": (lambda *columns: checksums.hash_signal(columns), 8),
    }
    for name, (function, width) in functions.items():
        connection.create_function(name, width, function, deterministic=True)


def write_meta(db: sqlite3.Connection, **columns: Any) -> None:
    """Changes columns of the record of the collection, and its checksum."""
    db.execute(_update_meta(tuple(columns)), tuple(columns.values()))


@cache
def _update_meta(names: tuple[str, ...]) -> str:
    given = {name: f"?{number}" for number, name in enumerate(names, 1)}
    changes = ", ".join(f"{name} = {value}" for name, value in given.items())
    return f"UPDATE meta SET {changes}, sum = row_sum({', '.join(given.get(name, name) for name in META)})"
