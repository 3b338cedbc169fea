"""The files in the folder of a collection, which only their owner may read, and which others may change meanwhile."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def make_private_folder(folder: Path) -> None:
    """Creates a folder, and those above it that are missing, for their owner alone; existing ones stay as they are."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """An opener for `open`: a file that is created is its owner's alone."""
    return os.open(path, flags, PRIVATE_FILE)


def list_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file in a folder and below, by path, with what the system says of it; without those that disappear."""
    for place, folders, names in os.walk(folder):  # it skips folders that disappear
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            with suppress(OSError):
                yield path, path.stat()


def delete_folder(folder: Path) -> None:
    """Deletes a folder as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)
