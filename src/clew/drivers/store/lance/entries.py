"""Small things that are kept by name beside a collection: jobs, sessions, claims, and the names of collections.

Each is a dataset of one fragment, which every commit replaces: of two that were made of the same state one is refused.
"""

import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import lance
import pyarrow as pa

from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.table import HEAD, MAX_PAUSE, Change, Paused, Table

_SCHEMA = pa.schema([("row", pa.int64()), ("name", pa.string()), ("value", pa.string())])
_CLEAN_EVERY = 32  # commits, after which old versions are removed
Entries = dict[str, Any]  # values of JSON by name, in the order in which they were added
T = TypeVar("T")


class EntryTable:
    """A dataset of named values; made by the first that is written."""

    def __init__(self, uri: str, place: str, options: Mapping[str, str]) -> None:
        self._table = Table(uri, place, options)
        self._exists = False
        self._known: tuple[int, Entries] = (-1, {})
        self._paused = 0.0  # until when writers wait for an erasure
        self.place = place

    def read(self) -> Entries:
        """All values by name."""
        if not self._exists and not self._table.exists():
            return {}
        self._exists = True
        with translate_errors(self.place):
            return self._read(self._table.latest())

    def _read(self, dataset: lance.LanceDataset) -> Entries:
        version, known = self._known
        if version != dataset.version:
            found = dataset.to_table().to_pylist()
            found.sort(key=lambda row: int(row["row"]))
            known = {row["name"]: row["value"] for row in found if row["row"] != HEAD}
            self._paused = float(found[0]["value"] or 0)
            self._known = (dataset.version, known)
        return {name: json.loads(value) for name, value in known.items()}

    def change(self, decide: Callable[[Entries], T]) -> T:
        """The result of a transaction, which changes the values in place; called again if others were faster."""
        if not self._exists:
            self._table.create(_make_table({}))
            self._exists = True

        def attempt(dataset: lance.LanceDataset) -> tuple[Change | None, T]:
            with translate_errors(self.place):
                if self._read_pause(dataset) > time.time():
                    raise Paused
                before, entries = self._read(dataset), self._read(dataset)
            result = decide(entries)
            if list(entries.items()) == list(before.items()):
                return None, result
            removed = {fragment.fragment_id: None for fragment in dataset.get_fragments()}
            return Change(removed, _make_table(entries)), result

        result = self._table.run(attempt)
        if self._table.latest().version % _CLEAN_EVERY == 0:
            self._table.forget_versions()
        return result

    def purge(self) -> None:
        """Removes every version but the last, while others wait to write."""
        if not self._exists and not self._table.exists():
            return
        self._exists = True
        self._set_pause(time.time() + MAX_PAUSE)
        try:
            self._table.forget_versions(timedelta(0))
        finally:
            self._set_pause(0.0)

    def _set_pause(self, until: float) -> None:
        def attempt(dataset: lance.LanceDataset) -> tuple[Change | None, None]:
            removed = {fragment.fragment_id: None for fragment in dataset.get_fragments()}
            return Change(removed, _make_table(self._read(dataset), until)), None

        self._table.run(attempt)

    def _read_pause(self, dataset: lance.LanceDataset) -> float:
        self._read(dataset)
        return self._paused

    def drop(self) -> None:
        """Removes the dataset."""
        self._table.drop()

    def close(self) -> None:
        """Forgets the dataset."""
        self._table.close()
        self._exists = True  # so that the next use says that it is closed


def _make_table(entries: Mapping[str, Any], paused: float = 0.0) -> pa.Table:
    rows = [
        (HEAD, "", str(paused)),
        *((n, name, json.dumps(value)) for n, (name, value) in enumerate(entries.items(), HEAD + 1)),
    ]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)
