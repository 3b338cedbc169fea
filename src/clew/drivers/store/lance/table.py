"""A Lance dataset with optimistic transactions: every commit replaces the head row, so no two start from one state.

Lance rejects a commit that changes a fragment if another commit changed it since it was read. It does not notice two
writers that insert the same id. So each transaction also replaces one row, the head: of two transactions from the same
version, one is rejected and retried.
"""

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import RLock
from typing import Any

import lance
import pyarrow as pa
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from clew.core.errors import ConcurrentChange, DriverFailed
from clew.drivers.store.backend import T, Values
from clew.drivers.store.base import NamedTexts, change_texts
from clew.drivers.store.lance.errors import is_conflict, translate_errors

MAX_ATTEMPTS = 200  # of a transaction that others preempt
INDEX_ATTEMPTS = 10  # of work on an index that others preempt: each may take long
KEPT = timedelta(minutes=10)  # for which old versions are kept in any case: somebody may be reading them
MAX_PAUSE = 120.0  # seconds for which an erasure may block writers; afterwards, e.g. if it was killed, they continue
PAUSE = 0.05  # seconds between polls for the end of an erasure


class Paused(Exception):
    """Raised by a transaction during an erasure: wait, then retry."""


@dataclass(frozen=True, slots=True)
class Change:
    """The removed rows (addresses) and added rows of a transaction, both including the head."""

    removed: Collection[int] | None  # None: all
    added: pa.Table


class Table:
    """A dataset and its transactions, safe for threads, processes and machines."""

    def __init__(self, uri: str, place: str, options: Mapping[str, str]) -> None:
        self.uri, self.place = uri, place
        self._options = dict(options)
        self._lock = RLock()
        self._dataset: lance.LanceDataset | None = None
        self._is_closed = False

    def exists(self) -> bool:
        """Return whether the dataset exists; if so, open it."""
        with self._lock, translate_errors(self.place):
            return self._find() is not None

    def create(self, first: pa.Table) -> None:
        """Create the dataset with its first rows, unless it exists."""
        with self._lock, translate_errors(self.place):
            if self._find() is not None:
                return
            try:
                self._dataset = lance.write_dataset(
                    first, self.uri, mode="create", storage_options=self._options, enable_v2_manifest_paths=True
                )
            except (OSError, ValueError, CommitConflictError) as error:  # perhaps created meanwhile by another process
                if self._find() is None:
                    raise OSError(str(error)) from error

    def _find(self) -> lance.LanceDataset | None:
        if self._dataset is None:
            try:
                self._dataset = lance.dataset(self.uri, storage_options=self._options)
            except (ValueError, FileNotFoundError) as error:
                if "not found" not in str(error).lower() or "bucket" in str(error).lower():
                    raise
        return self._dataset

    def latest(self) -> lance.LanceDataset:
        """Return the dataset at its last version."""
        with self._lock:
            if self._is_closed:
                raise DriverFailed(f"{self.place} is closed; open it again")
            with translate_errors(self.place):
                known = self._find()
                if known is None:
                    raise DriverFailed(f"{self.place}: the dataset {self.uri} is gone")
                version = known.latest_version
                if version != known.version:
                    self._dataset = known = known.checkout_version(version)
                return known

    def copy(self) -> lance.LanceDataset:
        """Open the last version as a new object: methods that change a dataset also change their object."""
        with translate_errors(self.place):
            return self.latest().checkout_version(self.latest().version)

    def run(self, decide: Callable[[lance.LanceDataset], tuple[Change | None, T]]) -> T:
        """Run a transaction; call `decide` again with a newer version if another commits first."""
        attempt = 0
        while attempt < MAX_ATTEMPTS:
            dataset = self.latest()
            try:
                change, result = decide(dataset)
            except Paused:
                time.sleep(PAUSE)
                continue
            attempt += 1
            with translate_errors(self.place):
                if change is None or self._commit(dataset, change):
                    return result
            time.sleep(random.uniform(0, min(0.005 * attempt, 0.25)))
        raise ConcurrentChange(f"{self.place}: others changed it {MAX_ATTEMPTS} times meanwhile; try again")

    def change_indexes(self, work: Callable[[lance.LanceDataset], T]) -> T:
        """Run work that commits by itself, retrying with a newer version if another commits first."""
        for attempt in range(1, INDEX_ATTEMPTS + 1):
            with translate_errors(self.place):
                try:
                    return work(self.copy())
                except (OSError, RuntimeError) as error:
                    if not is_conflict(error):
                        raise
            time.sleep(random.uniform(0, 0.05 * attempt))
        raise ConcurrentChange(
            f"{self.place}: others changed it {INDEX_ATTEMPTS} times while its indexes were made; try again"
        )

    def _commit(self, dataset: lance.LanceDataset, change: Change) -> bool:
        """Commit a change on top of this version; return False if another commit came first."""
        gone, changed = list[int](), list[Any]()
        try:
            for fragment, addresses in _group_by_fragment(dataset, change.removed):
                left = None if addresses is None else fragment.delete(f"_rowaddr IN ({', '.join(map(str, addresses))})")
                if left is None:
                    gone.append(fragment.fragment_id)
                else:
                    changed.append(left)
            operation = lance.LanceOperation.Update(
                removed_fragment_ids=gone,
                updated_fragments=changed,
                new_fragments=self._write_files(change.added, dataset),
                fields_modified=[],
            )
            made = lance.LanceDataset.commit(
                dataset, operation, read_version=dataset.version, storage_options=self._options
            )
        except CommitConflictError:
            return False
        with self._lock:
            if self._dataset is None or self._dataset.version < made.version:
                self._dataset = made
        return True

    def replace(self, dataset: lance.LanceDataset, batches: Any, schema: pa.Schema) -> bool:
        """Replace all rows of this version, perhaps with another schema; return False if another commit came first."""
        fragments = self._write_files(batches, self.uri, schema=schema, mode="overwrite")
        operation = lance.LanceOperation.Overwrite(schema, fragments)
        try:
            made = lance.LanceDataset.commit(
                dataset, operation, read_version=dataset.version, storage_options=self._options, max_retries=0
            )
        except CommitConflictError:
            return False
        with self._lock:
            self._dataset = made
        return True

    def _write_files(self, rows: Any, target: lance.LanceDataset | str, **options: Any) -> list[Any]:
        """Write new files and return their fragments; OSError if a file is truncated, as on a full disk."""
        made = write_fragments(rows, target, storage_options=self._options, **options)
        for file in (file for each in made for file in each.files) if "://" not in self.uri else ():
            size = Path(self.uri, "data", file.path).stat().st_size
            if size != file.file_size_bytes:
                raise OSError(f"{file.path} has {size} of {file.file_size_bytes} bytes: no space left")
        return list(made)

    def forget_versions(self, older_than: timedelta = KEPT) -> None:
        """Remove old versions with all files that no later version uses.

        With a zero `older_than`, also remove files that no version names. Pause writers first, since they may be about
        to commit such files.
        """
        with translate_errors(self.place):
            self.copy().cleanup_old_versions(
                older_than=older_than, delete_unverified=older_than <= timedelta(0), error_if_tagged_old_versions=False
            )

    def drop(self) -> None:
        """Remove the dataset with all its files."""
        with self._lock, translate_errors(self.place):
            if self._find() is not None:
                lance.LanceDataset.drop(self.uri, storage_options=self._options)
                self._dataset = None

    def close(self) -> None:
        """Forget the dataset; every later use raises DriverFailed."""
        with self._lock:
            self._is_closed, self._dataset = True, None


