"""An exclusive lock on a file, across processes; the operating system frees it when the holder ends."""

import sys
from pathlib import Path
from typing import BinaryIO


def try_lock(file: Path) -> BinaryIO | None:
    """The locked file, which the caller closes to unlock it; None if it is locked already."""
    handle = file.open("ab")
    try:
        _lock(handle)
    except OSError:
        handle.close()
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
