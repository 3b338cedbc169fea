"""The index of a collection in SQLite: in memory for a small collection, a shard on disk for a large one.

Both follow the database up to the state that a search needs. Searches continue while a shard is saved and a child
process builds its graph.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import numpy as np

from clew.core.doctor import Defect
from clew.core.errors import ClewError, DriverFailed
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Vector
from clew.drivers.store.backend import Effort, Head, Queries, RowCandidates, RowScores, Snapshot, T
from clew.drivers.store.scan import ScanIndex
from clew.drivers.store.sqlite import shards, signals
from clew.drivers.store.sqlite.checkpoint import Checkpoint, has_right_seal, read_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.exact import ExactIndex
from clew.drivers.store.sqlite.files import delete_folder, make_private_folder
from clew.drivers.store.sqlite.rows import SqliteSnapshot
from clew.drivers.store.sqlite.shard import BrokenIndex, ShardIndex
from clew.drivers.store.sqlite.shards import ELSEWHERE, ShardHome
from clew.drivers.store.sqlite.signals import RowCache, WordCounts, stack_vectors

Follower = ExactIndex | ShardIndex  # both with the searches of `clew.drivers.store.backend.Index`
EXACT_LIMIT = 200_000  # chunks to search in memory while another process has the index, or it is being built
DELETE_ATTEMPTS = 20  # for a shard into which another process writes meanwhile
REST = 60.0  # seconds between a failed build and the next attempt in a thread
SMALL_SHARE = 20  # a flush does not wait for a graph if it adds less than one in this many chunks
LOOK_AFTER = 10.0  # seconds after opening before a process builds an index that another process left due

log = logging.getLogger(__name__)


class SqliteIndex(ScanIndex):
    """Searches of a collection; see `clew.drivers.store.backend.Index`. A broken index is rebuilt once per search.

    The active index changes when the collection grows or shrinks, or the index breaks. A process without the lock of
    the shards searches in memory.
    """

    def __init__(self, database: Database, folder: Path | None, config: StoreConfig) -> None:
        super().__init__(self._read_rows)
        self._database, self._folder, self._config = database, folder, config
        self._rows = RowCache(database)
        self._home = ShardHome(database, folder, self._rows) if folder else None
        self._lock = threading.RLock()  # held while the active index is chosen or replaced
        self._upkeep = threading.Lock()  # held while the index is built, inspected or deleted; acquired before _lock
        self._exact: ExactIndex | None = None
        self._shard: ShardIndex | None = None
        self._builder = shards.Builder()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None  # of the last background build
        self._rests_until = 0.0  # after a failed build
        self._looks_at = monotonic() + LOOK_AFTER
        self._flushed_row = database.read_state().last

    @contextmanager
    def _read_rows(self, _: Head) -> Iterator[Snapshot]:
        with self._database.read_transaction() as (db, state):
            yield SqliteSnapshot(self._database, db, state)

    # -- searches

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k chunks with the highest cosine."""
        return self._search(head, lambda own: own.nearest(head, vector, k, where, effort))

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k chunks with the highest BM25 score."""
        return self._search(head, lambda own: own.matching(head, terms, k, where))

    def _search(self, head: Head, search: Callable[[Follower], T]) -> T:
        for is_last in (False, True):
            index = self._get_index(head)
            self._look(head)
            try:
                return search(index)
            except BrokenIndex as error:
                if is_last:
                    reason = f"{self._folder}: the index failed twice ({error}); try again, check the disk"
                    raise DriverFailed(reason) from error
                self._discard_broken(index, error)
        raise AssertionError

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """Count, for each term, the chunks that have it; do not open an index only for exact counts."""
        state = _get_state(head)
        if at_most is None and not (self._shard or self._exact):
            saved = self._home.find_word_counts(state) if self._home else None
            return saved.count(hashes) if saved else signals.count_having(self._database, hashes)
        having = self._get_index(state).count_having(hashes)
        return having if at_most is None else [min(count, at_most) for count in having]

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the existing chunks."""
        if (exact := self._exact) and (known := exact.vectors(head, chunk_ids)) is not None:
            return known
        made = [each for each in self._rows.load_chunks(head, chunk_ids) if each[signals.VECTOR]]
        return dict(zip([each[1] for each in made], stack_vectors(made, self._database.dim), strict=True))

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find the candidates of each query."""
        return self._search(head, lambda own: own.candidates(head, queries))

    # -- the active index

    def _get_index(self, head: Head) -> Follower:
        """Return the index to search, in memory or on disk, caught up with the database at least to `head`."""
        state = _get_state(head)
        with self._lock:
            home = self._home
            if not home or not self._needs_shard(state):
                if home and not home.building:  # a shard that is being built needs the lock
                    self._close_shard()
            elif not self._serves_until_built(state) and home.lock():
                return self._get_shard(home, state)
            elif state.chunks > EXACT_LIMIT:
                raise DriverFailed(
                    f"{self._folder}: {home.refused or 'another process has the index open'}, and its {state.chunks} "
                    f"chunks are too many to search in memory (at most {EXACT_LIMIT}); "
                    + (ELSEWHERE if home.refused else "ask that process, or keep the collection in PostgreSQL")
                )
            index = self._exact = self._exact or ExactIndex(self._database)
        index.catch_up(state)
        return index

    def _get_shard(self, home: ShardHome, state: CollectionState) -> ShardIndex:
        self._exact = None
        if self._shard:
            try:
                self._shard.catch_up(state)
                return self._shard
            except BrokenIndex as error:
                self._discard_broken(self._shard, error)
        try:
            self._shard = home.open_newest()
        except (BrokenIndex, OSError) as error:
            raise self._refuse_to_build(error) from error
        return self._shard

    def _needs_shard(self, state: CollectionState) -> bool:
        """Return whether a collection needs the shard; a shrinking one keeps it for a while (hysteresis)."""
        limit = self._config.exact_below // 2 if self._shard else self._config.exact_below
        return self._home is not None and state.chunks > limit

    def _serves_until_built(self, state: CollectionState) -> bool:
        """Return whether to search in memory until a shard is built, since filling one now would take seconds."""
        if not self._home or not self._exact or self._shard or state.chunks <= shards.MIN_ROWS:
            return False
        return state.chunks <= EXACT_LIMIT and not self._home.list_usable(state)

    def _discard_broken(self, index: Follower, error: Exception) -> None:
        """Delete a broken shard, unless it has already been replaced; the next search builds another."""
        with self._lock:
            if isinstance(index, ShardIndex) and index is self._shard:
                self._shard = None
                log.warning("%s: the index broke and is rebuilt: %s", index.folder, error)
                index.close_without_saving()
                delete_folder(index.folder)

    def _close_shard(self) -> None:
        """Save and close the shard, and release its lock."""
        shard, self._shard = self._shard, None
        try:
            if shard:
                shard.save_and_close()
        except BrokenIndex as error:
            log.warning("%s: the index could not be saved and will be rebuilt: %s", self._folder, error)
        finally:
            if self._home:
                self._home.unlock()

    def _refuse_to_build(self, error: Exception) -> DriverFailed:
        return DriverFailed(f"{self._folder}: the index cannot be built ({error}); check the free space on the disk")

    def get_name(self) -> str:
        """Return the name of the active index, or of the one that a search would use; takes no lock of the shards."""
        state = self._database.read_state()
        with self._lock:
            home = self._home if self._needs_shard(state) else None
            name = ShardIndex.name if home and (self._shard or self._exact is None) else ExactIndex.name
            is_built = (self._home and self._home.building) or (home and home.is_built_elsewhere())
            return f"{name}; a new one is being built" if is_built else name

    def discard(self) -> list[str]:
        """Delete the index with all its files; the next search builds another. Return problems as sentences.

        Another process with the index open keeps the unlinked files. At its next search it finds itself too far behind
        and builds a new index.
        """
        with self._upkeep, self._lock:
            self._exact = None
            if self._home is None:
                return []
            self._home.lock()
            if self._shard:
                self._shard.close_without_saving()
                self._shard = None
            left = self._home.list_shards()  # shards built from now on contain no deleted content
            for _ in range(DELETE_ATTEMPTS):
                for path in left:
                    delete_folder(path)
                left = [path for path in left if path.exists()]
                if not left:
                    break
                time.sleep(0.05)
            return [f"{path}: another process has it open; end it and run the erasure again" for path in left]

    def inspect(self, *, is_quick: bool) -> list[Defect]:
        """Find defects of the index on disk: files, chunks, words. Skip an index that another process holds.

        is_quick: Do not count words.
        """
        state = self._database.read_state()
        with self._upkeep, self._lock:
            home = self._home
            if not home or not (home.list_shards() or self._needs_shard(state)) or not home.lock():
                return []
            defects = [
                Defect("orphans", f"{folder} is an index that was not finished", "", "rebuild", severity="warning")
                for folder in home.list_shards()
                if read_checkpoint(folder) is None
            ]
            for folder, _ in home.list_usable(state) if self._shard is None else []:
                if not has_right_seal(folder):
                    defects.append(Defect("index", f"{folder} is damaged", "", "rebuild"))
            if not self._needs_shard(state):
                self._close_shard()
            elif not defects:
                defects += self._inspect_shard(self._get_shard(home, state), state, is_quick=is_quick)
            return defects

    def _inspect_shard(self, index: ShardIndex, state: CollectionState, *, is_quick: bool) -> list[Defect]:
        defects, chunks = [], index.count_chunks()
        if chunks != state.chunks:
            defects.append(Defect("index", f"the index has {chunks} chunks of {state.chunks}", "", "rebuild"))
        if not is_quick:
            counted = WordCounts()
            for _, batch, _ in signals.read_rows_in_batches(self._database, 0, state):
                counted.update(batch.terms.hashes)
            if not all(map(np.array_equal, counted.merge(), index.counts.merge())):
                defects.append(Defect("postings", "the index counts words otherwise than the chunks do", "", "rebuild"))
        return defects

    def close(self) -> None:
        """Cancel a background build, which leaves nothing behind, and close the index."""
        self._builder.stop()
        with self._starting:
            thread = self._thread
        if thread:
            thread.join()
        with self._lock:
            self._close_shard()
            self._exact = None

    # -- upkeep

    def keep_up(self, head: Head) -> None:
        """Start a background build of the graph if it is due and this process searches."""
        state = _get_state(head)
        with self._starting:
            if self._thread is not None and self._thread.is_alive():
                return
            is_ready = monotonic() >= self._rests_until and not self._builder.is_stopped
            if is_ready and self._is_build_due(state):
                target = self._flush_quietly
                self._thread = threading.Thread(target=target, name="clew index", args=(state,), daemon=True)
                self._thread.start()

    def _look(self, head: Head) -> None:
        """Call `keep_up` from time to time while this process searches: another may have left a build due."""
        if (now := monotonic()) >= self._looks_at:
            self._looks_at = now + REST
            self.keep_up(head)

    def _is_build_due(self, state: CollectionState) -> bool:
        """Return whether this process searches, would be much faster with a new shard, and may build it."""
        shard = self._shard
        if not self._home or not (shard or self._exact) or not self._needs_shard(state):
            return False
        with self._lock:
            return shards.is_rebuild_due(shard.checkpoint if shard else None, state) and self._home.lock()

    def flush(self, *, with_graph: bool = True, is_thorough: bool = False) -> bool:
        """Save the index to disk, with a new graph if one is due and `with_graph`.

        If a searching process has added little since the last flush, return False and build a due graph in a thread, so
        that adding a page to a large collection does not wait for it. With `is_thorough`, always wait.
        """
        state = self._database.read_state()
        if with_graph and not is_thorough:
            added, self._flushed_row = state.last - self._flushed_row, state.last
            if added * SMALL_SHARE < state.chunks and self._is_build_due(state):
                self.keep_up(state)
                return False
        self._build_and_save(state, with_graph=with_graph)
        return True

    def _flush_quietly(self, state: CollectionState) -> None:
        try:
            self._build_and_save(state)
        except (ClewError, OSError) as error:  # the next search or flush raises it
            self._rests_until = monotonic() + REST
            if not self._builder.is_stopped:
                log.warning("the index was not kept up while the collection grew: %s", error)

    def _build_and_save(self, state: CollectionState, *, with_graph: bool = True) -> None:
        """Build a shard if one is due, and save the active one; searches continue meanwhile."""
        with self._upkeep:
            with self._lock:
                home = self._home
                if not home or not self._needs_shard(state) or not home.lock():
                    return
                newest = self._shard.checkpoint if self._shard else home.find_newest(state)[1]
                is_due = with_graph and shards.is_rebuild_due(newest, state)
                try:
                    make_private_folder(home.path)
                except OSError as error:
                    raise self._refuse_to_build(error) from error
                home.building = shards.make_shard_path(home.path) if is_due else None
            if home.building and not self._build_shard(home, home.building, newest, state):
                self._rests_until = monotonic() + REST
            if self._builder.is_stopped:
                return
            index = self._get_index(self._database.read_state())
            if isinstance(index, ShardIndex):
                try:
                    index.save()
                except BrokenIndex as error:
                    self._discard_broken(index, error)

    def _build_shard(self, home: ShardHome, target: Path, newest: Checkpoint | None, state: CollectionState) -> bool:
        """Build a shard, new or from a copy of the active one, and activate it; if that fails, delete it.

        The old index is searched until the new one is open and has caught up. Return whether the build succeeded.
        """
        is_built, made = False, None
        try:
            copied = self._copy_shard(target) if newest and shards.is_worth_extending(newest, state) else None
            is_built = self._builder.build(home.path.parent, target, self._database, copied)
            made = home.open_sound(target, read_checkpoint(target)) if is_built else None
        finally:
            if not is_built:
                delete_folder(target)
            with self._lock:
                home.building, old = None, self._shard
                if made:
                    self._shard, self._exact = made, None
                elif not old:
                    self._close_shard()  # another process may succeed
            if made and old:  # without the lock, since closing a large shard takes seconds
                old.close_without_saving()
                delete_folder(old.folder)
        return is_built

    def _copy_shard(self, target: Path) -> Checkpoint | None:
        """Copy the active shard for extension; return None if that fails, so that a new one is built."""
        index = self._get_index(self._database.read_state())
        try:
            return index.copy_to(target) if isinstance(index, ShardIndex) else None
        except BrokenIndex as error:
            log.warning("%s: the index cannot be copied and is built anew: %s", target.parent, error)
            delete_folder(target)
            return None


def _get_state(head: Head) -> CollectionState:
    assert isinstance(head, CollectionState)
    return head
