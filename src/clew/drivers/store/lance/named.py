"""Small values that are kept by name beside a collection: jobs, sessions, claims, records, the names of collections.

Each kind is a dataset of one fragment, which every commit replaces: of two that were made of the same state one is
refused.
"""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

import lance
import pyarrow as pa

from clew.drivers.store.backend import T, Values
from clew.drivers.store.base import NamedTexts, change_texts
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.table import MAX_PAUSE, Change, Paused, Table

_SCHEMA = pa.schema([("row", pa.int64()), ("name", pa.string()), ("value", pa.string())])
_CLEAN_EVERY = 32  # commits, after which old versions are removed


class LanceNamed(NamedTexts):
    """The values of a kind; see `NamedRows`. The dataset is made by the first that is written.

    check: Called before a change.
    """

    def __init__(self, table: Table, *, check: Callable[[], None] = lambda: None) -> None:
        self._table, self._check = table, check
        self._exists = False
        self._known: tuple[int, dict[str, str], float] = (-1, {}, 0.0)  # the version, its values, the end of its pause

    def load_texts(self, names: Collection[str] | None = None) -> dict[str, str]:
        """The texts of these names that exist, or all."""
        if not self._find():
            return {}
        with translate_errors(self._table.place):
            texts = self._read(self._table.latest())[0]
        return {name: text for name, text in texts.items() if names is None or name in names}

    def _find(self) -> bool:
        self._exists = self._exists or self._table.exists()
        return self._exists

    def _read(self, dataset: lance.LanceDataset) -> tuple[dict[str, str], float]:
        """The values as JSON, and until when writers wait for an erasure."""
        version, known, paused = self._known
        if version != dataset.version:
            head, *found = sorted(dataset.to_table().to_pylist(), key=lambda row: int(row["row"]))
            known, paused = {row["name"]: row["value"] for row in found}, float(head["value"])
            self._known = (dataset.version, known, paused)
        return known, paused

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """The result of a transaction that changes the values of these names, or all, in place."""
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
        """Removes every version but the last, while others wait to write."""
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
        """Forgets the dataset."""
        self._table.close()
        self._exists = True  # so that the next use says that it is closed


def _make_table(values: Mapping[str, str], paused: float) -> pa.Table:
    """The values in their order, after the head, which says until when writers wait."""
    rows = [(0, "", str(paused)), *((n, *each) for n, each in enumerate(values.items(), 1))]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)
