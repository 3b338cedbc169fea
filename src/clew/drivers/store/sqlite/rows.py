"""The rows of a collection in SQLite: queries as SQL, and the changes of a transaction."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import numpy as np

from clew.core.errors import DriverFailed
from clew.core.facets import Condition, get_facet_field, get_facet_values
from clew.drivers.store import checksums
from clew.drivers.store.backend import (
    CHUNK,
    COLUMNS,
    DOCUMENT,
    KEYS,
    PIECE,
    STAGED,
    TABLES,
    Columns,
    Head,
    Key,
    Row,
    Select,
    Transaction,
)
from clew.drivers.store.embed import model_switched_error
from clew.drivers.store.rows import record_to_facets, to_json
from clew.drivers.store.sqlite import schema
from clew.drivers.store.sqlite.database import Database
from clew.drivers.store.sqlite.signals import COLUMNS as SIGNALS
from clew.drivers.store.sqlite.signals import pack_vectors, unpack_vector

MAX_VALUES = 500  # parameters of one condition; more are sent as a JSON list
_OF_SIGNAL: Final = ("seconds", "facets", "terms", "counts", "vector")
_SIGNAL: Final = ("row", "signal_id", "facets", "seconds", "signal_length", "terms", "counts", "vector")
_get_signal, _get_found_by, _get_staged = (
    itemgetter(*_SIGNAL),
    itemgetter(*schema.FOUND_BY),
    itemgetter("row", "vector"),
)
_CHECKED: Final = frozenset(("terms", "counts", "vector"))  # columns of a signal to read with its checksum
_STORED: Final[Mapping[int, tuple[str, ...]]] = {
    **COLUMNS,
    CHUNK: tuple(name for name in COLUMNS[CHUNK] if name not in _OF_SIGNAL),
}
_WRITTEN: Final = {**_STORED, DOCUMENT: (*_STORED[DOCUMENT], "found_sum"), STAGED: (*_STORED[STAGED], "sum")}
_INSERT: Final = {
    kind: f"INSERT INTO {TABLES[kind]}({', '.join(names).replace('document_kind', 'kind')})"
    f" VALUES({', '.join('?' * len(names))})"
    for kind, names in _WRITTEN.items()
}
_DELETE: Final = {
    kind: f"DELETE FROM {TABLES[kind]} WHERE {' AND '.join(f'{name} = ?' for name in names)}"
    for kind, names in KEYS.items()
}
# Without statistics, SQLite would read all messages of a thread instead of using these indexes.
_INDEXES: Final[Mapping[tuple[int, str], str]] = {
    **{(PIECE, name): f" INDEXED BY pieces_{name}" for name in ("message", "parent", "awaits", "block")},
    (CHUNK, "pending"): " INDEXED BY chunks_pending",
    (DOCUMENT, "pending"): " INDEXED BY documents_pending",
}
_FACETS_AMONG = "SELECT 1 FROM json_each(s.facets) f WHERE f.value IN (SELECT value FROM json_each(?))"


class SqliteSnapshot:
    """The rows in a transaction's snapshot; the head is read on demand, unless it is given."""

    __slots__ = ("_database", "_db", "_head")

    def __init__(self, database: Database, db: sqlite3.Connection, head: Head | None = None) -> None:
        self._database, self._db, self._head = database, db, head

    @property
    def head(self) -> Head:
        """The head as of this snapshot."""
        if self._head is None:
            self._head = self._database.read_any_state(self._db)
        return self._head

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find columns of the selected rows."""
        kind, filters = wanted.kind, ""
        if wanted.alternatives == ():
            return []
        shape: list[tuple[str, str, int]] = []
        params: list[Any] = []
        for name, op, given in wanted.where:
            values = (given,) if op != "in" else given if len(given) < 2 else set(given)
            count = len(values)
            if count > MAX_VALUES:
                count, values = 0, (json.dumps(list(values)),)
            elif not count:
                return []
            shape.append((name, op, count))
            params += values
        if wanted.alternatives and wanted.is_filtered:
            alternatives = [_condition_to_sql(each) for each in wanted.alternatives or ()]
            filters = " OR ".join(f"({sql})" for sql, _ in alternatives)
            params += [param for _, some in alternatives for param in some] if kind == CHUNK else ()
        names, sql = _make_query(kind, tuple(columns), tuple(shape), filters, wanted.order, wanted.limit)
        found = self._fetch(sql, params)
        if not names:
            return found
        if "vector" in columns and self.head.embedder != self._database.embedder:
            raise model_switched_error(self._database.place, self.head.embedder, self._database.embedder)
        named = (dict(zip(names, values, strict=True)) for values in found)
        rows = self._parse(kind, named, is_read="facets" in columns or "vector" in columns)
        if kind == DOCUMENT and filters:
            rows = (row for row in rows if wanted.admits_facets(row["facets"]))
        return [tuple(map(row.__getitem__, columns)) for row in rows]

    def _fetch(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(sql, params).fetchall()
        except sqlite3.OperationalError as error:
            if "could not decode" not in str(error).lower():
                raise
        before, self._db.text_factory = self._db.text_factory, lambda data: data.decode("utf-8", "replace")
        try:  # decode invalid bytes to a text that fails its checksum
            return self._db.execute(sql, params).fetchall()
        finally:
            self._db.text_factory = before

    def _derive_facets(self, number: int) -> str:
        """Derive the facets of a document from its record, in place of damaged ones."""
        sql = f"SELECT {', '.join(schema.RECORD)} FROM documents WHERE row = ?"
        try:
            (columns,) = self._fetch(sql, (number,))
            return record_to_facets(columns)
        except (TypeError, ValueError) as error:
            raise checksums.damaged_error(f"the document in row {number}") from error

    def _parse(self, kind: int, rows: Iterable[Row], *, is_read: bool) -> Iterator[Row]:
        """Check the checksums of the columns for searches, and convert bytes to arrays.

        is_read: False if facets of documents only serve as a filter; damaged ones are then derived again.
        """
        dim = self.head.dim if kind != STAGED or self.head.staged is None else self.head.staged.dim
        for row in rows:
            if kind == CHUNK:
                _check_signal(row)
                row["terms"] = np.frombuffer(row["terms"], np.int64)
                row["counts"] = np.frombuffer(row["counts"], np.uint16)
            elif kind == DOCUMENT and not checksums.matches(row["found_sum"], *_get_found_by(row)):
                if is_read:
                    raise checksums.damaged_error(f"the summary of the document {row['id']!r}")
                row |= {"facets": self._derive_facets(row["row"]), "vector": None}
            elif kind == STAGED:
                checksums.check("a vector of the model that is not in use", row["found_sum"], row["row"], row["vector"])
            row["vector"] = unpack_vector(row["vector"], dim) if row["vector"] else None
            yield row


def _check_signal(row: Row) -> None:
    """Raise CollectionDamaged if the signal of a chunk is missing, corrupt, or inconsistent with the chunk."""
    if row["found_sum"] is None:
        raise checksums.damaged_error(f"the vector or the terms of the chunk {row['id']!r}")
    checksums.check_signal(_get_signal(row), row["found_sum"])
    if row["id"] != row["signal_id"] or row["length"] != row["signal_length"]:
        raise checksums.damaged_error(f"the list of the terms of the chunk {row['id']!r}")


@lru_cache(4096)
def _make_query(
    kind: int,
    columns: tuple[str, ...],
    shape: tuple[tuple[str, str, int], ...],
    filters: str,
    order: str,
    limit: int | None,
) -> tuple[tuple[str, ...], str]:
    """Make the statement that reads columns of the selected rows, and the names of the columns that it reads.

    The names are empty if it reads only the requested columns, which then need no checks.
    """
    names = columns
    if kind == CHUNK and not _CHECKED.isdisjoint(columns):
        names = (*columns, *_SIGNAL, "id", "length", "found_sum")
    elif kind == DOCUMENT and (filters or "facets" in columns or "vector" in columns):
        names = (*columns, *schema.FOUND_BY, "found_sum")
    elif kind == STAGED and "vector" in columns:
        names = ("row", "vector", "found_sum")
    conditions, hint = list[str](), ""
    for name, op, count in shape:
        column = _name_column(kind, name)
        among = ("?" if count else "SELECT value FROM json_each(?)") if count <= 1 else ",".join("?" * count)
        conditions.append(f"{column} IN ({among})" if op == "in" else f"{column} {op} ?")
        hint = hint or (_INDEXES.get((kind, name), "") if op == "in" else "")
    if filters and kind == CHUNK:
        conditions.append(f"({filters})")
    names = names if names == columns else tuple(dict.fromkeys(names))
    read = [_name_column(kind, name) for name in names] or ["1"]
    source = f"{TABLES[kind]} t{hint}"
    if kind == CHUNK and (filters or any(each.startswith("s.") for each in read)):
        source += " LEFT JOIN signals s ON s.row = t.row"
    sql = f"SELECT {', '.join(read)} FROM {source}"
    sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if order:
        sql += f" ORDER BY {_name_column(kind, order.removeprefix('-'))}{' DESC' if order.startswith('-') else ''}"
    return () if names == columns else names, sql if limit is None else f"{sql} LIMIT {limit}"


def _name_column(kind: int, name: str) -> str:
    """Return the SQL name of a column, in the table `t` of a kind of rows or the signal `s` of a chunk."""
    if kind == CHUNK and (name in _OF_SIGNAL or name in ("signal_id", "signal_length", "found_sum")):
        return "s.sum" if name == "found_sum" else f"s.{name.removeprefix('signal_')}"
    return {"document_kind": "t.kind", "found_sum": "t.found_sum" if kind == DOCUMENT else "t.sum"}.get(
        name, f"t.{name}"
    )


def _condition_to_sql(condition: Condition) -> tuple[str, list[object]]:
    """Return the SQL and parameters for a condition of a filter on a chunk `t` and its signal `s`."""
    parts, params = ["s.row IS NOT NULL"], list[object]()
    for group in condition.groups:
        if get_facet_field(group) == "document":  # use the index of ids
            parts.append("t.doc IN (SELECT row FROM documents WHERE id IN (SELECT value FROM json_each(?)))")
            params.append(to_json(get_facet_values(group)))
        else:
            parts.append(f"EXISTS ({_FACETS_AMONG})")
            params.append(to_json(sorted(group)))
    for operator, at in ((">=", condition.since), ("<", condition.until)):
        if at is not None:
            parts.append(f"s.seconds {operator} ?")
            params.append(at)
    return " AND ".join(parts), params


def apply_changes(db: sqlite3.Connection, tx: Transaction, head: Head, before: Head) -> None:
    """Write the changes of a transaction."""
    removed, added = _group(tx.removed), _group(tx.added)
    gone = [key[1] for key in removed[CHUNK] if key not in tx.added]
    if gone:
        _write_tombstones(db, gone, head.change)
    if before.staged is not None:
        numbers = gone + [key[1] for key in removed[DOCUMENT] if key not in tx.added]
        db.executemany("DELETE FROM staged WHERE row = ?", [(number,) for number in numbers])
        if head.staged is None:
            db.execute("DELETE FROM staged")
    for kind, keys in removed.items():
        db.executemany(_DELETE[kind], [key[1:] for key in keys])
    for kind, rows in added.items():
        _insert(db, kind, list(rows.values()), removed[CHUNK])
    for kind, rows in _group(tx.filled).items():
        _fill(db, kind, list(rows.values()), head.change)
    schema.write_meta(
        db,
        **{name: getattr(head, name) for name in ("change", "documents", "chunks", "length", "last", "pending")},
        staged=None if head.staged is None else json.dumps(asdict(head.staged)),
    )


def _group(rows: Mapping[Key, Row]) -> dict[int, dict[Key, Row]]:
    grouped: dict[int, dict[Key, Row]] = defaultdict(dict)
    for key, row in rows.items():
        grouped[key[0]][key] = row
    return grouped


def _write_tombstones(db: sqlite3.Connection, rows: Sequence[int], change: int) -> None:
    keys = [(row,) for row in rows]
    sql = "INSERT INTO gone SELECT ?1, row, terms, row_sum(?1, row, terms) FROM signals WHERE row = ?2"
    db.executemany(sql, [(change, row) for row in rows])
    db.executemany("DELETE FROM signals WHERE row = ?", keys)


def _insert(db: sqlite3.Connection, kind: int, rows: Sequence[Row], kept: Mapping[Key, Row]) -> None:
    """Insert rows; a chunk that keeps its row (`kept`) keeps its signal."""
    names, vectors = _STORED[kind], dict[int, bytes]()
    has_vector = [row for row in rows if row.get("vector") is not None]
    if has_vector:
        packed = pack_vectors(np.stack([row["vector"] for row in has_vector]))
        vectors = dict(zip([row["row"] for row in has_vector], packed, strict=True))
    values = [[*map(row.get, names)] for row in rows]
    if kind in (DOCUMENT, STAGED):
        place, get_found_by = names.index("vector"), _get_found_by if kind == DOCUMENT else _get_staged
        for row, made in zip(rows, values, strict=True):
            made[place] = vectors.get(row["row"])
            made.append(checksums.hash_values(*get_found_by({**row, "vector": made[place]})))
    try:
        db.executemany(_INSERT[kind], values)
    except sqlite3.IntegrityError as error:
        raise DriverFailed(
            f"a chunk id is given twice, or is taken by another document ({error}); nothing was stored"
        ) from error
    if kind == CHUNK:
        new = [row for row in rows if (CHUNK, row["row"]) not in kept]
        _insert_signals(db, new, vectors)


def _fill(db: sqlite3.Connection, kind: int, rows: Sequence[Row], change: int) -> None:
    """Set the vectors of pending rows; tombstones without terms tell an index about those of chunks."""
    packed = pack_vectors(np.stack([row["vector"] for row in rows]))
    vectors = [(vector, row["row"]) for vector, row in zip(packed, rows, strict=True)]
    if kind == DOCUMENT:
        made = f"row_sum({', '.join(schema.FOUND_BY)})".replace("vector", "?1")
        sql = f"UPDATE documents SET vector = ?1, pending = NULL, found_sum = {made} WHERE row = ?2"
        db.executemany(sql, vectors)
        return
    made = schema.FIXED["signals"].replace("vector", "?1")
    db.executemany(f"UPDATE signals SET vector = ?1, sum = {made} WHERE row = ?2", vectors)
    db.executemany("UPDATE chunks SET pending = NULL, print = ? WHERE row = ?", [(r["print"], r["row"]) for r in rows])
    db.executemany("INSERT INTO gone VALUES(?1, ?2, x'', row_sum(?1, ?2, x''))", [(change, row["row"]) for row in rows])


def _insert_signals(db: sqlite3.Connection, rows: Sequence[Row], vectors: Mapping[int, bytes]) -> None:
    signals = [
        (
            row["row"],
            row["id"],
            row["facets"],
            row["seconds"],
            row["length"],
            row["terms"].tobytes(),
            row["counts"].tobytes(),
            vectors.get(row["row"], b""),
        )
        for row in rows
    ]
    db.executemany(
        f"INSERT INTO signals({SIGNALS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*each, checksums.hash_signal(each)) for each in signals],
    )
