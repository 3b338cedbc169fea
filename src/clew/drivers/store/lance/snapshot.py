"""A collection as of one version: its head, and the rows that are asked for, from memory or by a scan of Lance."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import numpy as np

from clew.drivers.store.lance.memory import Segment
from clew.drivers.store.lance.schema import ARRAYS, HEAD_KIND, SCALARS, Head, Row, parse_head, read_vector_column
from clew.drivers.store.lance.select import Select

MAX_VALUES = 1000  # of one condition of a scan


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of the dataset; of a small one all rows are in memory (`segments`)."""

    dataset: lance.LanceDataset
    head: Head
    head_fragment: int
    segments: Mapping[tuple[int, str], Segment] | None
    having: dict[int, int] = field(default_factory=dict, compare=False)  # chunks that have a term, as far as counted

    def find(self, wanted: Select, columns: Sequence[str] = SCALARS) -> list[Row]:
        """The rows that are meant, in no order; each has the named columns, its number and its fragment.

        Those from memory are shared: they are never changed.
        """
        if wanted.is_empty:
            return []
        if self.segments is not None:
            return [row for segment in self.segments.values() for row in segment.find(wanted)]
        return [row for part in _split(wanted) for row in self._scan(part.to_sql(), columns)]

    def find_numbered(self, numbers: Collection[int], columns: Sequence[str]) -> list[Row]:
        """The rows with these numbers, of any kind, in no order; from one scan, if they are not too many."""
        if self.segments is not None:
            return [row for segment in self.segments.values() for row in segment.find_numbered(numbers)]
        ordered = sorted(numbers)
        parts = (ordered[start : start + MAX_VALUES] for start in range(0, len(ordered), MAX_VALUES))
        return [row for part in parts for row in self._scan(f"row IN ({', '.join(map(str, part))})", columns)]

    def _scan(self, sql: str, columns: Sequence[str]) -> list[Row]:
        names = list(dict.fromkeys(["row", "kind", *columns]))
        table = self.dataset.to_table(columns=names, filter=sql, with_row_address=True)
        return read_rows(table, self.head.dim)

    def scan_batches(self, sql: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        """The rows that a condition admits, a batch at a time, from the dataset itself."""
        for batch in self.dataset.to_batches(columns=list(columns), filter=sql, with_row_address=True):
            yield read_rows(batch, self.head.dim)


def read_rows(table: Any, dim: int) -> list[Row]:
    """The rows of a table or batch of Lance; terms, counts and vectors become numpy arrays, facets a set."""
    names = table.schema.names
    rows: list[Row] = table.select([name for name in names if name not in ARRAYS]).to_pylist()
    for row in rows:
        if "_rowaddr" in row:
            row["fragment"] = row.pop("_rowaddr") >> 32
    for name in (name for name in names if name in ARRAYS):
        for row, value in zip(rows, _read_arrays(table[name], name, dim), strict=True):
            row[name] = value
    return rows


def _read_arrays(column: Any, name: str, dim: int) -> Sequence[Any]:
    if name == "facets":
        return [None if own is None else frozenset(own) for own in column.to_pylist()]
    if name == "vector":
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        found = iter(read_vector_column(column.filter(column.is_valid()), dim))
        return [next(found) if is_valid else None for is_valid in valid.tolist()]
    form = np.int64 if name == "terms" else np.uint16
    return [None if own.values is None else own.values.to_numpy(zero_copy_only=False).astype(form) for own in column]


def _split(wanted: Select) -> Iterator[Select]:
    """The same rows by conditions of fewer values each."""
    for at, (name, op, given) in enumerate(wanted.where):
        if op == "in" and len(given) > MAX_VALUES:
            values = sorted(set(given))
            for start in range(0, len(values), MAX_VALUES):
                part = (name, op, values[start : start + MAX_VALUES])
                yield replace(wanted, where=(*wanted.where[:at], part, *wanted.where[at + 1 :]))
            return
    yield wanted


def read_snapshot(dataset: lance.LanceDataset, exact_below: int, before: Snapshot | None) -> Snapshot:
    """The collection as of a version; of a small one only the fragments that differ from those `before` are read."""
    fragments = dataset.get_fragments()
    head, number = _read_head(fragments, dataset.uri)
    if head.chunks >= exact_below:
        return Snapshot(dataset, head, number, None)
    known = (
        before.segments if before is not None and before.segments is not None and before.head.dim == head.dim else {}
    )
    by_number = {fragment: segment for (fragment, _), segment in (known or {}).items()}
    segments: dict[tuple[int, str], Segment] = {}
    for fragment in fragments:
        key = (fragment.fragment_id, str(fragment.metadata.deletion_file))
        if known and key in known:
            segments[key] = known[key]
        elif fragment.fragment_id in by_number:
            segments[key] = by_number[fragment.fragment_id].without_deleted(fragment)
        else:
            segments[key] = Segment(fragment, head.dim)
    return Snapshot(dataset, head, number, segments)


def _read_head(fragments: Sequence[Any], place: str) -> tuple[Head, int]:
    """The head, which is in one of the last fragments, and the number of that."""
    for fragment in reversed(fragments):
        found = fragment.to_table(columns=["text"], filter=f"kind = {HEAD_KIND}")
        if found.num_rows:
            return parse_head(found["text"][0].as_py(), place), fragment.fragment_id
    raise ValueError("the dataset has no head: it is no collection of Clew")