def _group_by_fragment(
    dataset: lance.LanceDataset, removed: Collection[int] | None
) -> Iterator[tuple[Any, list[int] | None]]:
    """Group the addresses of removed rows by fragment; None for a whole fragment."""
    by_number: dict[int, list[int]] = {}
    for address in removed or ():
        by_number.setdefault(address >> 32, []).append(address)
    for fragment in dataset.get_fragments():
        if removed is None or fragment.fragment_id in by_number:
            yield fragment, by_number.get(fragment.fragment_id)


_SCHEMA = pa.schema([("row", pa.int64()), ("name", pa.string()), ("value", pa.string())])
_CLEAN_EVERY = 32  # commits between removals of old versions


class LanceNamed(NamedTexts):
    """The values of a kind; see `NamedRows`. The first write creates the dataset.

    check: Called before a change.
    """

    def __init__(self, table: Table, *, check: Callable[[], None] = lambda: None) -> None:
        self._table, self._check = table, check
        self._exists = False
        self._known: tuple[int, dict[str, str], float] = (-1, {}, 0.0)  # the version, its values, the end of its pause

    def load_texts(self, names: Collection[str] | None = None) -> dict[str, str]:
        """Load the existing texts with these names, or all."""
        if not self._find():
            return {}
        with translate_errors(self._table.place):
            texts = self._read(self._table.latest())[0]
        return {name: text for name, text in texts.items() if names is None or name in names}

    def _find(self) -> bool:
        self._exists = self._exists or self._table.exists()
        return self._exists

    def _read(self, dataset: lance.LanceDataset) -> tuple[dict[str, str], float]:
        """Read the values as JSON, and the time until which writers wait for an erasure."""
        version, known, paused = self._known
        if version != dataset.version:
            head, *found = sorted(dataset.to_table().to_pylist(), key=lambda row: int(row["row"]))
            known, paused = {row["name"]: row["value"] for row in found}, float(head["value"])
            self._known = (dataset.version, known, paused)
        return known, paused

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes the values with these names, or all, in place."""
        self._check()
        if not self._exists:
            self._table.create(_make_table({}, 0.0))
            self._exists = True

        def attempt(dataset: lance.LanceDataset) -> tuple[Change | None, T]:
            with translate_errors(self._table.place):
                before, paused = self._read(dataset)
            if paused > time.time():
                raise Paused
            result, after = change_texts(before, decide, names)
            return (None if after == before else Change(None, _make_table(after, 0.0))), result

        result = self._table.run(attempt)
        if self._table.latest().version % _CLEAN_EVERY == 0:
            self._table.forget_versions()
        return result

    def purge(self) -> None:
        """Remove every version but the last, while writers wait."""
        if not self._find():
            return
        self._set_pause(time.time() + MAX_PAUSE)
        try:
            self._table.forget_versions(timedelta(0))
        finally:
            self._set_pause(0.0)

    def _set_pause(self, until: float) -> None:
        self._table.run(lambda dataset: (Change(None, _make_table(self._read(dataset)[0], until)), None))

    def close(self) -> None:
        """Forget the dataset; later calls raise DriverFailed."""
        self._table.close()
        self._exists = True  # so that the next use raises the error of a closed table


def _make_table(values: Mapping[str, str], paused: float) -> pa.Table:
    """Make the table of values in order, after the head with the time until which writers wait."""
    rows = [(0, "", str(paused)), *((n, *each) for n, each in enumerate(values.items(), 1))]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)
