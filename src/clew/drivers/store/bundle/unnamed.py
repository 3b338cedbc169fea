"""A file that gets its name when it is complete; until then what is there stays, and no link is followed."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PRIVATE = 0o600


@contextmanager
def create_unnamed(path: Path) -> Iterator[IO[bytes]]:
    """A new file for its owner alone, which replaces the one at `path` after the block, or is gone if that raises.

    Where the file system knows files without a name, a killed process leaves nothing; elsewhere it has a random name.
    """
    handle = _open_nameless(path.parent)
    if handle is None:
        yield from _create_named(path)
        return
    with os.fdopen(handle, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
        _give_name(file.fileno(), path)


def _open_nameless(folder: Path) -> int | None:
    """A file that has no name in a folder; None where there are no such files."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, PRIVATE)
    except OSError:
        return None  # the file system has none, or the folder cannot be written: creating a named one says which


def _give_name(handle: int, path: Path) -> None:
    """Links an open file to a path, in place of what is there."""
    source = f"/proc/self/fd/{handle}"
    with suppress(FileExistsError):
        _link(handle, source, path)
        return
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    _link(handle, source, fresh)
    try:
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _link(handle: int, source: str, path: Path) -> None:
    # Python follows the link in /proc only where it is given a folder too, which an absolute path makes no use of.
    os.link(source, path, src_dir_fd=handle, follow_symlinks=True)


def _create_named(path: Path) -> Iterator[IO[bytes]]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
