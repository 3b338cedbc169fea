"""Chooses the index that serves: the exact one while a collection is small, the shard when it is large and unlocked."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from clew.core.doctor import Defect
from clew.core.errors import DriverFailed
from clew.core.settings import StoreConfig
from clew.core.types import Vector
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.sqlite import build, frequencies, signals
from clew.drivers.store.sqlite.checkpoint import (
    SEAL,
    Checkpoint,
    get_freshness,
    has_right_seal,
    list_usable_shards,
    read_checkpoint,
)
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.exact import ExactIndex
from clew.drivers.store.sqlite.files import LockRefused, delete_folder, make_private_folder, try_lock
from clew.drivers.store.sqlite.folder import HOME, LOCK, list_own_shards
from clew.drivers.store.sqlite.frequencies import DocumentFrequencies, load_document_frequencies
from clew.drivers.store.sqlite.points import BrokenIndex
from clew.drivers.store.sqlite.row_cache import RowCache, stack_vectors
from clew.drivers.store.sqlite.shard import ShardIndex

Follower = ExactIndex | ShardIndex  # both search as `clew.drivers.store.backend.Index` says
DELETE_ATTEMPTS = 20  # of a shard into which another process writes meanwhile
OPEN_ATTEMPTS = 3  # of a shard that others change meanwhile
CHECK_ATTEMPTS = 3  # comparisons of a newly opened shard with a database that others change meanwhile
_ELSEWHERE = "keep the collection on a local disk, or in PostgreSQL"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Build:
    """A shard to build: its folder, the checkpoint of the newest that there is, and whether it is worth it."""

    target: Path
    newest: Checkpoint | None
    is_due: bool


class IndexManager:
    """Holds the index of a collection, and replaces it when the collection grows or shrinks or the index breaks.

    Two openers of one live shard lose each other's writes. So a shard is only touched under a file lock, and a process
    that does not get the lock searches in memory.
    """

    def __init__(self, database: Database, folder: Path | None, config: StoreConfig) -> None:
        self._database = database
        self._folder = folder
        self._config = config
        self._rows = RowCache(database)
        self._lock = threading.RLock()
        self.upkeep = threading.Lock()  # held while the index is built, inspected or deleted; taken before the other
        self._lock_file: BinaryIO | None = None
        self._exact: ExactIndex | None = None
        self._shard: ShardIndex | None = None
        self._building: Path | None = None  # the folder of a shard that is not finished
        self._refused = ""  # why the file system does not lock, if it does not

    @property
    def is_open(self) -> bool:
        """Whether this process has an index open, in memory or on disk."""
        return bool(self._shard or self._exact)

    def get_caught_up_index(self, state: CollectionState) -> Follower:
        """The index to search, in memory or on disk, caught up with the database at least to a state."""
        with self._lock:
            if not self._folder or not self._needs_shard(state):
                if self._lock_file and not self._building:  # what is being built is opened under the same lock
                    self._close_shard_and_unlock()
            elif not self._serves_until_built(state) and self._acquire_lock():
                return self._get_caught_up_shard(state)
            elif state.chunks > self._config.exact_limit:
                raise DriverFailed(
                    f"{self._folder}: {self._refused or 'another process has the index open'}, and its {state.chunks} "
                    f"chunks are too many to search in memory (store.exact_limit is {self._config.exact_limit}); "
                    + (_ELSEWHERE if self._refused else "ask that process, or keep the collection in PostgreSQL")
                )
            index = self._exact = self._exact or ExactIndex(self._database)
        index.catch_up(state)
        return index

    def find_counts(self, state: CollectionState) -> DocumentFrequencies | None:
        """How many chunks have each word, as it was saved with an index on disk of this state; None if there is none.

        Takes no lock: another process may have the index open.
        """
        with suppress(OSError, ValueError):
            for folder, saved in (
                list_usable_shards(self._folder / HOME, state, self._database.dim) if self._folder else ()
            ):
                is_of_state = (saved.change, saved.row) == (state.change, state.last)
                if is_of_state and has_right_seal(folder, only=saved.counts):
                    return load_document_frequencies(folder / saved.counts)
        return None

    def get_vectors(self, state: CollectionState, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist, by id."""
        if (exact := self._exact) and (known := exact.vectors(state, chunk_ids)) is not None:
            return known
        read = self._rows.load_chunks(state, chunk_ids)
        made = [each for each in read if each[7]]
        return dict(zip([each[1] for each in made], stack_vectors(made, self._database.dim), strict=True))

    def discard_broken_shard(self, index: Follower, error: Exception) -> None:
        """Deletes a shard that broke, unless it has been replaced already; the next search builds another."""
        with self._lock:
            shard = self._shard
            if shard is None or index is not shard:
                return
            self._shard = None
            log.warning("%s: the index broke and is rebuilt: %s", shard.folder, error)
            shard.close_without_saving()
            delete_folder(shard.folder)

    def discard(self) -> list[str]:
        """Deletes the index with all its files; the next search builds another. What could not be deleted, if anything.

        If another process has it open, it loses the names of its files, not the files: it searches on, and at its next
        search finds itself too far behind and builds a new one.
        """
        with self.upkeep, self._lock:
            self._exact = None
            if self._folder is None:
                return []
            self._acquire_lock()
            if self._shard:
                self._shard.close_without_saving()
                self._shard = None
            left = list_own_shards(self._folder / HOME)  # one that is built from now on holds nothing deleted
            for _ in range(DELETE_ATTEMPTS):
                for path in left:
                    delete_folder(path)
                left = [path for path in left if path.exists()]
                if not left:
                    break
                time.sleep(0.05)
            return [f"{path}: another process has it open; end it and run the erasure again" for path in left]

    def get_index_name(self, state: CollectionState) -> str:
        """The name of the index that searches now, or would, in memory or on disk; takes no lock to tell."""
        with self._lock:
            home = self._folder / HOME if self._folder and self._needs_shard(state) else None
            name = ShardIndex.name if home and (self._shard or self._exact is None) else ExactIndex.name
            is_built = self._building or (home and not self._lock_file and is_one_unfinished(home))
            return f"{name}; a new one is being built" if is_built else name

    def is_build_due(self, state: CollectionState) -> bool:
        """Whether this process searches the collection, would much faster with another shard, and may build it."""
        shard = self._shard
        if not self._folder or not (shard or self._exact) or not self._needs_shard(state):
            return False
        with self._lock:
            return build.is_rebuild_due(shard.checkpoint if shard else None, state) and self._acquire_lock()

    def begin_build(self, state: CollectionState, *, with_graph: bool = True) -> Build | None:
        """What to build; None if the collection needs no shard or another process holds it.

        Not `with_graph`, no build is due.
        """
        with self._lock:
            if not self._folder or not self._needs_shard(state) or not self._acquire_lock():
                return None
            home, current = self._folder / HOME, self._shard.checkpoint if self._shard else None
            on_disk = [checkpoint for _, checkpoint in list_usable_shards(home, state, self._database.dim)]
            newest = current or max(on_disk, key=get_freshness, default=None)
            due = Build(build.make_shard_path(home), newest, with_graph and build.is_rebuild_due(newest, state))
            try:
                make_private_folder(home)
            except OSError as error:
                raise self._refuse_to_build(error) from error
            self._building = due.target if due.is_due else None
            return due

    def copy_shard(self, target: Path) -> Checkpoint | None:
        """Copies the shard in use, to be extended; None if it cannot be copied: another is made without it."""
        index = self.get_caught_up_index(self._database.read_state())
        try:
            return index.copy_to(target) if isinstance(index, ShardIndex) else None
        except BrokenIndex as error:
            log.warning("%s: the index cannot be copied and is built anew: %s", target.parent, error)
            delete_folder(target)
            return None

    def end_build(self, built: Path | None) -> None:
        """Uses the shard that was built, if one was; it is opened and caught up while the old index is searched."""
        made = None
        try:
            made = self._open_sound(built, read_checkpoint(built)) if built else None
        finally:
            with self._lock:
                self._building, old = None, self._shard
                if made:
                    self._shard, self._exact = made, None
                elif not old:
                    self._close_shard_and_unlock()  # another process may have more luck
            if made and old:  # without the lock: to give back a large shard takes seconds
                old.close_without_saving()
                delete_folder(old.folder)

    def inspect(self, state: CollectionState, *, is_quick: bool = False) -> list[Defect]:
        """What is wrong with the index on disk: files, chunks, words. One that another process holds is passed over.

        Quickly, the words are not counted.
        """
        with self.upkeep, self._lock:
            if not self._folder:
                return []
            home, shards = self._folder / HOME, list_own_shards(self._folder / HOME)
            if not (shards or self._needs_shard(state)) or not self._acquire_lock():
                return []
            defects = [
                Defect("orphans", f"{folder} is an index that was not finished", "", "rebuild")
                for folder in shards
                if read_checkpoint(folder) is None
            ]
            usable = list_usable_shards(home, state, self._database.dim)
            for folder, _ in usable if self._shard is None else []:
                if not has_right_seal(folder):
                    defects.append(Defect("index", f"{folder} is damaged", "", "rebuild"))
            if not defects and self._needs_shard(state):
                defects += self._inspect_shard(state, is_quick=is_quick)
            if not self._needs_shard(state):
                self._close_shard_and_unlock()
            return defects

    def _inspect_shard(self, state: CollectionState, *, is_quick: bool) -> list[Defect]:
        index = self._get_caught_up_shard(state)
        defects = []
        if index.count_chunks() != state.chunks:
            problem = f"the index has {index.count_chunks()} chunks of {state.chunks}"
            defects.append(Defect("index", problem, "", "rebuild"))
        if is_quick:
            return defects
        counted = frequencies.EMPTY
        for batch in signals.read_rows_in_batches(self._database, 0, state):
            counted = frequencies.update_document_frequencies(counted, batch.signals.terms)
        right, found = frequencies.merge_document_frequencies(counted), index.count_words()
        if not np.array_equal(right.words, found.words) or not np.array_equal(right.numbers, found.numbers):
            defects.append(Defect("postings", "the index counts words otherwise than the chunks do", "", "rebuild"))
        return defects

    def close(self) -> None:
        """Closes the index and releases its lock."""
        with self._lock:
            self._close_shard_and_unlock()
            self._exact = None

    def _get_caught_up_shard(self, state: CollectionState) -> ShardIndex:
        assert self._folder
        self._exact = None
        if self._shard:
            try:
                self._shard.catch_up(state)
                return self._shard
            except BrokenIndex as error:
                self.discard_broken_shard(self._shard, error)
        try:
            self._shard = self._open_newest()
        except (BrokenIndex, OSError) as error:
            raise self._refuse_to_build(error) from error
        return self._shard

    def _refuse_to_build(self, error: Exception) -> DriverFailed:
        return DriverFailed(f"{self._folder}: the index cannot be built ({error}); check the free space on the disk")

    def _serves_until_built(self, state: CollectionState) -> bool:
        """Whether the index in memory is searched on until a shard is built: to fill one now would take seconds."""
        if not self._folder or not self._exact or self._shard or state.chunks <= build.MIN_ROWS:
            return False
        return state.chunks <= self._config.exact_limit and not self._list_usable(state)

    def _needs_shard(self, state: CollectionState) -> bool:
        """Whether a collection needs the shard; one that shrinks keeps it for a while, so as not to alternate."""
        return state.chunks > (self._config.exact_below // 2 if self._shard else self._config.exact_below)

    def _acquire_lock(self) -> bool:
        """Takes the lock of the index on disk if it is free; whether this process holds it."""
        if self._lock_file is None and self._folder:
            try:
                self._lock_file = try_lock(self._folder / LOCK)
            except LockRefused as error:
                if not self._refused:
                    log.warning("%s: the file system does not lock files (%s); %s", self._folder, error, _ELSEWHERE)
                self._refused = f"the file system does not lock files ({error.strerror}), so its index is not used"
            except OSError as error:  # a read-only collection is searched in memory
                log.debug("%s: the index cannot be locked: %s", self._folder, error)
        return self._lock_file is not None

    def _close_shard_and_unlock(self) -> None:
        """Closes the shard and releases its lock."""
        shard, lock_file = self._shard, self._lock_file
        self._shard = self._lock_file = None
        try:
            if shard:
                shard.save_and_close()
        except BrokenIndex as error:
            log.warning("%s: the index could not be saved and will be rebuilt: %s", self._folder, error)
        finally:
            if lock_file:
                lock_file.close()

    # -- shards on disk; the caller holds the lock

    def _list_usable(self, state: CollectionState) -> list[tuple[Path, Checkpoint]]:
        """The shards on disk that can catch up with a state, without the one that is being built."""
        assert self._folder
        usable = list_usable_shards(self._folder / HOME, state, self._database.dim)
        return [each for each in usable if each[0] != self._building]

    def _open_newest(self) -> ShardIndex:
        """The newest shard if it is sound, else a new one. All others are deleted but the one that is being built.

        BrokenIndex if a new one breaks again and again: once it may, where another process erases something meanwhile.
        """
        for _ in range(OPEN_ATTEMPTS - 1):
            with suppress(BrokenIndex):
                return self._open_newest_once()
        return self._open_newest_once()

    def _open_newest_once(self) -> ShardIndex:
        assert self._folder
        home, state = self._folder / HOME, self._database.read_state()  # under the lock no shard is ahead of it
        make_private_folder(home)
        newest = max(self._list_usable(state), key=lambda each: get_freshness(each[1]), default=None)
        for other in list_own_shards(home):
            if other != self._building and (newest is None or other != newest[0]):
                delete_folder(other)
        if newest and (index := self._open_sound(*newest)):
            return index
        checkpoint = build.make_empty_checkpoint(state, self._database.dim)
        index = ShardIndex(build.make_shard_path(home), self._database, checkpoint, rows=self._rows)
        index.catch_up(state)
        index.save()
        if not self._has_all_chunks(index, state):
            index.close_without_saving()
            raise damaged_error("the table of the vectors and terms")
        return index

    def _open_sound(self, folder: Path, checkpoint: Checkpoint | None) -> ShardIndex | None:
        """A shard of this checkpoint, caught up; None, and it is deleted, if it is not sound."""
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


def is_one_unfinished(home: Path) -> bool:
    """Whether a shard is being built: until it is saved, it is there without a checkpoint or a seal."""
    try:
        unsealed = [folder for folder in list_own_shards(home) if not (folder / SEAL).exists()]
    except OSError:  # of another user, who keeps it to himself
        return False
    return len(unsealed) > 1 or any(read_checkpoint(folder) is None for folder in unsealed)
