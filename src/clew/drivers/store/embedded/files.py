"""The files in the folder of a collection, where other processes remove and write some meanwhile."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def list_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file in a folder and below, by path, with what the system says of it; without those that disappear."""
    for place, folders, names in os.walk(folder):  # it skips folders that disappear
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            with suppress(OSError):
                yield path, path.stat()
