"""Opens the shards of a collection: the newest that is sound, or a new one that is filled from the database."""

import logging
from contextlib import suppress
from pathlib import Path

from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.sqlite import build
from clew.drivers.store.sqlite.checkpoint import Checkpoint, get_freshness, list_usable_shards, read_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import delete_folder, make_private_folder
from clew.drivers.store.sqlite.folder import list_own_shards
from clew.drivers.store.sqlite.frequencies import DocumentFrequencies, load_document_frequencies
from clew.drivers.store.sqlite.index import BrokenIndex
from clew.drivers.store.sqlite.row_cache import RowCache
from clew.drivers.store.sqlite.seal import SEAL, has_right_seal
from clew.drivers.store.sqlite.shard import ShardIndex

OPEN_ATTEMPTS = 3  # of a shard that others change meanwhile
CHECK_ATTEMPTS = 3  # comparisons of a newly opened shard with a database that others change meanwhile

log = logging.getLogger(__name__)


class Shards:
    """Opens shards. The caller holds the lock of the index on disk."""

    def __init__(self, database: Database, rows: RowCache) -> None:
        self._database, self._rows = database, rows

    def list_usable(self, home: Path, state: CollectionState, building: Path | None) -> list[tuple[Path, Checkpoint]]:
        """The shards on disk that can catch up with a state, without the one that is being built."""
        return [each for each in list_usable_shards(home, state, self._database.dim) if each[0] != building]

    def open_newest(self, home: Path, building: Path | None) -> ShardIndex:
        """The newest shard if it is sound, else a new one. All others are deleted but the one that is being built.

        BrokenIndex if a new one breaks again and again: once it may, where another process erases something meanwhile.
        """
        for _ in range(OPEN_ATTEMPTS - 1):
            with suppress(BrokenIndex):
                return self._open_newest(home, building)
        return self._open_newest(home, building)

    def _open_newest(self, home: Path, building: Path | None) -> ShardIndex:
        state = self._database.read_state()  # under the lock no shard is ahead of it
        make_private_folder(home)
        usable = self.list_usable(home, state, building)
        newest = max(usable, key=lambda each: get_freshness(each[1]), default=None)
        for other in list_own_shards(home):
            if other != building and (newest is None or other != newest[0]):
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

    def find_counts(self, home: Path, state: CollectionState) -> DocumentFrequencies | None:
        """How many chunks have each word, as it was saved with a shard of this state; None if there is none."""
        with suppress(OSError, ValueError):
            for folder, saved in list_usable_shards(home, state, self._database.dim):
                is_of_state = (saved.change, saved.row) == (state.change, state.last)
                if is_of_state and has_right_seal(folder, only=saved.counts):
                    return load_document_frequencies(folder / saved.counts)
        return None

    def open_built(self, folder: Path) -> ShardIndex | None:
        """A shard that was built just now, caught up; None, and it is deleted, if it is not sound."""
        checkpoint = read_checkpoint(folder)
        return self._open_sound(folder, checkpoint) if checkpoint else None

    def _open_sound(self, folder: Path, checkpoint: Checkpoint) -> ShardIndex | None:
        """A shard of this checkpoint, caught up; None, and it is deleted, if it is not sound."""
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
