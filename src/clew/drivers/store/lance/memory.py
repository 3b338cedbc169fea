"""A small collection in memory: the rows of each fragment are read once, and only what changed is read again."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.facets import Condition
from clew.core.stored import Counts, Hashes
from clew.core.types import Matrix
from clew.drivers.store.lance.schema import ARRAYS, CHUNK, DOCUMENT, SCALARS, Row, read_vector_column
from clew.drivers.store.lance.select import Select

_INDEXED = ("id", "row", "doc", "awaits", "channel")


@dataclass(frozen=True, slots=True)
class Signals:
    """What chunks are searched by, each an entry of every list: vectors, and terms one after the other."""

    rows: NDArray[np.int64]
    docs: NDArray[np.int64]
    ids: Sequence[str]  # none if they were not read
    vectors: Matrix
    lengths: NDArray[np.float64]
    hashes: Hashes
    counts: Counts
    owners: NDArray[np.int64]  # of each term, the place of its chunk


class Segment:
    """The rows of a fragment: all that it was written with, and which of them are not deleted."""

    def __init__(self, fragment: Any, dim: int) -> None:
        self.number = fragment.fragment_id
        table = fragment.to_table(columns=[*SCALARS, *ARRAYS])
        self.rows: list[Row] = table.select(list(SCALARS)).to_pylist()
        self.live = frozenset(row["row"] for row in self.rows)
        self._by: dict[str, dict[Any, list[Row]]] = {name: defaultdict(list) for name in _INDEXED}
        facets = table["facets"].to_pylist()
        for row, own in zip(self.rows, facets, strict=True):
            row["fragment"], row["facets"] = self.number, None if own is None else frozenset(own)
            for name, index in self._by.items():
                if row[name] is not None:
                    index[row[name]].append(row)
        kinds = np.array([row["kind"] for row in self.rows])
        self.summaries = _attach_vectors(table, self.rows, kinds == DOCUMENT, dim)
        self._signals = _read_signals(table, self.rows, kinds == CHUNK, dim)
        self._live_signals: Signals | None = None

    def without_deleted(self, fragment: Any) -> "Segment":
        """The segment with the rows that are still there."""
        live = frozenset(fragment.to_table(columns=["row"])["row"].to_pylist())
        other = object.__new__(Segment)
        other.__dict__.update(self.__dict__)
        other.live, other._live_signals = live, None
        return other

    def find(self, wanted: Select) -> Iterator[Row]:
        """The rows that are meant."""
        rows: Sequence[Row] = self.rows
        for name, op, values in wanted.where:
            if op == "in" and name in self._by:
                rows = [row for value in set(values) for row in self._by[name].get(value, ())]
                break
        for row in rows:
            if row["kind"] != wanted.kind or row["row"] not in self.live or not wanted.admits(row):
                continue
            if wanted.alternatives is None or admits_row(row, wanted.alternatives):
                yield row

    def find_numbered(self, numbers: Iterable[int]) -> Iterator[Row]:
        """The rows with these numbers, of any kind."""
        for number in self.live.intersection(numbers):
            yield from self._by["row"].get(number, ())

    @property
    def signals(self) -> Signals:
        """The signals of the chunks that are still there."""
        if self._live_signals is None:
            self._live_signals = _keep_signals(self._signals, self.live)
        return self._live_signals


def admits_row(row: Mapping[str, Any], alternatives: Sequence[Condition]) -> bool:
    """Whether a chunk or a document fulfils one of the conditions of a filter."""
    facets, seconds = row["facets"] or frozenset(), row["seconds"]
    return any(each.admits_facets(facets) and each.admits_time(seconds) for each in alternatives)


def _attach_vectors(table: Any, rows: Sequence[Row], wanted: NDArray[np.bool_], dim: int) -> list[Row]:
    """The rows among the wanted that have a vector, which each then holds."""
    places = np.flatnonzero(wanted & table["vector"].is_valid().to_numpy())
    vectors = read_vector_column(table["vector"].take(places), dim) if len(places) else np.zeros((0, dim), np.float32)
    for place, vector in zip(places.tolist(), vectors, strict=True):
        rows[place]["vector"] = vector
    return [rows[place] for place in places.tolist()]


def _read_signals(table: Any, rows: Sequence[Row], wanted: NDArray[np.bool_], dim: int) -> Signals:
    chunks = _attach_vectors(table, rows, wanted, dim)
    places = np.flatnonzero(wanted)
    terms, counts = (table[name].take(places).combine_chunks() for name in ("terms", "counts"))
    sizes = np.diff(terms.offsets.to_numpy()) if len(places) else np.zeros(0, np.int64)
    flat, flat_counts = (each.flatten().to_numpy(zero_copy_only=False) for each in (terms, counts))
    ends = np.cumsum(sizes)
    for row, end, size in zip(chunks, ends.tolist(), sizes.tolist(), strict=True):
        row["terms"], row["counts"] = flat[end - size : end], flat_counts[end - size : end]
    return Signals(
        np.array([row["row"] for row in chunks], np.int64),
        np.array([row["doc"] for row in chunks], np.int64),
        [row["id"] for row in chunks],
        np.stack([row["vector"] for row in chunks]) if chunks else np.zeros((0, dim), np.float32),
        np.array([row["length"] for row in chunks], np.float64),
        flat,
        flat_counts,
        np.repeat(np.arange(len(chunks)), sizes),
    )


def _keep_signals(of: Signals, live: frozenset[int]) -> Signals:
    kept = np.array([row in live for row in of.rows.tolist()], bool)
    if kept.all():
        return of
    places = np.cumsum(kept) - 1
    of_terms = kept[of.owners] if len(of.owners) else np.zeros(0, bool)
    return Signals(
        of.rows[kept],
        of.docs[kept],
        [each for each, is_kept in zip(of.ids, kept.tolist(), strict=True) if is_kept],
        of.vectors[kept],
        of.lengths[kept],
        of.hashes[of_terms],
        of.counts[of_terms],
        places[of.owners[of_terms]],
    )
