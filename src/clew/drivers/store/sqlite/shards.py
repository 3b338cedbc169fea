"""The shards of a collection on disk: which of them can be used, and the lock without which none is touched."""

import logging
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.sqlite import build
from clew.drivers.store.sqlite.checkpoint import SEAL, Checkpoint, has_right_seal, read_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import LockRefused, delete_folder, make_private_folder, try_lock
from clew.drivers.store.sqlite.folder import HOME, LOCK, list_own_shards
from clew.drivers.store.sqlite.shard import BrokenIndex, ShardIndex
from clew.drivers.store.sqlite.signals import RowCache, WordCounts, load_word_counts

OPEN_ATTEMPTS = 3  # of a shard that others change meanwhile
CHECK_ATTEMPTS = 3  # comparisons of a newly opened shard with a database that others change meanwhile
ELSEWHERE = "keep the collection on a local disk, or in PostgreSQL"
log = logging.getLogger(__name__)


class ShardHome:
    """The folder of the shards. Two openers of one live shard lose each other's writes, so one process has its lock.

    building: The folder of a shard that is being built.
    refused: Why the file system does not lock, if it does not.
    """

    def __init__(self, database: Database, folder: Path, rows: RowCache) -> None:
        self.path = folder / HOME
        self.building: Path | None = None
        self.refused = ""
        self._database, self._rows = database, rows
        self._lock_file: BinaryIO | None = None

    def lock(self) -> bool:
        """Take the lock if it is free; whether this process holds it."""
        folder = self.path.parent
        if self._lock_file is None:
            try:
                self._lock_file = try_lock(folder / LOCK)
            except LockRefused as error:
                if not self.refused:
                    log.warning("%s: the file system does not lock files (%s); %s", folder, error, ELSEWHERE)
                self.refused = f"the file system does not lock files ({error.strerror}), so its index is not used"
            except OSError as error:  # a read-only collection is searched in memory
                log.debug("%s: the index cannot be locked: %s", folder, error)
        return self._lock_file is not None

    def unlock(self) -> None:
        """Release the lock."""
        held, self._lock_file = self._lock_file, None
        if held:
            held.close()

    def list_shards(self) -> list[Path]:
        """List the folders of shards, finished or not."""
        return list_own_shards(self.path)

    def list_usable(self, state: CollectionState) -> list[tuple[Path, Checkpoint]]:
        """List the shards of this collection that can catch up with a state, without the one that is being built."""
        read = [(folder, read_checkpoint(folder)) for folder in self.list_shards() if folder != self.building]
        return [
            (folder, checkpoint)
            for folder, checkpoint in read
            if checkpoint
            and (checkpoint.collection_id, checkpoint.dim) == (state.collection_id, self._database.dim)
            and state.pruned <= checkpoint.change <= state.change
            and checkpoint.row <= state.last
        ]

    def find_newest(self, state: CollectionState) -> tuple[Path, Checkpoint] | tuple[None, None]:
        """Find the best usable shard, if there is one: most rows in its graph, then the latest."""
        usable = self.list_usable(state)
        return max(usable, key=lambda each: (-each[1].unindexed, each[1].change), default=(None, None))

    def find_word_counts(self, state: CollectionState) -> WordCounts | None:
        """Find the counts of words that were saved with a shard of this state; None if there is none.

        Takes no lock: another process may have the index open.
        """
        with suppress(OSError, ValueError):
            for folder, saved in self.list_usable(state):
                is_of_state = (saved.change, saved.row) == (state.change, state.last)
                if is_of_state and has_right_seal(folder, only=saved.counts):
                    return load_word_counts(folder / saved.counts)
        return None

    def is_built_elsewhere(self) -> bool:
        """Whether another process builds a shard: until it is saved, it is there without a checkpoint or a seal."""
        if self._lock_file:
            return False
        try:
            unsealed = [folder for folder in self.list_shards() if not (folder / SEAL).exists()]
        except OSError:  # of another user, who keeps it to himself
            return False
        return len(unsealed) > 1 or any(read_checkpoint(folder) is None for folder in unsealed)

    # -- opening; the caller holds the lock

    def open_newest(self) -> ShardIndex:
        """Open the newest shard if it is sound, else a new one. All others are deleted but the one being built.

        BrokenIndex if a new one breaks again and again: once it may, where another process erases something meanwhile.
        """
        for _ in range(OPEN_ATTEMPTS - 1):
            with suppress(BrokenIndex):
                return self._open_newest_once()
        return self._open_newest_once()

    def _open_newest_once(self) -> ShardIndex:
        state = self._database.read_state()  # under the lock no shard is ahead of it
        make_private_folder(self.path)
        newest, checkpoint = self.find_newest(state)
        for other in self.list_shards():
            if other not in (self.building, newest):
                delete_folder(other)
        if newest and (index := self.open_sound(newest, checkpoint)):
            return index
        checkpoint = build.make_empty_checkpoint(state, self._database.dim)
        index = ShardIndex(build.make_shard_path(self.path), self._database, checkpoint, rows=self._rows)
        index.catch_up(state)
        index.save()
        if not self._has_all_chunks(index, state):
            index.close_without_saving()
            raise damaged_error("the table of the vectors and terms")
        return index

    def open_sound(self, folder: Path, checkpoint: Checkpoint | None) -> ShardIndex | None:
        """Open a shard of this checkpoint, caught up; None, and it is deleted, if it is not sound."""
        if checkpoint is None:
            return None
        try:
            index = ShardIndex(folder, self._database, checkpoint, rows=self._rows)
            if self._has_all_chunks(index, self._database.read_state()):
                return index
            index.save_and_close()
            log.warning("%s: the index does not match the collection and is rebuilt", folder.parent)
        except BrokenIndex as error:
            log.warning("%s: the index cannot be read and is rebuilt: %s", folder.parent, error)
        delete_folder(folder)
        return None

    def _has_all_chunks(self, index: ShardIndex, state: CollectionState) -> bool:
        """Whether a shard has as many chunks as the database, once it has caught up."""
        for _ in range(CHECK_ATTEMPTS):
            index.catch_up(state)
            has_all, now = index.has_chunks(state.chunks), self._database.read_state()
            if now.change == state.change:
                return has_all
            state = now
        return True  # the database changed all the time; nothing speaks against the shard
