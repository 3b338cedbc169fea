"""Which index serves: the exact one while a collection is small, the shard when it is large and ours to use."""

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from clew.core.errors import DriverFailed
from clew.core.settings import StoreConfig
from clew.drivers.store.embedded import build, lock
from clew.drivers.store.embedded import checkpoint as marks
from clew.drivers.store.embedded.checkpoint import Mark
from clew.drivers.store.embedded.exact import ExactIndex, Found
from clew.drivers.store.embedded.shard import BrokenIndex, ShardIndex
from clew.drivers.store.embedded.signals import State
from clew.drivers.store.embedded.truth import Truth

HOME, LOCK = "index", "index.lock"  # the lock stands outside, so that the index can be removed while it is held
STEADY = 3  # times that a shard which was just opened is compared with a truth that others change meanwhile

Index = ExactIndex | ShardIndex
log = logging.getLogger(__name__)


class Keeper:
    """Holds the index that serves a collection, and puts another in its place when it grows, shrinks or breaks.

    Two openers of one live shard lose each other's writes. So a shard is only touched under a lock on a file, and who
    does not get it searches in memory.
    """

    def __init__(self, truth: Truth, folder: Path | None, config: StoreConfig) -> None:
        self._truth = truth
        self._folder = folder
        self._config = config
        self._lock = threading.RLock()
        self._flushing = threading.Lock()
        self._held: BinaryIO | None = None
        self._exact: ExactIndex | None = None
        self._shard: ShardIndex | None = None
        self._building: Path | None = None  # the folder of a shard that is not finished

    def search(self, state: State, ask: Callable[[Index], Found]) -> Found:
        """What an index finds that has followed the truth at least to a state. One that breaks is made again, once."""
        index = self._ready(state)
        try:
            return ask(index)
        except BrokenIndex as error:
            with self._lock:
                if index is self._shard:
                    self._discard(error)
        try:
            return ask(self._ready(state))
        except BrokenIndex as error:
            raise DriverFailed(
                f"{self._folder}: the index failed twice ({error}); try again, check the disk"
            ) from error

    def serving(self, state: State) -> str:
        """The name of the index that serves now."""
        with self._lock:
            large = self._large(state) and (self._shard is not None or self._hold())
            return ShardIndex.name if large else ExactIndex.name

    def flush(self, state: State) -> None:
        """Returns when the index is safe on disk, with a graph if one is due. Searches go on meanwhile."""
        with self._flushing:
            with self._lock:
                if not self._folder or not self._large(state) or not self._hold():
                    return
                home, current = self._folder / HOME, self._shard.mark if self._shard else None
                self._building = build.fresh(home)
            known = [mark for _, mark in _usable(home, state, self._truth.dim)]
            due = build.due(current or max(known, key=_freshness, default=None), state)
            made = due and build.built(self._folder, self._building, self._truth)
            with self._lock:
                self._building = None
                if made and self._shard:
                    self._shard.abandon()
                    self._shard = None
                try:
                    self._ready(self._truth.state())
                    if self._shard:
                        self._shard.save()
                except BrokenIndex as error:
                    self._discard(error)

    def close(self) -> None:
        """Lets go of the index."""
        with self._lock:
            self._release()
            self._exact = None

    def _ready(self, state: State) -> Index:
        """An index that has followed the truth at least to a state."""
        with self._lock:
            if not self._folder or not self._large(state):
                self._release()
            elif self._hold():
                return self._followed(state)
            elif state.chunks > self._config.exact_limit:
                raise DriverFailed(
                    f"{self._folder}: another process has the index of these {state.chunks} chunks open, and they are "
                    f"too many to search in memory (store.exact_limit is {self._config.exact_limit}); ask that "
                    "process, serve the collection with `clew serve`, or keep it in PostgreSQL"
                )
            self._exact = self._exact or ExactIndex(self._truth)
            self._exact.follow(state)
            return self._exact

    def _followed(self, state: State) -> ShardIndex:
        self._exact = None
        if self._shard:
            try:
                self._shard.follow(state)
                return self._shard
            except BrokenIndex as error:
                self._discard(error)
        try:
            self._shard = self._opened()
        except (BrokenIndex, OSError) as error:
            raise DriverFailed(f"{self._folder}: the index cannot be made ({error}); is the disk full?") from error
        return self._shard

    def _opened(self) -> ShardIndex:
        """The shard on disk if it is sound, or else a new one that is filled from the truth."""
        assert self._folder
        home, state = self._folder / HOME, self._truth.state()  # which no shard is ahead of, now that the lock is ours
        home.mkdir(exist_ok=True)
        usable = _usable(home, state, self._truth.dim)
        kept = max(usable, key=lambda each: _freshness(each[1]), default=None)
        for other in home.iterdir():
            if other != self._building and (kept is None or other != kept[0]):
                _remove(other)
        if kept:
            try:
                index = ShardIndex(kept[0], self._truth, kept[1])
                if self._sound(index, state):
                    return index
                index.close()
                log.warning("%s: the index does not hold what the collection does; it is made again", home)
            except BrokenIndex as error:
                log.warning("%s: the index cannot be read and is made again: %s", home, error)
            _remove(kept[0])
        average = max(1.0, state.average)
        new = Mark(state.birth, self._truth.dim, average, change=state.change)
        index = ShardIndex(build.fresh(home), self._truth, new)
        index.follow(state)
        index.save()
        return index

    def _sound(self, index: ShardIndex, state: State) -> bool:
        """Whether a shard has as many chunks as the truth, once it has followed."""
        for _ in range(STEADY):
            index.follow(state)
            many, now = index.count(), self._truth.state()
            if now.change == state.change:
                return many == state.chunks
            state = now
        return True  # the truth never stood still; nothing speaks against the shard

    def _large(self, state: State) -> bool:
        """Whether a collection is for the shard; one that shrinks stays there a while, so as not to go to and fro."""
        return state.chunks > (self._config.exact_below // 2 if self._shard else self._config.exact_below)

    def _hold(self) -> bool:
        """Whether the index on disk is ours; if nobody has it, it is now."""
        if self._held is None and self._folder:
            try:
                self._held = lock.take(self._folder / LOCK)
            except OSError as error:  # a collection that can only be read is searched in memory
                log.debug("%s: the index cannot be held: %s", self._folder, error)
        return self._held is not None

    def _discard(self, error: Exception) -> None:
        """Throws the shard away; the next search makes it again."""
        with self._lock:
            shard, self._shard = self._shard, None
            if shard:
                log.warning("%s: the index broke and is made again: %s", shard.folder, error)
                shard.abandon()
                _remove(shard.folder)

    def _release(self) -> None:
        """Closes the shard and gives up its lock."""
        shard, held = self._shard, self._held
        self._shard = self._held = None
        try:
            if shard:
                shard.close()
        except BrokenIndex as error:
            log.warning("%s: the index could not be saved and will be made again: %s", self._folder, error)
        finally:
            if held:
                held.close()


def _usable(home: Path, state: State, dim: int) -> list[tuple[Path, Mark]]:
    """The shards on disk that are of this collection and can follow it from where they stand."""
    read = [(folder, marks.read(folder)) for folder in home.iterdir()] if home.is_dir() else []
    return [
        (folder, mark)
        for folder, mark in read
        if mark
        and (mark.birth, mark.dim) == (state.birth, dim)
        and state.pruned <= mark.change <= state.change
        and mark.row <= state.last
    ]


def _freshness(mark: Mark) -> tuple[int, int]:
    return -mark.loose, mark.change


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
