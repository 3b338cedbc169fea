"""Files in the folder of a collection: private permissions, locks, and sparse files.

A file lock works across processes; the operating system frees it when the holder ends. The files of a shard are sparse:
they are mostly holes, which read as zeros and take no space on disk.
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
    """Create a folder and missing parents, accessible only to the owner; existing ones stay as they are."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """Open a file, creating it readable only by its owner; an `opener` for `open`."""
    return os.open(path, flags, PRIVATE_FILE)


def list_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every file in a folder and below, by path, with its `stat`; skip files that disappear."""
    for place, folders, names in os.walk(folder):  # it skips folders that disappear
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            with suppress(OSError):
                yield path, path.stat()


def delete_folder(folder: Path) -> None:
    """Delete a folder, ignoring errors."""
    shutil.rmtree(folder, ignore_errors=True)


class LockRefused(OSError):
    """The file system does not lock files."""


def try_lock(file: Path) -> BinaryIO | None:
    """Lock a file and return its handle, which the caller closes to unlock it; None if it is already locked.

    LockRefused if the file system does not support locks, like some network folders.
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
    """Yield the nonzero blocks of a file with their positions, skipping holes.

    buffer: Of the size of a block; each block is valid until the next one is read.
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
    """Read until the buffer is full or the file ends; return the number of bytes."""
    size, view = 0, memoryview(buffer)
    while size < len(buffer) and (more := file.readinto(view[size:])):
        size += more
    return size


def _find_data(file: FileIO, at: int, end: int) -> int:
    """Find the next data, not a hole, in a file from `at` on; return `end` if there is none."""
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return file.seek(at, os.SEEK_DATA)
    except OSError as error:
        return end if error.errno == errno.ENXIO else at  # a file system may not support holes
