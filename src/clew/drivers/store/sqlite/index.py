"""The index of a collection in SQLite: searches in the exact index or the shard, which follow the database.

The upkeep of the shard is here too: it is saved, and its graph is built in a child process while searches go on.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import numpy as np

from clew.core.candidates import Depth
from clew.core.doctor import Defect
from clew.core.errors import ClewError, DriverFailed
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store.backend import Head, RowCandidates, RowScores, Snapshot, T
from clew.drivers.store.scan import ScanIndex
from clew.drivers.store.sqlite.build import Builder, is_worth_extending
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import delete_folder
from clew.drivers.store.sqlite.frequencies import get_document_frequencies
from clew.drivers.store.sqlite.manager import Build, Follower, IndexManager
from clew.drivers.store.sqlite.points import BrokenIndex
from clew.drivers.store.sqlite.rows import SqliteSnapshot
from clew.drivers.store.sqlite.shard import ShardIndex
from clew.drivers.store.sqlite.signals import count_having

REST = 60.0  # seconds after a build that failed, before a thread tries again
SMALL_SHARE = 20  # of a collection, below which what was added since the last flush does not wait for a graph
LOOK_AFTER = 10.0  # seconds for which a process has the collection open before it builds what another process left due
MAX_AHEAD = 8192  # hits of searches that are made in one pass

log = logging.getLogger(__name__)


class SqliteIndex(ScanIndex):
    """Searches of a collection; see `clew.drivers.store.backend.Index`. A broken index is built again once."""

    def __init__(self, database: Database, folder: Path | None, config: StoreConfig) -> None:
        super().__init__(self._read_rows)
        self._database, self._folder = database, folder
        self._indexes = IndexManager(database, folder, config)
        self._upkeep = IndexUpkeep(self._indexes, database)

    @contextmanager
    def _read_rows(self, _: Head) -> Iterator[Snapshot]:
        with self._database.read_transaction() as (db, state):
            yield SqliteSnapshot(self._database, db, state)

    def nearest(
        self, head: Head, vector: Vector, k: int, where: Filter, *, is_exact: bool, breadth: int | None
    ) -> RowScores:
        """The k chunks of greatest cosine."""
        return self._search(head, lambda own: own.nearest(head, vector, k, where, is_exact=is_exact, breadth=breadth))

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """The k chunks of greatest BM25 score."""
        return self._search(head, lambda own: own.matching(head, terms, k, where))

    def match_terms(self, head: Head, terms: PackedTerms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the counts of the whole collection."""
        return self._search(head, lambda own: own.match_terms(head, terms, chunk_ids))

    def _search(self, head: Head, search: Callable[[Follower], T]) -> T:
        for is_last in (False, True):
            state = _get_state(head)
            index = self._indexes.get_caught_up_index(state)
            self._upkeep.look(state)
            try:
                return search(index)
            except BrokenIndex as error:
                if is_last:
                    reason = f"{self._folder}: the index failed twice ({error}); try again, check the disk"
                    raise DriverFailed(reason) from error
                self._indexes.discard_broken_shard(index, error)
        raise AssertionError

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """How many chunks have each of the terms; where all are counted, no index is opened for it."""
        state = _get_state(head)
        if at_most is None and not self._indexes.is_open:
            saved = self._indexes.find_counts(state)
            if saved is None:
                return count_having(self._database, hashes)
            return [int(count) for count in get_document_frequencies(saved, hashes)]
        having = self._indexes.get_caught_up_index(state).count_having(hashes)
        return having if at_most is None else [min(count, at_most) for count in having]

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist."""
        return self._indexes.get_vectors(_get_state(head), chunk_ids)

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> list[int]:
        """Searches all of them in one pass."""
        state = _get_state(head)
        if state.chunks and 0 < len(vectors) * k <= MAX_AHEAD:
            index = self._indexes.get_caught_up_index(state)
            with suppress(BrokenIndex):  # the search that follows rebuilds it
                return index.begin(head, np.ascontiguousarray(vectors, np.float32), terms, k, where)
        return []

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> list[RowCandidates] | None:
        """The candidates of each query; None where any is in doubt."""
        state = _get_state(head)
        if len(vectors) * (near.kept + matching.kept) > MAX_AHEAD:
            return None
        index = self._indexes.get_caught_up_index(state)
        self._upkeep.look(state)
        try:
            return index.candidates(head, np.ascontiguousarray(vectors, np.float32), terms, near, matching, where)
        except BrokenIndex:  # the search that follows rebuilds it
            return None

    # -- upkeep

    def keep_up(self, head: Head) -> None:
        """Builds what is due in a thread, after rows were added."""
        self._upkeep.start(_get_state(head))

    def flush(self, *, with_graph: bool = True, is_thorough: bool = False) -> bool:
        """Brings the index into its best shape; False where little was put, and a graph is left to a thread."""
        state = self._database.read_state()
        if with_graph and not is_thorough and self._upkeep.start_after_little(state):
            return False
        self._upkeep.flush(state, with_graph=with_graph)
        return True

    def discard(self) -> list[str]:
        """Deletes the index with all its files; what could not be deleted."""
        return self._indexes.discard()

    def inspect(self, *, is_quick: bool) -> list[Defect]:
        """What is wrong with the index on disk."""
        return self._indexes.inspect(self._database.read_state(), is_quick=is_quick)

    def get_name(self) -> str:
        """The name of the index that searches now, or would."""
        return self._indexes.get_index_name(self._database.read_state())

    def close(self) -> None:
        """Closes the index."""
        self._upkeep.stop()
        self._indexes.close()


def _get_state(head: Head) -> CollectionState:
    assert isinstance(head, CollectionState)
    return head


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
