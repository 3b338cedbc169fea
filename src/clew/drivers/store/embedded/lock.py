"""A lock on a file that one holder at a time has, in any process; the system frees it when the holder ends."""

import sys
from pathlib import Path
from typing import BinaryIO


def take(file: Path) -> BinaryIO | None:
    """The held file, to be closed when done; None where somebody else holds it."""
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
