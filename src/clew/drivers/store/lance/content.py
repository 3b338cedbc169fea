"""The content of a collection: what is read of its last version, and the changes that transactions make of it."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeVar

import lance

from clew.core.errors import NotFound, ReadOnlyStore, StoreMismatch
from clew.drivers.store.lance.errors import is_conflict, translate_errors
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, SCALARS, Head, Row, make_schema, make_table
from clew.drivers.store.lance.select import Select
from clew.drivers.store.lance.snapshot import Snapshot, read_snapshot
from clew.drivers.store.lance.table import HEAD, PAUSE, Change, Paused, Table
from clew.drivers.store.staging import model_switched_error

MAX_FRAGMENTS = 24  # small ones, before a writer joins them
SMALL = 1024  # rows of a fragment that is small
T = TypeVar("T")


_LISTED = ("id", "doc")  # columns by which the added rows of a transaction are found


@dataclass(frozen=True, slots=True)
class _ReadAhead:
    """Rows by the value of a column, also for values that none has, and the columns that were read."""

    columns: frozenset[str]
    rows: Mapping[Any, list[Row]]


class Draft:
    """A transaction that is being decided: the rows of a snapshot with its own changes over them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.head = snapshot.head
        self._removed: dict[int, Row] = {}
        self._added: dict[int, Row] = {}
        self._added_by: dict[tuple[int, str, Any], dict[int, Row]] = defaultdict(dict)
        self._read: dict[tuple[int, str], _ReadAhead] = {}

    def find(self, wanted: Select, columns: Sequence[str] = SCALARS) -> list[Row]:
        """The rows that are meant, as they will be."""
        found = [row for row in self._find_stored(wanted, columns) if row["row"] not in self._removed]
        return found + [row for row in self._list_added(wanted) if wanted.admits(row)]

    def read_ahead(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """The rows of a condition of one column, from one scan; `find` then has those of each value without another."""
        found = self._snapshot.find(wanted, columns)
        ((name, _, given),) = wanted.where
        if self._snapshot.segments is None:
            by_value: dict[Any, list[Row]] = {value: [] for value in given}
            for row in found:
                by_value[row[name]].append(row)
            self._read[wanted.kind, name] = _ReadAhead(frozenset(columns), by_value)
        return found

    def _find_stored(self, wanted: Select, columns: Sequence[str]) -> Sequence[Row]:
        if len(wanted.where) == 1 and wanted.alternatives is None:
            name, op, given = wanted.where[0]
            known = self._read.get((wanted.kind, name))
            if known and op == "in" and known.columns.issuperset(columns) and all(each in known.rows for each in given):
                return [row for each in set(given) for row in known.rows[each]]
        return self._snapshot.find(wanted, columns)

    def _list_added(self, wanted: Select) -> Collection[Row]:
        for name in _LISTED:
            values = wanted.get_values(name)
            if values is not None:
                return [row for value in set(values) for row in self._added_by[wanted.kind, name, value].values()]
        return [row for row in self._added.values() if row["kind"] == wanted.kind]

    def find_one(self, wanted: Select, columns: Sequence[str] = SCALARS) -> Row | None:
        """The row that is meant, if there is one."""
        found = self.find(wanted, columns)
        return found[0] if found else None

    def number(self) -> int:
        """The number of a new row."""
        self.head = replace(self.head, last=self.head.last + 1)
        return self.head.last

    def remove(self, rows: Iterable[Row]) -> None:
        """Removes rows that were found here."""
        for row in rows:
            added = self._added.pop(row["row"], None)
            if added is None:
                self._removed[row["row"]] = row
            else:
                for name in _LISTED:
                    del self._added_by[added["kind"], name, added.get(name)][row["row"]]
            self._count(row, -1)

    def add(self, rows: Iterable[Row]) -> None:
        """Adds rows."""
        for row in rows:
            self._added[row["row"]] = row
            for name in _LISTED:
                self._added_by[row["kind"], name, row.get(name)][row["row"]] = row
            self._count(row, 1)

    def _count(self, row: Row, sign: int) -> None:
        if row["kind"] == DOCUMENT:
            self.head = replace(self.head, documents=self.head.documents + sign)
        elif row["kind"] == CHUNK:
            length = self.head.length + sign * row["length"]
            self.head = replace(self.head, chunks=self.head.chunks + sign, length=length)

    def finish(self, *, is_change: bool) -> Change | None:
        """The change to commit, with the next change number if it is one of the content; None if there is none."""
        if not self._added and not self._removed and self.head == self._snapshot.head:
            return None
        if is_change:
            self.head = replace(self.head, change=self.head.change + 1)
        removed: dict[int, list[int]] = defaultdict(list)
        removed[self._snapshot.head_fragment].append(HEAD)
        for number, row in self._removed.items():
            removed[row["fragment"]].append(number)
        rows = [self.head.to_row(), *self._added.values()]
        return Change(removed, make_table(rows, make_schema(self.head.dim, is_half=self.head.is_half)))


class Content:
    """The dataset of one collection, opened for one embedder."""

    def __init__(
        self,
        table: Table,
        *,
        embedder: str,
        dim: int,
        exact_below: int,
        as_of: datetime | None = None,
        is_half: bool = False,
    ) -> None:
        self.table, self.embedder, self.dim, self.exact_below = table, embedder, dim, exact_below
        self.place = table.place
        self._as_of, self._is_half = as_of, is_half
        self._lock = Lock()
        self._snapshot: Snapshot | None = None

    def open(self) -> None:
        """Creates the collection if it is missing; StoreMismatch if it was filled by another model."""
        created = datetime.now(UTC).isoformat()
        if not self.table.exists():
            if self._as_of is not None:
                raise NotFound(f"{self.place} is not there, so it has no versions")
            first = Head(self.embedder, self.dim, created, is_half=self._is_half).to_row()
            self.table.create(make_table([first], make_schema(self.dim, is_half=self._is_half)))
        head = self.read().head
        if (head.embedder, head.dim) != (self.embedder, self.dim):
            raise StoreMismatch(
                f"{self.place} was filled with {head.embedder} ({head.dim} dimensions) and cannot be searched or "
                f"extended with {self.embedder} ({self.dim}); open it with {head.embedder}, or run "
                f"`clew reembed --to {self.embedder}`"
            )

    def read(self) -> Snapshot:
        """The last version, or the one that the collection was opened as of."""
        dataset = self.table.latest()
        with self._lock, translate_errors(self.place):
            known = self._snapshot
            if known is not None and (known.dataset.version >= dataset.version or self._as_of is not None):
                return known
            if self._as_of is not None:
                dataset = find_version(dataset, self._as_of, self.place)
            self._snapshot = read_snapshot(dataset, self.exact_below, known)
            return self._snapshot

    def read_for_vectors(self) -> Snapshot:
        """The last version; StoreMismatch if its vectors are of another model by now."""
        snapshot = self.read()
        self.check_model(snapshot.head)
        return snapshot

    def read_for_staging(self) -> Snapshot:
        """The same, once no erasure cleans the files."""
        while (snapshot := self.read_for_vectors()).head.paused > time.time():
            time.sleep(PAUSE)
        return snapshot

    def check_model(self, head: Head) -> None:
        """StoreMismatch if another process has switched the collection to another model."""
        if head.embedder != self.embedder:
            raise model_switched_error(self.place, head.embedder, self.embedder)

    @property
    def is_past(self) -> bool:
        """Whether this is a version of the past."""
        return self._as_of is not None

    def check_writable(self) -> None:
        """ReadOnlyStore if this is a version of the past."""
        if self._as_of is not None:
            raise ReadOnlyStore(f"{self.place} is opened as of {self._as_of.isoformat()}, and the past stays as it is")

    def write(self, decide: Callable[[Draft], T], *, is_change: bool = True, is_eraser: bool = False) -> T:
        """The result of a transaction, which is decided again if others were faster; the change number grows.

        While an erasure cleans the files, all but the eraser wait.
        """
        self.check_writable()

        def attempt(dataset: lance.LanceDataset) -> tuple[Change | None, T]:
            snapshot = self.read()
            with translate_errors(self.place):
                if snapshot.dataset.version != dataset.version:
                    snapshot = read_snapshot(dataset, self.exact_below, snapshot)
                if snapshot.head.paused > time.time() and not is_eraser:
                    raise Paused
                self.check_model(snapshot.head)
                draft = Draft(snapshot)
                result = decide(draft)
            return draft.finish(is_change=is_change), result

        result = self.table.run(attempt)
        if not is_eraser:
            self._join_small_fragments()
        return result

    def _join_small_fragments(self) -> None:
        """Joins the fragments of single documents now and then, so that a read does not have to open hundreds."""
        dataset = self.table.copy()
        small = [each for each in dataset.get_fragments() if each.metadata.num_rows < SMALL]
        if len(small) > MAX_FRAGMENTS:
            compact(dataset, SMALL)


def compact(dataset: Any, rows: int, *, all_deletions: bool = False) -> bool:
    """Joins fragments of fewer rows; False if others changed them meanwhile, who will do it then."""
    try:
        threshold = 0.0 if all_deletions else 0.1
        dataset.optimize.compact_files(target_rows_per_fragment=rows, materialize_deletions_threshold=threshold)
    except (OSError, RuntimeError) as error:
        if not is_conflict(error):
            raise
        return False
    return True


def find_version(dataset: Any, at: datetime, place: str) -> Any:
    """The dataset as it was at a time; NotFound if that version is not kept."""
    moment = (at if at.tzinfo else at.astimezone()).timestamp()
    versions = [(each["timestamp"].astimezone().timestamp(), each["version"]) for each in dataset.versions()]
    kept = [version for made, version in versions if made <= moment]
    if not kept:
        erased = read_snapshot(dataset, 0, None).head.erased
        first = datetime.fromtimestamp(min(versions)[0], UTC).isoformat(timespec="seconds")
        why = f"an erasure removed those before {erased}" if erased else "older ones were cleaned, or it is younger"
        raise NotFound(f"{place} has no version of {at.isoformat()}: {why}; the first that is kept is of {first}")
    return dataset.checkout_version(max(kept))
