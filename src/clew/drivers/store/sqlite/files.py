"""The files in the folder of a collection, which only their owner may read, and which others may change meanwhile.

A lock on a file holds across processes; the operating system frees it when the holder ends. The files of a shard are
sparse: most of each is a hole, which reads as zeros and takes no room on the disk.
"""

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
BLOCK = 1 << 16
_ZEROS = bytes(BLOCK)
_TAKEN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)  # of a lock


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for their owner alone; existing ones stay as they are."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """Open as an opener for `open`: a file that is created is its owner's alone."""
    return os.open(path, flags, PRIVATE_FILE)


def list_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """List every file in a folder and below, by path, with what the system says of it; without those that disappear."""
    for place, folders, names in os.walk(folder):  # it skips folders that disappear
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            with suppress(OSError):
                yield path, path.stat()


def delete_folder(folder: Path) -> None:
    """Delete a folder as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)


class LockRefused(OSError):
    """The file system does not lock files."""


def try_lock(file: Path) -> BinaryIO | None:
    """Lock a file and return it; the caller closes it to unlock it. None if it is locked already.

    LockRefused where the file system does not lock, as some network folders do not.
    """
    handle = open(file, "ab", opener=open_private)  # noqa: SIM115
    try:
        _lock(handle)
    except OSError as error:
        handle.close()
        if error.errno not in _TAKEN:
            raise LockRefused(error.errno, error.strerror or str(error)) from error
        return None
    return handle


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: BinaryIO) -> None:
        handle.seek(0)
        msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: BinaryIO) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_blocks(file: FileIO, buffer: bytearray) -> Iterator[tuple[int, bytearray]]:
    """Read the blocks of a file that are not all zeros, each with its place; holes are not read.

    A block stands in the buffer, which has the size of one, until the next is asked for.
    """
    at, end = 0, os.fstat(file.fileno()).st_size
    while (found := _find_data(file, at, end)) < end:
        at = found // BLOCK * BLOCK
        file.seek(at)
        size = _fill_buffer(buffer, file)
        block = buffer if size == BLOCK else buffer[:size]
        if block != _ZEROS[:size]:
            yield at, block
        at += BLOCK


def copy_file(source: str, target: str) -> str:
    """Copy a file with its holes; return the target."""
    with FileIO(source) as read, FileIO(target, "w") as written:
        for at, block in read_blocks(read, bytearray(BLOCK)):
            os.pwrite(written.fileno(), block, at)
        written.truncate(os.fstat(read.fileno()).st_size)
    return target


def _fill_buffer(buffer: bytearray, file: FileIO) -> int:
    """Read on into the buffer until it is full or the file ends; return how much was read."""
    size, view = 0, memoryview(buffer)
    while size < len(buffer) and (more := file.readinto(view[size:])):
        size += more
    return size


def _find_data(file: FileIO, at: int, end: int) -> int:
    """Find where a file has data from `at` on, not a hole; its end if nowhere."""
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return file.seek(at, os.SEEK_DATA)
    except OSError as error:
        return end if error.errno == errno.ENXIO else at  # a file system may know no holes
