"""A snapshot of one version: the head, and queries for rows from memory or by a scan of Lance."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ColumnOrdering

from clew.core.errors import NotFound
from clew.core.facets import Condition
from clew.core.types import Matrix
from clew.drivers.store.backend import CHUNK, DOCUMENT, INDEXED, KEYS, STAGED, Columns, Row, Select, select
from clew.drivers.store.embed import model_switched_error
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import ARRAYS, HEAD, SCALARS, LanceHead, parse_head, read_rows
from clew.drivers.store.rows import RECORD
from clew.drivers.store.scan import SIGNALS, Signals, make_signals

MAX_VALUES = 1000  # per condition of a scan
MAX_OWNERS = 10_000  # chunks whose document is cached
ChunkVectors = tuple[list[int], list[str], Matrix]  # rows, ids and vectors
Held = tuple[str, pa.Table]  # the deletion file of a fragment, and the HELD columns of the rows that it leaves
_INDEXED = {kind: dict.fromkeys((*INDEXED[kind], *KEYS[kind])) for kind in KEYS} | {CHUNK: (*INDEXED[CHUNK], "piece")}
# Columns to hold in memory for finding rows and adding up sizes, in a collection with threads …
HELD = ("kind", "chars", "chunks", "sum", *dict.fromkeys(name for each in _INDEXED.values() for name in each))
MAX_HELD = 100_000  # … of at most this many chunks
MAX_TAKEN = 5000  # rows to read by address; more are scanned
_OF_MESSAGE = {"n", "message", "parent"}
_COMPARE = {"<": pc.less, ">": pc.greater}


class Segment:
    """All rows of a fragment in memory, and the addresses of those that are not deleted."""

    def __init__(self, fragment: Any, dim: int) -> None:
        self._dim = dim
        self.rows = read_rows(fragment.to_table(columns=[*SCALARS, *ARRAYS], with_row_address=True), dim)
        self._by: dict[tuple[int, str], dict[Any, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows:
            kind = row["kind"]
            for name in _INDEXED.get(kind, ()):
                if row[name] is not None:
                    self._by[kind, name][row[name]].append(row)
        self._keys: dict[tuple[int, str], list[Any]] = {}
        self.live = frozenset(row["_rowaddr"] for row in self.rows)
        self._signals: tuple[Signals, ChunkVectors] | None = None

    def without_deleted(self, fragment: Any) -> "Segment":
        """Return the segment with the rows that remain in a newer version of the fragment."""
        other = object.__new__(Segment)
        other.__dict__.update(self.__dict__)
        addresses = fragment.to_table(columns=[], with_row_address=True)["_rowaddr"]
        other.live, other._signals = frozenset(addresses.to_pylist()), None
        return other

    def find(self, wanted: Select) -> Iterator[Row]:
        """Find the selected rows; apply the limit if they are found in the requested order."""
        kind = wanted.kind
        choices = [
            [row for value in set(given) for row in self._by[kind, name].get(value, ())]
            for name, op, given in wanted.where
            if op == "in" and name in _INDEXED[kind]
        ]
        is_ordered = not choices and wanted.limit is not None and wanted.order.removeprefix("-") in _INDEXED[kind]
        rows = min(choices, key=len, default=self.rows)
        found = self._keep(self._list_in_order(wanted) if is_ordered else rows, wanted)
        return islice(found, wanted.limit) if is_ordered else found

    def _keep(self, rows: Iterable[Row], wanted: Select) -> Iterator[Row]:
        for row in rows:
            if row["kind"] != wanted.kind or row["_rowaddr"] not in self.live or not wanted.admits(row):
                continue
            if wanted.alternatives is None or _admits_row(row, wanted.alternatives):
                yield row

    def _list_in_order(self, wanted: Select) -> Iterator[Row]:
        """Yield rows sorted by the `order` column, skipping those excluded by a ">" condition on it."""
        name = wanted.order.removeprefix("-")
        index, at = self._by[wanted.kind, name], (wanted.kind, name)
        keys = self._keys.get(at) or self._keys.setdefault(at, sorted(index))
        after = [bisect_right(keys, given) for column, op, given in wanted.where if (column, op) == (name, ">")]
        wanted_keys = keys[max(after, default=0) :]
        for key in reversed(wanted_keys) if wanted.order.startswith("-") else wanted_keys:
            yield from index[key]

    @property
    def signals(self) -> Signals:
        """The terms of the chunks that are not deleted."""
        return self._load()[0]

    @property
    def vectors(self) -> ChunkVectors:
        """The vectors of the chunks that are not deleted or pending."""
        return self._load()[1]

    def _load(self) -> tuple[Signals, ChunkVectors]:
        if self._signals is None:
            chunks = list(self._keep(self.rows, Select(CHUNK)))
            some = [row for row in chunks if row["vector"] is not None]
            matrix = np.stack([row["vector"] for row in some]) if some else np.zeros((0, self._dim), np.float32)
            signals = make_signals([tuple(map(row.get, SIGNALS)) for row in chunks])
            self._signals = signals, ([row["row"] for row in some], [row["id"] for row in some], matrix)
        return self._signals


def _admits_row(row: Mapping[str, Any], alternatives: Sequence[Condition]) -> bool:
    """Return whether a chunk or a document fulfils one of the conditions of a filter."""
    facets, seconds = row["facets"] or frozenset(), row["seconds"]
    return any(each.admits_facets(facets) and each.admits_time(seconds) for each in alternatives)


@dataclass(frozen=True, slots=True)
class LanceSnapshot:
    """A version of the dataset; a small one has all rows in memory (`segments`).

    model: The model whose vectors may be read; "" for any.
    """

    dataset: lance.LanceDataset
    place: str  # for messages
    head: LanceHead
    address: int  # of the row of the head
    segments: Mapping[tuple[str, str], Segment] | None
    model: str = ""
    having: dict[int, int] = field(default_factory=dict, compare=False)  # cached document frequencies of terms
    owners: dict[int, int] = field(default_factory=dict, compare=False)  # cached documents of found chunks
    ahead: dict[int, Row] = field(default_factory=dict, compare=False)  # documents that were read with their chunks
    held: dict[str, Held] = field(default_factory=dict, compare=False)  # by the file of the fragment; "": all

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find columns of the selected rows; `_rowaddr` is the address."""
        if wanted.is_empty:
            return []
        if "vector" in columns and self.model not in ("", self.head.embedder):
            raise model_switched_error(self.place, self.head.embedder, self.model)
        if self.segments is not None:
            found = wanted.arrange(row for segment in self.segments.values() for row in segment.find(wanted))
        else:
            found = self._find_stored(wanted, columns)
        return [tuple(map(row.get, columns)) for row in found]

    def _find_stored(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        names = [*columns, *filter(None, [wanted.order.removeprefix("-")])]
        if wanted.kind == STAGED:
            names = ["staged" if name == "vector" else name for name in names]
        held = self._find_held(wanted, names)
        if held is not None:
            return held
        if (numbers := wanted.get_values("row")) and wanted == select(wanted.kind, row=numbers):
            found = self._find_hits(wanted.kind, numbers, names)
            if found is not None:
                return found
        parts = list(_split(wanted))
        if len(parts) == 1:
            return self._scan(to_sql(wanted), names, order=wanted.order, limit=wanted.limit)
        return wanted.arrange(row for part in parts for row in self._scan(to_sql(part), names))

    def _find_held(self, wanted: Select, names: Sequence[str]) -> list[Row] | None:
        """Find rows with the HELD columns in memory; None if the query needs other columns, or too many rows.

        Work on messages needs many reads, each of which would scan the rows that no index of Lance has yet. Columns
        that are not held are read by address.
        """
        order = wanted.order.removeprefix("-")
        by = {name for name, _, _ in wanted.where}
        is_held = self.head.chunks <= MAX_HELD and (self.held or by & _OF_MESSAGE)  # searches alone do not need it
        if (
            not is_held
            or not by
            or (wanted.is_filtered and wanted.limit is not None)
            or not {*by, *filter(None, [order])} <= {*HELD}
        ):
            return None
        filtered = ("facets", "seconds") if wanted.is_filtered else ()
        columns = list(dict.fromkeys(["kind", *names, *filtered, "_rowaddr"]))
        with translate_errors(self.place):
            found = _filter(self._hold(), wanted)
            if order:
                found = found.sort_by([(order, "descending" if wanted.order.startswith("-") else "ascending")])
            found = found.slice(0, wanted.limit)
            if {*columns} <= {*found.schema.names}:
                return read_rows(found.select(columns), self.head.dim)
            if found.num_rows > MAX_TAKEN:
                return None
            rows = read_rows(self.dataset._take_rows(found["_rowaddr"].to_pylist(), columns), self.head.dim)
        return [row for row in rows if not filtered or _admits_row(row, wanted.alternatives or ())]

    def _hold(self) -> pa.Table:
        """Load the HELD columns of all fragments, reading only what the earlier version lacked."""
        if "" not in self.held:
            files = list[str]()
            for fragment in self.dataset.get_fragments():
                file, deleted = _get_files(fragment)
                known = self.held.get(file)
                if known is None:
                    self.held[file] = deleted, fragment.to_table(columns=[*HELD], with_row_address=True)
                elif known[0] != deleted:
                    left = fragment.to_table(columns=[], with_row_address=True)["_rowaddr"].to_numpy()
                    is_left = np.isin(known[1]["_rowaddr"].to_numpy(), left)
                    self.held[file] = deleted, known[1].filter(pa.array(is_left))
                files.append(file)
            self.held[""] = "", pa.concat_tables([self.held[file][1] for file in files]).combine_chunks()
        return self.held[""][1]

    def _find_hits(self, kind: int, numbers: Collection[int], columns: Sequence[str]) -> list[Row] | None:
        """Read the chunks that a search found, in one scan with their documents; None if the documents are unknown."""
        rows = set(numbers)
        if kind == DOCUMENT and set(columns) <= set(RECORD):
            known = [self.ahead.get(row) for row in rows]
            return None if None in known else [row for row in known if row is not None]
        docs = {self.owners.get(row, 0) for row in rows}
        if kind != CHUNK or 0 in docs or len(rows) > MAX_VALUES:
            return None
        found = self._scan(_compare("row", "in", rows | docs), (*columns, *RECORD))
        self.ahead.clear()
        self.ahead.update({row["row"]: row for row in found if row["kind"] == DOCUMENT})
        return [row for row in found if row["kind"] == CHUNK and row["row"] in rows]

    def note_owners(self, rows: Sequence[int], docs: Sequence[int]) -> None:
        """Remember the documents of found chunks, to read them together."""
        if len(self.owners) > MAX_OWNERS:
            self.owners.clear()
        self.owners.update(zip(rows, docs, strict=True))

    def _scan(self, sql: str, columns: Sequence[str], *, order: str = "", limit: int | None = None) -> list[Row]:
        by = [ColumnOrdering(order.removeprefix("-"), ascending=not order.startswith("-"))] if order else None
        names = list(dict.fromkeys(["kind", *(name for name in columns if name != "_rowaddr")]))
        with translate_errors(self.place):
            table = self.dataset.to_table(columns=names, filter=sql, order_by=by, limit=limit, with_row_address=True)
            return read_rows(table, self.head.dim)

    def scan_batches(self, sql: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        """Yield the rows that fulfil an SQL condition in batches, from the dataset."""
        for batch in self.dataset.to_batches(columns=list(columns), filter=sql):
            yield read_rows(batch, self.head.dim)


def _filter(table: pa.Table, wanted: Select) -> pa.Table:
    mask = pc.equal(table["kind"], wanted.kind)
    for name, op, given in wanted.where:
        values = table[name]
        test = pc.is_in(values, pa.array(set(given), values.type)) if op == "in" else _COMPARE[op](values, given)
        mask = pc.and_(mask, test)
    return table.filter(mask)


def to_sql(wanted: Select) -> str:
    """Write the conditions as a filter for Lance."""
    parts = [f"kind = {wanted.kind}", *(_compare(*each) for each in wanted.where)]
    if wanted.is_filtered:
        alternatives = [f"({_condition_to_sql(each)})" for each in wanted.alternatives or ()]
        parts.append(f"({' OR '.join(alternatives) or 'false'})")
    return " AND ".join(parts)


def _quote(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _compare(name: str, op: str, given: Any) -> str:
    if op != "in":
        return f"{name} {op} {_quote(given)}"
    values = sorted(set(given))
    return f"{name} = {_quote(values[0])}" if len(values) == 1 else f"{name} IN ({', '.join(map(_quote, values))})"


def _condition_to_sql(condition: Condition) -> str:
    parts = [_has_any(group) for group in condition.groups]
    if condition.since is not None:
        parts.append(f"seconds >= {condition.since!r}")
    if condition.until is not None:
        parts.append(f"seconds < {condition.until!r}")
    return " AND ".join(parts) or "true"


def _has_any(group: Collection[str]) -> str:
    return f"array_has_any(facets, [{', '.join(map(_quote, sorted(group)))}])"


def _split(wanted: Select) -> Iterator[Select]:
    """Split a query with too many values into queries that together select the same rows."""
    for at, (name, op, given) in enumerate(wanted.where):
        if op == "in" and len(given) > MAX_VALUES:
            values = sorted(set(given))
            for start in range(0, len(values), MAX_VALUES):
                part = (name, op, values[start : start + MAX_VALUES])
                yield replace(wanted, where=(*wanted.where[:at], part, *wanted.where[at + 1 :]))
            return
    yield wanted


def read_snapshot(
    dataset: lance.LanceDataset, place: str, exact_below: int = 0, before: LanceSnapshot | None = None, model: str = ""
) -> LanceSnapshot:
    """Read a version; for a small collection, load only the fragments that differ from `before`."""
    fragments = dataset.get_fragments()
    head, address = _read_head(dataset, fragments, place)
    if head.chunks >= exact_below:
        files = {_get_files(each)[0] for each in fragments} if before is not None else set()
        held = {file: table for file, table in before.held.items() if file in files} if before is not None else {}
        return LanceSnapshot(dataset, place, head, address, None, model, held=held)
    known = before.segments if before is not None and before.segments is not None else {}
    by_file = {file: segment for (file, _), segment in known.items()}
    segments: dict[tuple[str, str], Segment] = {}
    for fragment in fragments:
        key = file, _ = _get_files(fragment)
        if key in known:
            segments[key] = known[key]
        elif file in by_file:
            segments[key] = by_file[file].without_deleted(fragment)
        else:
            segments[key] = Segment(fragment, head.dim)
    return LanceSnapshot(dataset, place, head, address, segments, model)


def _get_files(fragment: Any) -> tuple[str, str]:
    """Return the path of a fragment's file, and a text that changes when more of its rows are deleted."""
    return fragment.metadata.files[0].path, str(fragment.metadata.deletion_file)


def _read_head(dataset: lance.LanceDataset, fragments: Sequence[Any], place: str) -> tuple[LanceHead, int]:
    """Read the head, from one of the last fragments, and the address of its row."""
    for fragment in reversed(fragments):
        found = fragment.to_table(columns=["text"], filter=f"kind = {HEAD}", with_row_address=True)
        if found.num_rows:
            return parse_head(found["text"][0].as_py(), place, dataset.version), found["_rowaddr"][0].as_py()
    raise ValueError("the dataset has no head: it is no collection of Clew")


def find_version(dataset: Any, at: datetime, place: str) -> Any:
    """Return the dataset as of a time; NotFound if that version no longer exists."""
    moment = (at if at.tzinfo else at.astimezone()).timestamp()
    versions = [(each["timestamp"].astimezone().timestamp(), each["version"]) for each in dataset.versions()]
    kept = [version for made, version in versions if made <= moment]
    if not kept:
        erased = read_snapshot(dataset, place).head.erased
        first = datetime.fromtimestamp(min(versions)[0], UTC).isoformat(timespec="seconds")
        why = f"an erasure removed those before {erased}" if erased else "older ones were cleaned, or it is younger"
        raise NotFound(f"{place} has no version of {at.isoformat()}: {why}; the first that is kept is of {first}")
    return dataset.checkout_version(max(kept))
