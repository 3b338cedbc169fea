"""The upkeep of the index on disk: it is saved, and its graph is built in a child process while searches go on."""

import logging
import threading
from time import monotonic

from clew.core.errors import ClewError
from clew.drivers.store.sqlite.build import Builder, is_worth_extending
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import delete_folder
from clew.drivers.store.sqlite.index import BrokenIndex
from clew.drivers.store.sqlite.manager import Build, IndexManager
from clew.drivers.store.sqlite.shard import ShardIndex

REST = 60.0  # seconds after a build that failed, before a thread tries again
SMALL_SHARE = 20  # of a collection, below which what was added since the last flush does not wait for a graph
LOOK_AFTER = 10.0  # seconds for which a process has the collection open before it builds what another process left due

log = logging.getLogger(__name__)


class IndexUpkeep:
    """Saves and builds the index of a collection: when asked, and in a thread while one that is searched grows."""

    def __init__(self, indexes: IndexManager, database: Database) -> None:
        self._indexes, self._database = indexes, database
        self._builder = Builder()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._rests_until = 0.0  # after a build that failed
        self._looks_at = monotonic() + LOOK_AFTER
        self._flushed_row = database.read_state().last

    def flush(self, state: CollectionState, *, with_graph: bool = True) -> None:
        """Returns when the index is safe on disk, with a new graph if one is due. Searches continue meanwhile.

        Not `with_graph`, no new one is built.
        """
        with self._indexes.upkeep:
            due = self._indexes.begin_build(state, with_graph=with_graph)
            if due is None:
                return
            is_built = False
            try:
                is_built = due.is_due and self._build_shard(due, state)
            finally:
                self._indexes.end_build(due.target if is_built else None)
            if due.is_due and not is_built:
                self._rests_until = monotonic() + REST
            if self._builder.is_stopped:
                return
            index = self._indexes.get_caught_up_index(self._database.read_state())
            if isinstance(index, ShardIndex):
                try:
                    index.save()
                except BrokenIndex as error:
                    self._indexes.discard_broken_shard(index, error)

    def start_after_little(self, state: CollectionState) -> bool:
        """Whether little was added since the last flush by a process that searches; a graph that is due is then built
        in a thread, so that who adds a page to a large collection does not wait for it.
        """
        added, self._flushed_row = state.last - self._flushed_row, state.last
        is_left = added * SMALL_SHARE < state.chunks and self._indexes.is_build_due(state)
        if is_left:
            self.start(state)
        return is_left

    def start(self, state: CollectionState) -> None:
        """Builds the graph in a thread if that is due in a process that searches; returns at once."""
        with self._starting:
            if self._thread is not None and self._thread.is_alive():
                return
            is_ready = monotonic() >= self._rests_until and not self._builder.is_stopped
            if is_ready and self._indexes.is_build_due(state):
                target = self._flush_quietly
                self._thread = threading.Thread(target=target, name="clew index", args=(state,), daemon=True)
                self._thread.start()

    def look(self, state: CollectionState) -> None:
        """As `start`, now and then, in a process that goes on searching: another may have left a build that is due."""
        if (now := monotonic()) >= self._looks_at:
            self._looks_at = now + REST
            self.start(state)

    def stop(self) -> None:
        """Ends a build in the thread; what it has made is deleted, and no other is started."""
        self._builder.stop()
        with self._starting:
            thread = self._thread
        if thread:
            thread.join()

    def _flush_quietly(self, state: CollectionState) -> None:
        try:
            self.flush(state)
        except (ClewError, OSError) as error:  # it is raised where the index is searched or flushed next
            self._rests_until = monotonic() + REST
            if not self._builder.is_stopped:
                log.warning("the index was not kept up while the collection grew: %s", error)

    def _build_shard(self, due: Build, state: CollectionState) -> bool:
        """Builds a shard from a copy of the one in use, or anew; whether it succeeded. Else nothing is left of it."""
        is_built = False
        try:
            is_extended = due.newest and is_worth_extending(due.newest, state)
            copied = self._indexes.copy_shard(due.target) if is_extended else None
            is_built = self._builder.build(due.target.parent.parent, due.target, self._database, copied)
        finally:
            if not is_built:
                delete_folder(due.target)
        return is_built
