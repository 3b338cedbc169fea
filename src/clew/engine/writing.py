"""The verbs that change a collection."""

from collections.abc import Iterable
from pathlib import Path

from clew.core.report import OnProgress, Plan, Report
from clew.core.settings import Settings
from clew.core.types import Document, Message
from clew.engine.held import Held
from clew.index.add import ingest as write
from clew.index.add.ingest import Desk


class Writing(Held):
    """Adding, planning, filling in and dropping."""

    def add(
        self,
        *sources: str | Path,
        sync: bool = False,
        max_cost: float | None = None,
        settings: Settings | None = None,
        progress: OnProgress | None = None,
    ) -> Report:
        """What was added of files, folders and web pages: new and changed ones are read, the unchanged are skipped.

        `sync` also drops what has vanished from the folders. The work stops before it costs more than `max_cost`.
        """
        return write.add_places(self._desk(settings), sources, sync=sync, max_cost=max_cost, watch=progress)

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        max_cost: float | None = None,
        settings: Settings | None = None,
        progress: OnProgress | None = None,
    ) -> Report:
        """What was added of documents that a program made; one without sections is read as markdown."""
        return write.add_documents(self._desk(settings), documents, max_cost=max_cost, watch=progress)

    def add_messages(self, messages: Iterable[Message], *, settings: Settings | None = None) -> Report:
        """What was added of messages as they are written: each joins its thread and costs one embedding.

        A message that is there is skipped, one that was edited replaces itself. The report names them by id.
        """
        with self._talking:
            return write.add_messages(self._desk(settings), messages)

    def plan(self, *sources: str | Path, sync: bool = False, settings: Settings | None = None) -> Plan:
        """What `add` would read, reuse, embed, ask and drop, and what it would cost; nothing is asked or stored."""
        return write.plan_places(self._desk(settings), sources, sync=sync)

    def backfill(self, *, max_cost: float | None = None, progress: OnProgress | None = None) -> Report:
        """Which documents without a summary were given one."""
        return write.fill(self._desk(None), max_cost=max_cost, watch=progress)

    def drop(self, *documents: str) -> int:
        """How many documents were removed, each named by its id or address."""
        return self._store.drop([self._resolve(each) for each in documents])

    def drop_messages(self, *ids: str, settings: Settings | None = None) -> int:
        """How many messages were removed, each named by its id; none is, and it is NotFound, if one is not there.

        What answered a removed message then answers what that answered. The few that were embedded with it are embedded
        again; a thread of which nothing is left is dropped.
        """
        with self._talking:
            return write.drop_messages(self._desk(settings), ids)

    def _desk(self, settings: Settings | None) -> Desk:
        return Desk(self._store, self._embedder, self._llm, settings or self._settings, self._root)
