"""An exclusive lock on a file, across processes; the operating system frees it when the holder ends."""

import errno
import sys
from pathlib import Path
from typing import BinaryIO

from clew.drivers.store.sqlite.files import open_private


class LockRefused(OSError):
    """The file system does not lock files."""


_TAKEN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


def try_lock(file: Path) -> BinaryIO | None:
    """The locked file, which the caller closes to unlock it; None if it is locked already.

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
