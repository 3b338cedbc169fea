"""What deletions leave in the files of a collection: older versions, rows marked as deleted, indexes of them."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from clew.drivers.store.lance.content import Content, Draft, compact
from clew.drivers.store.lance.entries import Entries, EntryTable
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.indexes import ROWS
from clew.drivers.store.lance.schema import ARRAYS, HEAD_KIND
from clew.drivers.store.lance.staged import purge_staged_vectors
from clew.drivers.store.lance.staged_datasets import list_staged, read_staged_bytes
from clew.drivers.store.lance.table import MAX_PAUSE

ENDED = ("done", "failed", "cancelled")  # states of jobs that may be deleted
_STATE, _TEXTS = 2, (1, 6, 7)  # places in the entry of a job: its state; its request, result and error
_PENDING = "pending"
_OWN = ("document_kind",)  # words of our own: they are the same whatever is stored


class LanceEraser:
    """The eraser of one collection."""

    def __init__(self, content: Content, beside: Mapping[str, EntryTable], options: Mapping[str, str]) -> None:
        self._content, self._beside, self._options = content, beside, options
        self._jobs, self._erasures = beside["jobs"], beside["erasures"]

    def pending(self) -> str:
        """The text about an unfinished erasure, or an empty one."""
        return str(self._erasures.read().get(_PENDING, ""))

    def set_pending(self, text: str) -> None:
        """Keeps a text about an unfinished erasure; an empty one deletes it with every version that had one."""

        def decide(entries: Entries) -> None:
            entries.clear()
            if text:
                entries[_PENDING] = text

        self._erasures.change(decide)
        if not text:
            self._erasures.purge()

    def drop_jobs(self, matches: Callable[[str], bool]) -> int:
        """Deletes the finished jobs of whose request, result or error something matches; how many."""

        def decide(entries: Entries) -> int:
            found = [
                name
                for name, row in entries.items()
                if row[_STATE] in ENDED and matches("\n".join(row[place] or "" for place in _TEXTS))
            ]
            for name in found:
                del entries[name]
            return len(found)

        return self._jobs.change(decide)

    def purge(self) -> list[str]:
        """Writes the fragments that have deleted rows anew, and removes all older versions and the indexes."""
        content = self._content
        content.write(_pause, is_change=False, is_eraser=True)  # whoever began before is refused, the others wait
        try:
            return self._clean(content)
        finally:
            content.write(_resume, is_change=False, is_eraser=True)

    def _clean(self, content: Content) -> list[str]:
        undone = purge_staged_vectors(content, self._options)
        with translate_errors(content.place):
            for index in content.table.latest().describe_indices():
                content.table.copy().drop_index(index.name)
            is_done = any(compact(content.table.copy(), ROWS, all_deletions=True) for _ in range(20))
        content.table.forget_versions(timedelta(0))
        for name in ("jobs", "sessions", "records"):
            self._beside[name].purge()
        if not is_done:
            undone.append("others changed the collection again and again meanwhile; run the erasure again")
        return undone

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Every text, vector and term of every version of the collection, with its column, and all staged vectors."""
        with translate_errors(self._content.place):
            latest = self._content.table.latest()
            seen: set[str] = set()
            for each in latest.versions():
                for fragment in latest.checkout_version(each["version"]).get_fragments():
                    key = f"{[file.path for file in fragment.metadata.files]}"
                    if key not in seen:
                        seen.add(key)
                        yield from _read_fragment(fragment)
            for uri in list_staged(self._content.table.folder, self._options):
                for data in read_staged_bytes(uri, self._options):
                    yield uri.rpartition("/")[2], data
        for name in ("jobs", "sessions", "records", "erasures"):
            yield name, self._beside[name].read_bytes()

    def notes(self) -> list[str]:
        """What is beyond the reach of the store."""
        return [
            "backups, copies of the bucket, versions that the object store itself keeps, and exports are their "
            "owners': they keep what was erased until they are removed"
        ]


def _pause(draft: Draft) -> None:
    erased = datetime.now(UTC).isoformat(timespec="seconds")
    draft.head = replace(draft.head, erased=erased, paused=time.time() + MAX_PAUSE)


def _resume(draft: Draft) -> None:
    draft.head = replace(draft.head, paused=0.0)


def _read_fragment(fragment: Any) -> Iterator[tuple[str, bytes]]:
    """The values of a fragment by column. Rows marked as deleted are not among them, but older versions have them."""
    for batch in fragment.to_batches(filter=f"kind <> {HEAD_KIND}"):
        for name in batch.schema.names:
            if name in _OWN:
                continue
            column = batch[name]
            if name in ARRAYS and name != "facets":
                values = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
                yield name, values.astype(values.dtype.newbyteorder("<")).tobytes()
            elif str(column.type) in ("string", "list<item: string>"):
                flat = column if str(column.type) == "string" else column.flatten()
                yield name, "\0".join(each or "" for each in flat.to_pylist()).encode()
