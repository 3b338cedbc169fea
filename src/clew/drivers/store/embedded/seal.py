"""The seal of a shard: the checksums of its files, written when it is saved and broken before it is changed.

A shard whose seal does not match was damaged; one without a seal was being changed when its process was killed. Either
is built again: a damaged one may end the process that opens it.

Most of a shard's files are holes, which read as zeros. A checksum is of the blocks that hold something and of their
places, so that holes need not be read, and a copy without holes has the same one.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from io import FileIO
from pathlib import Path

from xxhash import xxh3_64

from clew.drivers.store.embedded.sparse import BLOCK, fill_buffer, read_blocks

SEAL = "seal.json"
_VOLATILE = ("tracker_journal.dat", "edge_config.json", SEAL)  # rewritten whenever a shard is opened
_BY_BLOCKS = "blocks:"  # before a checksum; those of earlier versions are of whole files
HashFile = Callable[[FileIO, bytearray], str]


class Seal:
    """The seal of an open shard; `breaks` counts how often it was broken."""

    def __init__(self, folder: Path) -> None:
        self.breaks = 0
        self._folder, self._file = folder, folder / SEAL

    def break_(self) -> None:
        """Removes the seal of a shard that is about to be changed."""
        self.breaks += 1
        self._file.unlink(missing_ok=True)

    def write(self, lock: AbstractContextManager[object], breaks: int) -> None:
        """Seals a shard that was saved when its seal had been broken so often; one that is sealed stays as it is.

        The lock is not held while the files are read, which takes seconds where they are large. A shard that was
        changed since is not sealed.
        """
        if self._file.exists():
            return
        made = json.dumps(dict(_list_sums(self._folder, _hash_blocks)))
        with lock:
            if breaks == self.breaks:
                new = self._folder / f"{SEAL}.new"
                new.write_text(made, "utf-8")
                new.replace(self._file)


def has_right_seal(folder: Path) -> bool:
    """Whether a shard is sealed and every file of it is as it was then."""
    try:
        sealed = json.loads((folder / SEAL).read_text("utf-8"))
        is_earlier = not all(str(each).startswith(_BY_BLOCKS) for each in sealed.values())
    except (OSError, ValueError, AttributeError):
        return False
    return bool(sealed == dict(_list_sums(folder, _hash_whole if is_earlier else _hash_blocks)))


def _list_sums(folder: Path, hash_file: HashFile) -> Iterator[tuple[str, str]]:
    buffer = bytearray(BLOCK)  # for all files: a new one for each block takes longer
    for place, folders, names in os.walk(folder):
        folders.sort()
        inside = place[len(str(folder)) :].replace(os.sep, "/")
        for name in sorted(names):
            if name not in _VOLATILE and not name.endswith(".new"):
                with suppress(FileNotFoundError), FileIO(f"{place}{os.sep}{name}") as file:
                    yield f"{inside}/{name}".removeprefix("/"), hash_file(file, buffer)


def _hash_blocks(file: FileIO, buffer: bytearray) -> str:
    """The checksum of the blocks of a file that are not all zeros, with their places, and of its size."""
    hasher = xxh3_64()
    for at, block in read_blocks(file, buffer):
        hasher.update(at.to_bytes(8, "little"))
        hasher.update(block)
    hasher.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
    return _BY_BLOCKS + hasher.hexdigest()


def _hash_whole(file: FileIO, buffer: bytearray) -> str:
    hasher = xxh3_64()
    while size := fill_buffer(buffer, file):
        hasher.update(memoryview(buffer)[:size])
    return hasher.hexdigest()
