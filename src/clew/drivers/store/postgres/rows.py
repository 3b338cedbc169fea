"""The rows of a collection in PostgreSQL: queries as SQL, and the changes of a transaction.

Rows are sent as columns, which the server unnests: PostgreSQL refuses COPY on tables with row-level security.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

import numpy as np
from psycopg import Connection
from psycopg.types.numeric import Int8

from clew.core.facets import Condition
from clew.core.stored import Hashes
from clew.drivers.store.backend import (
    BLOCK,
    CHUNK,
    DOCUMENT,
    KEYS,
    PIECE,
    STAGED,
    TABLES,
    Head,
    Key,
    Row,
    Select,
    Transaction,
)
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.postgres import binary, pool
from clew.drivers.store.postgres.pool import fetch_rows
from clew.drivers.store.postgres.setup import OpenCollection, check_model_unchanged
from clew.drivers.store.rows import hash_facet

BATCH = 1000  # chunks per statement, some megabytes
_TYPES: Final = {
    **dict.fromkeys(("row", "doc", "start", "stop", "chars", "print", "revision"), "bigint"),
    **dict.fromkeys(("n", "block", "piece", "idx", "chunks", "length", "pending"), "int"),
    "seconds": "float8",
}
# The columns to write besides the collection; the server computes checksums and the blocks of pieces.
_STORED: Final[Mapping[int, tuple[str, ...]]] = {
    DOCUMENT: (
        *("row", "id", "title", "uri", "kind", "hash", "stamp", "chars", "chunks", "summary", "meta", "access"),
        *("summary_by", "created", "updated", "revision", "pending", "facets"),
    ),
    PIECE: ("doc", "n", "text", "sections", "chars", "chunks", "message", "parent", "awaits"),
    BLOCK: ("doc", "block", "chars", "chunks", "sizes"),
    CHUNK: (
        *("row", "id", "doc", "piece", "idx", "start", "stop", "print", "length", "text", "headings", "context"),
        *("at", "meta", "channel", "pending"),
    ),
}
_MOVED: Final = ("piece", "idx", "start", "stop", "at", "meta", "channel")  # columns of a moved chunk
_EXPRESSIONS: Final[Mapping[tuple[int, str], str]] = {
    (DOCUMENT, "document_kind"): "t.kind",
    (DOCUMENT, "facets"): "CASE WHEN coalesce(u.facets, t.facets) = t.facets THEN t.facets END",
    (DOCUMENT, "vector"): "u.vector",
    (CHUNK, "seconds"): "s.seconds",
    (CHUNK, "facets"): "CASE WHEN t.words[:cardinality(s.facets)] = s.facets THEN s.facets END",
    (CHUNK, "vector"): "coalesce(s.vector, s.half::vector)",
    (CHUNK, "terms"): "w.terms",
    (CHUNK, "counts"): "w.counts",
}
_ARRAYS: Final = frozenset(("terms", "counts", "vector"))
_OF_SUMMARY: Final = {"facets", "vector"}
_OF_SIGNAL: Final = {"facets", "seconds", "vector"}
# Facets also have postings, with a count of 0.
_TERMS: Final = (
    " JOIN LATERAL (SELECT array_agg(p.word ORDER BY p.word) AS terms, array_agg(p.count ORDER BY p.word) AS counts"
    " FROM unnest(t.words) AS x(word) JOIN postings p ON p.word = x.word AND p.collection = {0} AND p.chunk = t.row"
    " WHERE p.count > 0) w ON true"
)
SUBSET_SHARE = 4  # check a condition row by row if it admits more than one chunk in this many


class PostgresSnapshot:
    """The rows in a transaction's snapshot."""

    def __init__(self, connection: Connection, collection: OpenCollection, head: Head) -> None:
        self._connection, self._collection, self.head = connection, collection, head

    def find(self, wanted: Select, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Find columns of the selected rows."""
        if wanted.is_empty:
            return []
        if "vector" in columns:
            check_model_unchanged(self._collection, self.head.embedder)
        asked = ("pending", "id") if wanted.kind == CHUNK and "vector" in columns else ()
        sql, params = _make_query(self._collection.number, wanted, (*columns, *asked))
        found = fetch_rows(self._connection, sql, params)
        if _ARRAYS.isdisjoint(columns):
            return found
        return [tuple(map(_parse_array, columns, values, repeat(values[len(columns) :]))) for values in found]


def _parse_array(name: str, value: Any, chunk: Sequence[Any]) -> Any:
    """Parse a column that may be an array; for a chunk's vector, `chunk` is (pending, id)."""
    if name == "vector":
        if value is None and chunk and not chunk[0]:
            raise damaged_error(f"the vector of the chunk {chunk[1]!r}")
        return None if value is None else binary.decode_vector(value)
    kind = {"terms": np.int64, "counts": np.uint16}.get(name)
    return value if kind is None else np.array(value or [], kind)


def _make_query(number: int, wanted: Select, names: Sequence[str]) -> tuple[str, list[Any]]:
    """Make the statement that reads columns of the selected rows, and its parameters."""
    kind, conditions, params = wanted.kind, [f"t.collection = {number}"], list[Any]()
    for name, op, given in wanted.where:
        form = "text" if name not in _TYPES else "bigint"
        values = list(dict.fromkeys(given)) if op == "in" else [given]
        if len(values) == 1:
            conditions.append(f"t.{name} {'=' if op == 'in' else op} %s::{form}")
            params.append(Int8(values[0]) if form == "bigint" else values[0])
        else:
            conditions.append(f"t.{name} = ANY(%s::{form}[])")
            params.append(binary.encode_bigints(values) if form == "bigint" else binary.encode_texts(values))
    expressions = [_EXPRESSIONS.get((kind, name), f"t.{name}") for name in names]
    filtered = ""
    if wanted.is_filtered:
        made = build_filter_conditions(wanted.alternatives or (), table="s" if kind == CHUNK else "t")
        filtered, params = made.sql, [*params, *made.params]
    order = wanted.order.removeprefix("-")
    if order == "row":  # a range, so that no rows of other collections are read
        conditions.append(f"t.row > {number}::bigint << 36 AND t.row < {number + 1}::bigint << 36")
    source = _name_source(number, kind, set(names) | ({"facets"} if filtered else set()))
    sql = f"SELECT {', '.join(expressions)} FROM {source} WHERE {' AND '.join(conditions)}{filtered}"
    if order:
        sql += f" ORDER BY t.{order}{' DESC' if wanted.order.startswith('-') else ''}"
    return (sql if wanted.limit is None else f"{sql} LIMIT {wanted.limit}"), params


def _name_source(number: int, kind: int, names: set[str]) -> str:
    """Return the table of a kind, with the joins that the columns need."""
    source = f"{TABLES[kind]} t"
    if kind == DOCUMENT and names & _OF_SUMMARY:
        source += " LEFT JOIN summaries u ON u.row = t.row"
    if kind == CHUNK and names & _OF_SIGNAL:
        source += " LEFT JOIN signals s ON s.row = t.row"
    return source + _TERMS.format(number) if kind == CHUNK and names & {"terms", "counts"} else source


@dataclass(frozen=True, slots=True)
class SqlFragment:
    """A piece of SQL and its parameters."""

    sql: str = ""
    params: tuple[Any, ...] = ()


NO_CONDITION = SqlFragment()


def build_filter_conditions(alternatives: Sequence[Condition], *, table: str = "s") -> SqlFragment:
    """Build the SQL condition that a row fulfils one of the alternatives, which must not be empty."""
    if any(each.is_empty for each in alternatives):
        return NO_CONDITION
    made = [_build_condition(each, table) for each in alternatives]
    sql = " OR ".join(f"({each.sql})" for each in made)
    return SqlFragment(f" AND ({sql})", tuple(param for each in made for param in each.params))


def find_narrow_subset(
    connection: Connection, number: int, alternatives: Sequence[Condition], limit: int
) -> SqlFragment | None:
    """Build a query for the rows of the narrowest part of each alternative; None if these are too many.

    It reads the postings of facets: under row-level security PostgreSQL uses no index on arrays, since array operators
    could leak hidden rows.
    """
    sources = [_list_narrowing_parts(each, number) for each in alternatives]
    if not sources or not all(sources) or limit < 1:
        return None
    counts = ", ".join(
        f"(SELECT count(*) FROM ({part.sql} LIMIT {limit + 1}) x)" for parts in sources for part in parts
    )
    ((*counted, chunks),) = fetch_rows(
        connection,
        f"SELECT {counts}, (SELECT chunks FROM collections WHERE number = {number})",
        [param for parts in sources for part in parts for param in part.params],
    )
    rows = iter(counted)
    narrowest = [min(((next(rows), part) for part in parts), key=lambda pair: pair[0]) for parts in sources]
    if sum(count for count, _ in narrowest) > min(limit, (chunks or 0) // SUBSET_SHARE):
        return None
    sql = " UNION ALL ".join(part.sql for _, part in narrowest)
    return SqlFragment(sql, tuple(param for _, part in narrowest for param in part.params))


def _build_condition(condition: Condition, table: str) -> SqlFragment:
    parts, params = list[str](), list[Any]()
    for group in condition.groups:
        parts.append(f"{table}.facets && %s::bigint[]")
        params.append(_encode_facets(group))
    timed = _bound_time(condition)
    return SqlFragment(" AND ".join(filter(None, [*parts, timed.sql])), (*params, *timed.params))


def _list_narrowing_parts(condition: Condition, number: int) -> list[SqlFragment]:
    """List queries for the rows of each part of a condition that has an index."""
    parts = [
        SqlFragment(
            f"SELECT chunk AS row FROM postings WHERE collection = {number} AND word = ANY(%s::bigint[])",
            (_encode_facets(group),),
        )
        for group in condition.groups
    ]
    timed = _bound_time(condition)
    if timed.sql:
        sql = f"SELECT s.row FROM signals s WHERE s.collection = {number} AND {timed.sql}"
        parts.append(SqlFragment(sql, timed.params))
    return parts


def _bound_time(condition: Condition) -> SqlFragment:
    bounds = [("s.seconds >= %s::float8", condition.since), ("s.seconds < %s::float8", condition.until)]
    given = [(sql, at) for sql, at in bounds if at is not None]
    return SqlFragment(" AND ".join(sql for sql, _ in given), tuple(at for _, at in given))


def _encode_facets(group: frozenset[str]) -> binary.BinaryParam:
    return binary.encode_bigints([hash_facet(facet) for facet in sorted(group)])


def apply_changes(
    connection: Connection, collection: OpenCollection, tx: Transaction, head: Head, before: Head
) -> None:
    """Write the changes of a transaction, with at most one delete and one insert statement per table."""
    gone, added = _group(tx.removed.keys() - tx.added.keys()), _group(tx.added)
    if before.staged is not None or gone[STAGED]:
        _remove_staged(connection, collection.number, tx, head)
    for kind in (PIECE, BLOCK, CHUNK, DOCUMENT):
        if gone[kind]:
            _delete(connection, collection.number, kind, gone[kind])
    kept = [tx.added[key] for key in added[CHUNK] if key in tx.removed]
    if kept:
        _move_chunks(connection, kept)
    connection.execute(pool.LOCAL_GENERIC_PLANS)  # planning an insert takes longer than running it
    for kind in (DOCUMENT, PIECE, BLOCK):
        if added[kind]:
            _upsert(connection, collection.number, kind, [tx.added[key] for key in added[kind]])
    _write_summaries(connection, collection, tx, added[DOCUMENT])
    new = [tx.added[key] for key in added[CHUNK] if key not in tx.removed]
    for start in range(0, len(new), BATCH):
        _insert_chunks(connection, collection, new[start : start + BATCH])
    for kind, keys in _group(tx.filled).items():
        _fill(connection, collection, kind, [tx.filled[key] for key in keys])
    if added[STAGED]:
        _insert_staged(connection, collection, [tx.added[key] for key in added[STAGED]])
    write_head(connection, collection.number, head)


def _group(keys: Collection[Key]) -> dict[int, list[Key]]:
    grouped: dict[int, list[Key]] = defaultdict(list)
    for key in keys:
        grouped[key[0]].append(key)
    return grouped


def write_head(connection: Connection, number: int, head: Head) -> None:
    """Write the head of the collection."""
    names = ("embedder", "dim", "change", "documents", "chunks", "length", "last", "pending")
    connection.execute(
        f"UPDATE collections SET {', '.join(f'{name} = %s' for name in names)}, staged = %s, version = version + 1"
        f" WHERE number = {number}",
        (*(getattr(head, name) for name in names), json.dumps(asdict(head.staged)) if head.staged else None),
    )


def _remove_staged(connection: Connection, number: int, tx: Transaction, head: Head) -> None:
    """Delete removed staged vectors and those of removed rows; all if no model is staged any more."""
    gone = [key[1] for key in tx.removed if key[0] in (STAGED, CHUNK, DOCUMENT) and key not in tx.added]
    if head.staged is None:
        connection.execute(f"DELETE FROM staged WHERE collection = {number}")
    elif gone:
        connection.execute(
            f"DELETE FROM staged WHERE collection = {number} AND row = ANY(%s::bigint[])",
            (binary.encode_bigints(gone),),
        )


def _delete(connection: Connection, number: int, kind: int, keys: Sequence[Key]) -> None:
    names = KEYS[kind]
    arrays = ", ".join("%s::bigint[]" for _ in names)
    matched = " AND ".join(f"t.{name} = u.{name}" for name in names)
    connection.execute(
        f"DELETE FROM {TABLES[kind]} t USING unnest({arrays}) AS u({', '.join(names)})"
        f" WHERE {matched} AND t.collection = {number}",
        [binary.encode_bigints([key[at] for key in keys]) for at in range(1, len(names) + 1)],
    )


def _upsert(connection: Connection, number: int, kind: int, rows: Sequence[Row]) -> None:
    names, keys = _STORED[kind], ", ".join(KEYS[kind])
    values = ", ".join(f"u.{name}{'::bigint[]' if name == 'facets' else ''}" for name in names)
    other = [name for name in names if name not in KEYS[kind]]
    old, new = (", ".join(f"{table}.{name}" for name in other) for table in ("t", "excluded"))
    connection.execute(
        f"INSERT INTO {TABLES[kind]} AS t (collection, {', '.join(names)}) SELECT {number}, {values}"
        f" FROM unnest({_list_arrays(names)}) AS u({', '.join(names)}) ON CONFLICT ({keys})"
        f" DO UPDATE SET ({', '.join(other)}) = ROW({new}) WHERE ({old}) IS DISTINCT FROM ({new})",
        [_encode_column(name, rows) for name in names],
        prepare=True,
    )


def _list_arrays(names: Sequence[str]) -> str:
    return ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in names)


def _encode_column(name: str, rows: Sequence[Row]) -> binary.BinaryParam:
    if name == "kind":  # the column of the table, not the kind of row
        name = "document_kind"
    values: list[Any] = [row[name] for row in rows]
    if name == "facets":
        values = [f"{{{','.join(map(str, hash_facets(each)))}}}" for each in values]
    form = _TYPES.get(name)
    if form == "bigint":
        return binary.encode_bigints(values)
    if form == "int":
        return binary.encode_optional_ints(values) if name in ("piece", "pending") else binary.encode_ints(values)
    return binary.encode_floats(values) if form else binary.encode_texts(values)


def _write_summaries(connection: Connection, collection: OpenCollection, tx: Transaction, keys: Sequence[Key]) -> None:
    """Write the summary vectors of documents; unchanged ones are not indexed again."""
    has = [tx.added[key] for key in keys if tx.added[key]["vector"] is not None]
    lost = [key[1] for key in keys if tx.added[key]["vector"] is None and key in tx.removed]
    if lost:
        connection.execute("DELETE FROM summaries WHERE row = ANY(%s::bigint[])", (binary.encode_bigints(lost),))
    if has:
        connection.execute(
            "INSERT INTO summaries AS o (row, collection, facets, vector)"
            f" SELECT u.row, {collection.number}, u.facets::bigint[], u.vector"
            " FROM unnest(%s::bigint[], %s::text[], %s::vector[]) AS u(row, facets, vector)"
            " ON CONFLICT (row) DO UPDATE SET facets = excluded.facets, vector = excluded.vector"
            " WHERE (o.facets, o.vector) IS DISTINCT FROM (excluded.facets, excluded.vector)",
            (_encode_column("row", has), _encode_column("facets", has), _encode_vectors(has, collection)),
        )


def _encode_vectors(rows: Sequence[Row], collection: OpenCollection) -> binary.BinaryParam:
    vectors = [row["vector"] for row in rows if row["vector"] is not None]
    matrix = np.stack(vectors) if vectors else np.empty((0, collection.dim), np.float32)
    return binary.encode_vectors(matrix, collection.vector_oid)


def _move_chunks(connection: Connection, rows: Sequence[Row]) -> None:
    """Update the changed places of chunks that keep their rows; signals stay."""
    names = ("row", *_MOVED)
    of_new, of_old = (", ".join(f"{table}.{name}" for name in _MOVED) for table in ("u", "c"))
    connection.execute(
        f"UPDATE chunks c SET ({', '.join(_MOVED)}) = ROW({of_new}) FROM unnest({_list_arrays(names)})"
        f" AS u({', '.join(names)}) WHERE c.row = u.row AND ({of_old}) IS DISTINCT FROM ({of_new})",
        [_encode_column(name, rows) for name in names],
    )


def _insert_chunks(connection: Connection, collection: OpenCollection, rows: Sequence[Row]) -> None:
    """Insert chunks with their signals and postings. A chunk's words are its facets, followed by its terms."""
    number, names, words = collection.number, _STORED[CHUNK], _Words(rows)
    shown = f"{_list_arrays(names)}, %s::int[], %s::int[]"
    slices = (binary.encode_ints(words.starts + 1), binary.encode_ints(words.starts + words.sizes))  # counted from 1
    connection.execute(
        f"INSERT INTO chunks(collection, {', '.join(names)}, words) SELECT {number},"
        f" {', '.join(f'u.{name}' for name in names)}, (%s::bigint[])[u.first:u.last]"
        f" FROM unnest({shown}) AS u({', '.join(names)}, first, last)",
        [binary.encode_bigints(words.words), *(_encode_column(name, rows) for name in names), *slices],
        prepare=True,
    )
    column = "half" if collection.is_half else "vector"
    connection.execute(
        f"INSERT INTO signals(row, collection, seconds, facets, {column}) SELECT u.row, {number}, u.seconds,"
        f" (%s::bigint[])[u.first:u.last], (%s::vector[])[u.place]{'::halfvec' if collection.is_half else ''}"
        " FROM unnest(%s::bigint[], %s::float8[], %s::int[], %s::int[], %s::int[])"
        " AS u(row, seconds, place, first, last)",
        [
            binary.encode_bigints(words.words),
            _encode_vectors(rows, collection),
            _encode_column("row", rows),
            _encode_column("seconds", rows),
            binary.encode_optional_ints(_place_vectors(rows)),
            slices[0],
            binary.encode_ints(words.starts + words.heads),
        ],
        prepare=True,
    )
    connection.execute(
        f"INSERT INTO postings(word, chunk, collection, count, length) SELECT u.word, u.chunk, {number}, u.count,"
        " u.length FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::int[]) AS u(word, chunk, count, length)",
        words.encode_postings(),
        prepare=True,
    )


def _fill(connection: Connection, collection: OpenCollection, kind: int, rows: Sequence[Row]) -> None:
    numbers, vectors = _encode_column("row", rows), _encode_vectors(rows, collection)
    of_vectors = "unnest(%s::bigint[], %s::vector[]) AS u(row, vector)"
    if kind == DOCUMENT:
        connection.execute(
            f"INSERT INTO summaries SELECT d.row, d.collection, d.facets, u.vector FROM {of_vectors}"
            " JOIN documents d ON d.row = u.row",
            (numbers, vectors),
        )
        connection.execute("UPDATE documents SET pending = NULL WHERE row = ANY(%s::bigint[])", (numbers,))
        return
    column = "half = u.vector::halfvec" if collection.is_half else "vector = u.vector"
    connection.execute(f"UPDATE signals s SET {column} FROM {of_vectors} WHERE s.row = u.row", (numbers, vectors))
    connection.execute(
        "UPDATE chunks c SET pending = NULL, print = u.print"
        " FROM unnest(%s::bigint[], %s::bigint[]) AS u(row, print) WHERE c.row = u.row",
        (numbers, _encode_column("print", rows)),
    )


def _place_vectors(rows: Sequence[Row]) -> list[int | None]:
    """Assign numbers from 1 to the rows that have a vector; None to the others."""
    places = iter(range(1, len(rows) + 1))
    return [None if row["vector"] is None else next(places) for row in rows]


class _Words:
    """The words of chunks as columns: all words concatenated, and where those of each chunk begin."""

    def __init__(self, rows: Sequence[Row]) -> None:
        facets = [hash_facets(row["facets"]) for row in rows]
        none = np.empty(0, np.int64)
        pairs = list(zip(facets, rows, strict=True))
        self.words = np.concatenate([none, *(part for own, row in pairs for part in (own, row["terms"]))])
        counts = (part for own, row in pairs for part in (np.zeros(len(own), np.int64), row["counts"]))
        self._counts = np.concatenate([none, *counts])  # 0 for a facet
        self.heads = np.array([len(each) for each in facets], np.int64)
        self.sizes = self.heads + np.array([len(row["terms"]) for row in rows], np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self._numbers = np.array([row["row"] for row in rows], np.int64)
        self._lengths = np.array([row["length"] for row in rows], np.int64)

    def encode_postings(self) -> list[binary.BinaryParam]:
        """Encode the columns of the postings, sorted by word, so that index neighbours are written together."""
        order = np.argsort(self.words, kind="stable")
        owners = np.repeat(np.arange(len(self._numbers)), self.sizes)[order]
        return [
            binary.encode_bigints(self.words[order]),
            binary.encode_bigints(self._numbers[owners]),
            binary.encode_ints(self._counts[order]),
            binary.encode_ints(self._lengths[owners]),
        ]


def _insert_staged(connection: Connection, collection: OpenCollection, rows: Sequence[Row]) -> None:
    connection.execute(
        f"INSERT INTO staged(row, collection, vector) SELECT u.row, {collection.number}, u.vector"
        " FROM unnest(%s::bigint[], %s::vector[]) AS u(row, vector)"
        " ON CONFLICT (row) DO UPDATE SET vector = excluded.vector",
        (_encode_column("row", rows), _encode_vectors(rows, collection)),
    )


@lru_cache(1024)  # chunks of a document often have the same facets
def hash_facets(facets: str) -> Hashes:
    """Hash a JSON list of facets to numbers, in order."""
    return np.array([hash_facet(facet) for facet in json.loads(facets)], np.int64)
