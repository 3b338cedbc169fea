"""Sparse files, as those of a shard: most of each is a hole, which reads as zeros and takes no room on the disk."""

import errno
import os
from collections.abc import Iterator
from io import FileIO

BLOCK = 1 << 16
_ZEROS = bytes(BLOCK)


def read_blocks(file: FileIO, buffer: bytearray) -> Iterator[tuple[int, bytearray]]:
    """The blocks of a file that are not all zeros, each with its place; holes are not read.

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
    """Copies a file with its holes; the target."""
    with FileIO(source) as read, FileIO(target, "w") as written:
        for at, block in read_blocks(read, bytearray(BLOCK)):
            os.pwrite(written.fileno(), block, at)
        written.truncate(os.fstat(read.fileno()).st_size)
    return target


def _fill_buffer(buffer: bytearray, file: FileIO) -> int:
    """Reads on into the buffer until it is full or the file ends; how much was read."""
    size, view = 0, memoryview(buffer)
    while size < len(buffer) and (more := file.readinto(view[size:])):
        size += more
    return size


def _find_data(file: FileIO, at: int, end: int) -> int:
    """Where a file has data from `at` on, not a hole; its end if nowhere."""
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return file.seek(at, os.SEEK_DATA)
    except OSError as error:
        return end if error.errno == errno.ENXIO else at  # a file system may know no holes
