"""A small collection in memory: the rows of each fragment are read once, and only what changed is read again."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from clew.core.facets import Condition
from clew.core.types import Matrix
from clew.drivers.store.backend import CHUNK, Row, Select
from clew.drivers.store.lance.schema import ARRAYS, SCALARS, read_rows
from clew.drivers.store.scan import Signals, make_signals

ChunkVectors = tuple[list[int], list[str], Matrix]  # rows, ids and vectors
_INDEXED = ("id", "row", "doc", "message", "parent", "awaits", "channel", "pending")


class Segment:
    """The rows of a fragment: all that it was written with, and which of them are not deleted."""

    def __init__(self, fragment: Any, dim: int) -> None:
        self._dim = dim
        self.rows = read_rows(fragment.to_table(columns=[*SCALARS, *ARRAYS], with_row_address=True), dim)
        self._by: dict[str, dict[Any, list[Row]]] = {name: defaultdict(list) for name in _INDEXED}
        for row in self.rows:
            for name, index in self._by.items():
                if row[name] is not None:
                    index[row[name]].append(row)
        self._keys: dict[str, list[Any]] = {}
        self.live = frozenset(row["_rowaddr"] for row in self.rows)
        self._signals: tuple[Signals, ChunkVectors] | None = None

    def without_deleted(self, fragment: Any) -> "Segment":
        """The segment with the rows that are still there."""
        other = object.__new__(Segment)
        other.__dict__.update(self.__dict__)
        addresses = fragment.to_table(columns=[], with_row_address=True)["_rowaddr"]
        other.live, other._signals = frozenset(addresses.to_pylist()), None
        return other

    def find(self, wanted: Select) -> Iterator[Row]:
        """The rows that are meant; the first ones where they are found in the order that is asked for."""
        choices = [
            [row for value in set(given) for row in self._by[name].get(value, ())]
            for name, op, given in wanted.where
            if op == "in" and name in self._by
        ]
        is_ordered = not choices and wanted.limit is not None and wanted.order.removeprefix("-") in self._by
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
        """Rows by the column that they are ordered by, without those that come before the first that is meant."""
        name = wanted.order.removeprefix("-")
        keys = self._keys.get(name) or self._keys.setdefault(name, sorted(self._by[name]))
        after = [bisect_right(keys, given) for column, op, given in wanted.where if (column, op) == (name, ">")]
        wanted_keys = keys[max(after, default=0) :]
        for key in reversed(wanted_keys) if wanted.order.startswith("-") else wanted_keys:
            yield from self._by[name][key]

    def find_ids(self, ids: Collection[str]) -> Iterator[Row]:
        """The documents and chunks with these ids."""
        return (row for each in ids for row in self._by["id"].get(each, ()) if row["_rowaddr"] in self.live)

    @property
    def signals(self) -> Signals:
        """The terms of the chunks that are still there."""
        return self._load()[0]

    @property
    def vectors(self) -> ChunkVectors:
        """The vectors of the chunks that are still there and have one."""
        return self._load()[1]

    def _load(self) -> tuple[Signals, ChunkVectors]:
        if self._signals is None:
            chunks = list(self._keep(self.rows, Select(CHUNK)))
            some = [row for row in chunks if row["vector"] is not None]
            matrix = np.stack([row["vector"] for row in some]) if some else np.zeros((0, self._dim), np.float32)
            self._signals = make_signals(chunks), ([row["row"] for row in some], [row["id"] for row in some], matrix)
        return self._signals


def _admits_row(row: Mapping[str, Any], alternatives: Sequence[Condition]) -> bool:
    """Whether a chunk or a document fulfils one of the conditions of a filter."""
    facets, seconds = row["facets"] or frozenset(), row["seconds"]
    return any(each.admits_facets(facets) and each.admits_time(seconds) for each in alternatives)
