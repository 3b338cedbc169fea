"""Builds a shard with its graph, in a process of its own.

qdrant-edge holds the interpreter's lock while it builds a graph, a minute for 100,000 chunks, and a server would not
answer meanwhile. So a child process builds a new shard in a new folder, and the parent uses the old one until then. A
copy of the old one is extended where most of its rows are in the graph and its weights still hold: the others are added
to it. Else the shard is filled from the database.
"""

import json
import logging
import shutil
import subprocess
import sys
import threading
import uuid
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from clew.core.errors import ClewError
from clew.drivers.store.sqlite.checkpoint import Checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.shard import BrokenIndex, ShardIndex

MIN_ROWS = 2_000  # fewer unindexed rows than this are scanned faster than a graph is built
UNINDEXED_SHARE = 5  # a graph is built again when one row in this many is not in it
EXTENDED_SHARE = 2  # … and extended unless more than one row in this many is not
MAX_DRIFT = 1.5  # … or when the average length is this many times the one of the stored weights

log = logging.getLogger(__name__)


def is_rebuild_due(checkpoint: Checkpoint | None, state: CollectionState) -> bool:
    """Whether a new shard would be searched much faster than the one of a checkpoint (None: there is no shard)."""
    if checkpoint is None:
        return state.chunks > MIN_ROWS
    is_scattered = _count_unindexed(checkpoint, state) > max(MIN_ROWS, state.chunks // UNINDEXED_SHARE)
    return state.chunks > MIN_ROWS and (is_scattered or not _has_right_weights(checkpoint, state))


def is_worth_extending(checkpoint: Checkpoint, state: CollectionState) -> bool:
    """Whether to add to the graph of a shard takes less time than to build another."""
    is_mostly_indexed = EXTENDED_SHARE * _count_unindexed(checkpoint, state) <= state.chunks
    return is_mostly_indexed and _has_right_weights(checkpoint, state)


def _count_unindexed(checkpoint: Checkpoint, state: CollectionState) -> int:
    return checkpoint.unindexed + state.last - checkpoint.row


def _has_right_weights(checkpoint: Checkpoint, state: CollectionState) -> bool:
    """Whether the average length is still about that of the stored weights."""
    return 1 / MAX_DRIFT < max(1.0, state.average_length) / checkpoint.average < MAX_DRIFT


def make_shard_path(home: Path) -> Path:
    """The path of a folder for a new shard."""
    return home / f"shard-{uuid.uuid4().hex[:12]}"


class Builder:
    """Builds shards with their graphs in child processes, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.is_stopped = False

    def build(self, collection: Path, target: Path, database: Database, copied: Checkpoint | None = None) -> bool:
        """Builds a shard with its graph; whether it succeeded. A failure is logged.

        `copied` is the checkpoint of the shard that was copied to `target`, if one was.
        """
        given = (
            str(collection),
            str(target),
            database.embedder,
            str(database.dim),
            json.dumps(copied and asdict(copied)),
        )
        try:
            with self._start([sys.executable, "-m", __name__, *given]) as process:
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
        """Ends the build that runs, and those that another thread is about to start."""
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
    """Extends the shard that was copied to `target`, or fills a new one from the database, and builds its graph."""
    database = Database(collection, embedder=embedder, dim=dim)
    try:
        state = database.read_state()
        index = _open_copy(target, database, copied, state) if copied else None
        if index is None:
            index = ShardIndex(target, database, make_empty_checkpoint(state, dim))
            index.catch_up(state)
        index.build_graph()
        index.save_and_close()
    finally:
        database.close()


def _open_copy(target: Path, database: Database, copied: Checkpoint, state: CollectionState) -> ShardIndex | None:
    """The shard that was copied there, as far as the state; None, and nothing is there, if it is not sound."""
    with suppress(BrokenIndex):  # it was changed while it was copied
        index = ShardIndex(target, database, copied, is_copy=True)
        index.catch_up(state)
        if index.has_chunks(state.chunks):
            return index
        index.close_without_saving()
    shutil.rmtree(target, ignore_errors=True)
    return None


def make_empty_checkpoint(state: CollectionState, dim: int) -> Checkpoint:
    """The checkpoint of an empty shard of a collection."""
    return Checkpoint(state.collection_id, dim, max(1.0, state.average_length), change=state.change)


if __name__ == "__main__":
    try:
        folder, target, embedder, dim, mark = sys.argv[1:]
        copied = Checkpoint(**given) if (given := json.loads(mark)) else None
        build_shard(Path(folder), Path(target), embedder=embedder, dim=int(dim), copied=copied)
    except (BrokenIndex, ClewError) as error:
        sys.exit(str(error))
