"""The shards of a collection on disk: their lock, the choice of a usable one, and builds.

qdrant-edge holds the GIL while it builds a graph, a minute for 100,000 chunks, and a server could not answer meanwhile.
So a child process builds a new shard in a new folder, and the parent uses the old one until then. If most rows are in
the old graph and its weights are still valid, the child extends a copy of it. Else it fills a shard from the database.
"""

import json
import logging
import subprocess
import sys
import threading
import uuid
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from clew.core.errors import ClewError
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.sqlite.checkpoint import SEAL, Checkpoint, has_right_seal, read_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import LockRefused, delete_folder, make_private_folder, try_lock
from clew.drivers.store.sqlite.folder import HOME, LOCK, list_own_shards
from clew.drivers.store.sqlite.shard import BrokenIndex, ShardIndex
from clew.drivers.store.sqlite.signals import RowCache, WordCounts, load_word_counts

OPEN_ATTEMPTS = 3  # for a shard that others change meanwhile
CHECK_ATTEMPTS = 3  # comparisons of a newly opened shard with a database that others change meanwhile
ELSEWHERE = "keep the collection on a local disk, or in PostgreSQL"
MIN_ROWS = 2_000  # scanning fewer unindexed rows than this is faster than building a graph
UNINDEXED_SHARE = 5  # rebuild a graph when more than one row in this many is missing
EXTENDED_SHARE = 2  # … by extending it, unless more than one row in this many is missing
MAX_DRIFT = 1.5  # … or the average length differs by this factor from that of the stored weights

log = logging.getLogger(__name__)


