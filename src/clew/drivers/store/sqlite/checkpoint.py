"""The checkpoint and the seal of a shard.

The checkpoint says which collection a shard indexes and how far it has followed. It is written after the shard is safe
on disk, so it is never ahead of the shard. A shard without a checkpoint was never finished.

The seal has the checksums of the shard's files. It is written when the shard is saved, and deleted before it is
changed. If the seal does not match, the shard is damaged; if it is missing, the process was killed during a change.
Both are rebuilt, since opening a damaged shard may crash the process. The files are sparse: a checksum covers only
nonzero blocks and their positions, so that holes need not be read, and a copy without holes has the same checksum.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from xxhash import xxh3_64

from clew.drivers.store.sqlite.files import BLOCK, read_blocks

FORMAT = 2
FILE = "mark.json"
SEAL = "seal.json"
_VOLATILE = ("tracker_journal.dat", "edge_config.json", SEAL)  # rewritten whenever a shard is opened
_REWRITTEN = ("id_tracker.versions", "mutable_id_tracker.versions")  # … once after points were removed
_BY_BLOCKS = "blocks:"  # prefix of a checksum


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The collection that a shard indexes, and the row and change up to which it has followed.

    `average` is the mean chunk length for its stored weights, `unindexed` the number of rows added or removed since its
    graph was built.
    """

    collection_id: str
    dim: int
    average: float
    row: int = 0
    change: int = 0
    unindexed: int = 0
    counts: str = ""  # the file with the document frequencies as of this row and change
    format: int = FORMAT


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the checkpoint in a folder; None if there is none with this format."""
    try:
        checkpoint = Checkpoint(**json.loads((folder / FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return checkpoint if checkpoint.format == FORMAT else None


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint in a folder, atomically."""
    new = folder / f"{FILE}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(asdict(checkpoint), file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)


class Seal:
    """The seal of an open shard; `breaks` counts the calls of `break_`."""

    def __init__(self, folder: Path) -> None:
        self.breaks = 0
        self._folder, self._file = folder, folder / SEAL

    def break_(self) -> None:
        """Remove the seal of a shard that is about to be changed."""
        self.breaks += 1
        self._file.unlink(missing_ok=True)

    def write(self, lock: AbstractContextManager[object], breaks: int) -> None:
        """Seal a saved shard, unless it is sealed or was changed since the save.

        lock: Not held while the files are read, which takes seconds for large ones.
        breaks: The value of `self.breaks` at the time of the save.
        """
        if self._file.exists():
            return
        made = dict(_list_sums(self._folder))
        with lock:
            if breaks == self.breaks:
                self._save(made)

    def renew(self) -> None:
        """Update a valid seal after the shard was opened, since opening may rewrite a file."""
        sealed = json.loads(self._file.read_text("utf-8"))
        now = {name: value for name, value in _list_sums(self._folder, only=_REWRITTEN) if name in sealed}
        if sealed != sealed | now:
            self._save(sealed | now)

    def _save(self, made: dict[str, str]) -> None:
        new = self._folder / f"{SEAL}.new"
        new.write_text(json.dumps(made), "utf-8")
        new.replace(self._file)


def has_right_seal(folder: Path, *, only: str | None = None) -> bool:
    """Return whether a shard is sealed and its files, or the one named `only`, match the seal."""
    try:
        sealed = json.loads((folder / SEAL).read_text("utf-8"))
        wanted = {only: sealed[only]} if only else sealed
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return bool(wanted == dict(_list_sums(folder, only=(only,) if only else ())))


def _list_sums(folder: Path, *, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the path and checksum of each file, or of those with one of these names."""
    buffer = bytearray(BLOCK)  # reused for all files, which is faster
    for place, folders, names in os.walk(folder):
        folders.sort()
        inside = place[len(str(folder)) :].replace(os.sep, "/")
        for name in sorted(names):
            if name not in _VOLATILE and not name.endswith(".new") and (not only or name in only):
                with suppress(FileNotFoundError), FileIO(f"{place}{os.sep}{name}") as file:
                    yield f"{inside}/{name}".removeprefix("/"), _hash_blocks(file, buffer)


def _hash_blocks(file: FileIO, buffer: bytearray) -> str:
    """Hash the nonzero blocks of a file, with their positions, and its size."""
    hasher = xxh3_64()
    for at, block in read_blocks(file, buffer):
        hasher.update(at.to_bytes(8, "little"))
        hasher.update(block)
    hasher.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
    return _BY_BLOCKS + hasher.hexdigest()
