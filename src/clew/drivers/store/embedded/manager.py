"""Chooses the index that serves: the exact one while a collection is small, the shard when it is large and unlocked."""

import logging
import shutil
import threading
from pathlib import Path
from typing import BinaryIO

from clew.core.errors import DriverFailed
from clew.core.settings import StoreConfig
from clew.drivers.store.embedded import build
from clew.drivers.store.embedded.checkpoint import Checkpoint, read_checkpoint
from clew.drivers.store.embedded.database import CollectionState, Database
from clew.drivers.store.embedded.exact import ExactIndex
from clew.drivers.store.embedded.index import BrokenIndex, Index
from clew.drivers.store.embedded.lock import try_lock
from clew.drivers.store.embedded.shard import ShardIndex

HOME, LOCK = "index", "index.lock"  # the lock is outside the folder, so that the index can be removed while it is held
CHECK_ATTEMPTS = 3  # comparisons of a newly opened shard with a database that others change meanwhile

log = logging.getLogger(__name__)


class IndexManager:
    """Holds the index of a collection, and replaces it when the collection grows or shrinks or the index breaks.

    Two openers of one live shard lose each other's writes. So a shard is only touched under a file lock, and a process
    that does not get the lock searches in memory.
    """

    def __init__(self, database: Database, folder: Path | None, config: StoreConfig) -> None:
        self._database = database
        self._folder = folder
        self._config = config
        self._lock = threading.RLock()
        self._flush_lock = threading.Lock()
        self._lock_file: BinaryIO | None = None
        self._exact: ExactIndex | None = None
        self._shard: ShardIndex | None = None
        self._building: Path | None = None  # the folder of a shard that is not finished

    def ready_index(self, state: CollectionState) -> Index:
        """An index that has followed the database at least to a state."""
        with self._lock:
            if not self._folder or not self._is_large(state):
                if self._lock_file:
                    self._release()
            elif self._acquire():
                return self._ready_shard(state)
            elif state.chunks > self._config.exact_limit:
                raise DriverFailed(
                    f"{self._folder}: another process has the index of these {state.chunks} chunks open, and they are "
                    f"too many to search in memory (store.exact_limit is {self._config.exact_limit}); ask that "
                    "process, serve the collection with `clew serve`, or keep it in PostgreSQL"
                )
            index = self._exact = self._exact or ExactIndex(self._database)
        index.follow(state)
        return index

    def discard(self, index: Index, error: Exception) -> None:
        """Deletes a shard that broke, unless it has been replaced already; the next search builds another."""
        with self._lock:
            shard = self._shard
            if shard is None or index is not shard:
                return
            self._shard = None
            log.warning("%s: the index broke and is rebuilt: %s", shard.folder, error)
            shard.abandon()
            _delete(shard.folder)

    def name(self, state: CollectionState) -> str:
        """The name of the index that serves now."""
        with self._lock:
            is_shard = self._is_large(state) and (self._shard is not None or self._acquire())
            return ShardIndex.name if is_shard else ExactIndex.name

    def flush(self, state: CollectionState) -> None:
        """Returns when the index is safe on disk, with a new graph if one is due. Searches continue meanwhile."""
        with self._flush_lock:
            with self._lock:
                if not self._folder or not self._is_large(state) or not self._acquire():
                    return
                home, current = self._folder / HOME, self._shard.checkpoint if self._shard else None
                self._building = build.new_shard_path(home)
            on_disk = [checkpoint for _, checkpoint in _list_usable(home, state, self._database.dim)]
            newest = current or max(on_disk, key=_freshness, default=None)
            is_due = build.is_rebuild_due(newest, state)
            is_built = is_due and build.build_in_subprocess(self._folder, self._building, self._database)
            with self._lock:
                self._building = None
                if is_built and self._shard:
                    self._shard.abandon()
                    self._shard = None
                index = self.ready_index(self._database.read_state())
                if isinstance(index, ShardIndex):
                    try:
                        index.save()
                    except BrokenIndex as error:
                        self.discard(index, error)

    def close(self) -> None:
        """Closes the index and releases its lock."""
        with self._lock:
            self._release()
            self._exact = None

    def _ready_shard(self, state: CollectionState) -> ShardIndex:
        self._exact = None
        if self._shard:
            try:
                self._shard.follow(state)
                return self._shard
            except BrokenIndex as error:
                self.discard(self._shard, error)
        try:
            self._shard = self._open_shard()
        except (BrokenIndex, OSError) as error:
            reason = f"{self._folder}: the index cannot be built ({error}); check the free space on the disk"
            raise DriverFailed(reason) from error
        return self._shard

    def _open_shard(self) -> ShardIndex:
        """The shard on disk if it is sound, else a new one that is filled from the database."""
        assert self._folder
        home, state = self._folder / HOME, self._database.read_state()  # under our lock no shard is ahead of it
        home.mkdir(exist_ok=True)
        usable = _list_usable(home, state, self._database.dim)
        newest = max(usable, key=lambda each: _freshness(each[1]), default=None)
        for other in home.iterdir():
            if other != self._building and (newest is None or other != newest[0]):
                _delete(other)
        if newest:
            try:
                index = ShardIndex(newest[0], self._database, newest[1])
                if self._is_complete(index, state):
                    return index
                index.close()
                log.warning("%s: the index does not match the collection and is rebuilt", home)
            except BrokenIndex as error:
                log.warning("%s: the index cannot be read and is rebuilt: %s", home, error)
            _delete(newest[0])
        checkpoint = build.new_checkpoint(state, self._database.dim)
        index = ShardIndex(build.new_shard_path(home), self._database, checkpoint)
        index.follow(state)
        index.save()
        return index

    def _is_complete(self, index: ShardIndex, state: CollectionState) -> bool:
        """Whether a shard has as many chunks as the database, once it has followed."""
        for _ in range(CHECK_ATTEMPTS):
            index.follow(state)
            count, now = index.count(), self._database.read_state()
            if now.change == state.change:
                return count == state.chunks
            state = now
        return True  # the database changed all the time; nothing speaks against the shard

    def _is_large(self, state: CollectionState) -> bool:
        """Whether a collection needs the shard; one that shrinks keeps it for a while, so as not to alternate."""
        return state.chunks > (self._config.exact_below // 2 if self._shard else self._config.exact_below)

    def _acquire(self) -> bool:
        """Whether this process holds the lock of the index on disk; takes it if it is free."""
        if self._lock_file is None and self._folder:
            try:
                self._lock_file = try_lock(self._folder / LOCK)
            except OSError as error:  # a read-only collection is searched in memory
                log.debug("%s: the index cannot be locked: %s", self._folder, error)
        return self._lock_file is not None

    def _release(self) -> None:
        """Closes the shard and releases its lock."""
        shard, lock_file = self._shard, self._lock_file
        self._shard = self._lock_file = None
        try:
            if shard:
                shard.close()
        except BrokenIndex as error:
            log.warning("%s: the index could not be saved and will be rebuilt: %s", self._folder, error)
        finally:
            if lock_file:
                lock_file.close()


def _list_usable(home: Path, state: CollectionState, dim: int) -> list[tuple[Path, Checkpoint]]:
    """The shards on disk that are of this collection and can follow it from their checkpoint."""
    read = [(folder, read_checkpoint(folder)) for folder in home.iterdir()] if home.is_dir() else []
    return [
        (folder, checkpoint)
        for folder, checkpoint in read
        if checkpoint
        and (checkpoint.collection_id, checkpoint.dim) == (state.collection_id, dim)
        and state.pruned <= checkpoint.change <= state.change
        and checkpoint.row <= state.last_row
    ]


def _freshness(checkpoint: Checkpoint) -> tuple[int, int]:
    return -checkpoint.unindexed, checkpoint.change


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