class ShardHome:
    """The folder of the shards, and its lock: two processes with one shard open would lose each other's writes.

    building: The folder of a shard that is being built.
    refused: The reason if the file system does not support locks.
    """

    def __init__(self, database: Database, folder: Path, rows: RowCache) -> None:
        self.path = folder / HOME
        self.building: Path | None = None
        self.refused = ""
        self._database, self._rows = database, rows
        self._lock_file: BinaryIO | None = None

    def lock(self) -> bool:
        """Take the lock if it is free; return whether this process holds it."""
        if self._lock_file is None:
            folder = self.path.parent
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
        """List the shards of this collection that can catch up with a state, except one that is being built."""
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
        """Find the best usable shard, if any: the one with fewest unindexed rows, then the newest."""
        usable = self.list_usable(state)
        return max(usable, key=lambda each: (-each[1].unindexed, each[1].change), default=(None, None))

    def find_word_counts(self, state: CollectionState) -> WordCounts | None:
        """Load the word counts saved with a shard at this state; None if there are none.

        Needs no lock: another process may have the index open.
        """
        with suppress(OSError, ValueError):
            for folder, saved in self.list_usable(state):
                is_of_state = (saved.change, saved.row) == (state.change, state.last)
                if is_of_state and has_right_seal(folder, only=saved.counts):
                    return load_word_counts(folder / saved.counts)
        return None

    def is_built_elsewhere(self) -> bool:
        """Return whether another process is building a shard, which has no checkpoint and no seal until it is saved."""
        if self._lock_file:
            return False
        try:
            unsealed = [folder for folder in self.list_shards() if not (folder / SEAL).exists()]
        except OSError:  # another user's private folder
            return False
        return len(unsealed) > 1 or any(read_checkpoint(folder) is None for folder in unsealed)

    # -- opening; the caller holds the lock

    def open_newest(self) -> ShardIndex:
        """Open the newest shard if it is sound, else create one. Delete all others except one being built.

        BrokenIndex if a new shard breaks repeatedly; a single failure may come from an erasure by another process.
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
        checkpoint = make_empty_checkpoint(state, self._database.dim)
        index = ShardIndex(make_shard_path(self.path), self._database, checkpoint, rows=self._rows)
        index.catch_up(state)
        index.save()
        if not self._has_all_chunks(index, state):
            index.close_without_saving()
            raise damaged_error("the table of the vectors and terms")
        return index

    def open_sound(self, folder: Path, checkpoint: Checkpoint | None) -> ShardIndex | None:
        """Open a shard with this checkpoint and catch up; if it is not sound, delete it and return None."""
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
        """Return whether a shard has as many chunks as the database, once it has caught up."""
        for _ in range(CHECK_ATTEMPTS):
            index.catch_up(state)
            has_all, now = index.has_chunks(state.chunks), self._database.read_state()
            if now.change == state.change:
                return has_all
            state = now
        return True  # the database kept changing: assume that the shard is sound


def is_rebuild_due(checkpoint: Checkpoint | None, state: CollectionState) -> bool:
    """Return whether a new shard would be much faster than the one with this checkpoint (None: no shard)."""
    if checkpoint is None:
        return state.chunks > MIN_ROWS
    is_scattered = _count_unindexed(checkpoint, state) > max(MIN_ROWS, state.chunks // UNINDEXED_SHARE)
    return state.chunks > MIN_ROWS and (is_scattered or not _has_right_weights(checkpoint, state))


def is_worth_extending(checkpoint: Checkpoint, state: CollectionState) -> bool:
    """Return whether extending the graph of a shard is faster than building a new one."""
    is_mostly_indexed = EXTENDED_SHARE * _count_unindexed(checkpoint, state) <= state.chunks
    return is_mostly_indexed and _has_right_weights(checkpoint, state)


def _count_unindexed(checkpoint: Checkpoint, state: CollectionState) -> int:
    return checkpoint.unindexed + state.last - checkpoint.row


def _has_right_weights(checkpoint: Checkpoint, state: CollectionState) -> bool:
    """Return whether the average length is still close to that of the stored weights."""
    return 1 / MAX_DRIFT < max(1.0, state.average_length) / checkpoint.average < MAX_DRIFT


def make_shard_path(home: Path) -> Path:
    """Make the path of a folder for a new shard."""
    return home / f"shard-{uuid.uuid4().hex[:12]}"


def make_empty_checkpoint(state: CollectionState, dim: int) -> Checkpoint:
    """Make the checkpoint of an empty shard of a collection."""
    return Checkpoint(state.collection_id, dim, max(1.0, state.average_length), change=state.change)


class Builder:
    """A runner of child processes that build shards with their graphs, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.is_stopped = False

    def build(self, collection: Path, target: Path, database: Database, copied: Checkpoint | None = None) -> bool:
        """Build a shard with its graph; return whether it succeeded, and log a failure.

        copied: The checkpoint of a shard that was copied to `target`, if any.
        """
        given = (str(collection), str(target), database.embedder, database.dim, copied and asdict(copied))
        try:
            with self._start([sys.executable, "-m", __name__, json.dumps(given)]) as process:
                try:
                    _, reason = process.communicate()
                except BaseException:
                    process.kill()
                    raise
        except OSError as error:
            reason = str(error)
        else:
            if process.returncode == 0:
                return True
            reason = reason.strip()[-500:] or f"its process ended with {process.returncode}"
        if not self.is_stopped:
            log.warning("%s: no graph was built, searches go on without it: %s", collection, reason)
        return False

    def stop(self) -> None:
        """Kill the running build, and prevent further ones."""
        with self._lock:
            self.is_stopped = True
            if self._process:
                self._process.kill()

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        with self._lock:
            if self.is_stopped:
                raise OSError("the collection is being closed")
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            return self._process


def build_shard(collection: Path, target: Path, *, embedder: str, dim: int, copied: Checkpoint | None) -> None:
    """Extend a shard that was copied to `target`, or fill a new one from the database, and build its graph."""
    with closing(Database(collection, embedder=embedder, dim=dim)) as database:
        state = database.read_state()
        index = _open_copy(target, database, copied, state) if copied else None
        if index is None:
            index = ShardIndex(target, database, make_empty_checkpoint(state, dim))
            index.catch_up(state)
        index.build_graph()
        index.save_and_close()


def _open_copy(target: Path, database: Database, copied: Checkpoint, state: CollectionState) -> ShardIndex | None:
    """Open the shard that was copied to `target` and catch up; if it is not sound, delete it and return None."""
    with suppress(BrokenIndex):  # changed during the copy
        index = ShardIndex(target, database, copied, is_copy=True)
        index.catch_up(state)
        if index.has_chunks(state.chunks):
            return index
        index.close_without_saving()
    delete_folder(target)
    return None


if __name__ == "__main__":
    try:
        folder, target, embedder, dim, mark = json.loads(sys.argv[1])
        copied = Checkpoint(**mark) if mark else None
        build_shard(Path(folder), Path(target), embedder=embedder, dim=dim, copied=copied)
    except (BrokenIndex, ClewError) as error:
        sys.exit(str(error))
