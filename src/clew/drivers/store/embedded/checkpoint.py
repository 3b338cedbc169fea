"""Marks: a small file beside a shard that says what the shard is of and how far it has followed.

It is written after the shard is safe on disk, so what it says is true; a shard without one was never finished.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT = 1
FILE = "mark.json"


@dataclass(frozen=True, slots=True)
class Mark:
    """Which collection a shard is of, and the row and change to which it has followed.

    `average` is the mean length of chunks that its stored weights were made with, `loose` how many rows came or went
    since its graph was built.
    """

    birth: str
    dim: int
    average: float
    row: int = 0
    change: int = 0
    loose: int = 0
    counts: str = ""  # the file with the numbers of chunks that have each word, as of this row and change
    format: int = FORMAT


def read(folder: Path) -> Mark | None:
    """The mark in a folder; None where there is none that can be read and understood."""
    try:
        mark = Mark(**json.loads((folder / FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return mark if mark.format == FORMAT else None


def write(folder: Path, mark: Mark) -> None:
    """Puts a mark in place of the old one, whole or not at all."""
    new = folder / f"{FILE}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(asdict(mark), file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)
