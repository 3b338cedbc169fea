"""What deletions leave in the files of a collection: older versions, rows marked as deleted, indexes of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from clew.core.jobs import FINISHED
from clew.core.receipt import Purge
from clew.drivers.store.lance.content import Content, Draft, compact
from clew.drivers.store.lance.entries import Entries, EntryTable
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.indexes import ROWS
from clew.drivers.store.lance.staged import purge_staged_vectors
from clew.drivers.store.lance.table import MAX_PAUSE

_STATE, _TEXTS = 2, (1, 6, 7)  # places in the entry of a job: its state; its request, result and error
_PENDING = "pending"


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

    def drop_jobs(self, matches: Callable[[str, str], bool]) -> tuple[int, list[str]]:
        """Deletes the jobs that match and have ended; how many, and the ids of those that match and have not."""

        def decide(entries: Entries) -> tuple[int, list[str]]:
            found = {
                job: row[_STATE] in FINISHED
                for job, row in entries.items()
                if matches(job, "\n".join(row[place] or "" for place in _TEXTS))
            }
            for job, has_ended in found.items():
                if has_ended:
                    del entries[job]
            return sum(found.values()), [job for job, has_ended in found.items() if not has_ended]

        return self._jobs.change(decide)

    def purge(self) -> Purge:
        """Writes the fragments that have deleted rows anew, and removes all older versions and the indexes."""
        content = self._content
        content.write(_pause, is_change=False, is_eraser=True)  # whoever began before is refused, the others wait
        try:
            return self._clean(content)
        finally:
            content.write(_resume, is_change=False, is_eraser=True)

    def _clean(self, content: Content) -> Purge:
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
        done = "fragments with deleted rows: written again; indexes and all older versions: removed"
        return Purge((done,) if is_done else (), tuple(undone))

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
