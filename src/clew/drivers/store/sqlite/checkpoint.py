"""Checkpoints: a small file beside a shard that says which collection it indexes and how far it has followed.

It is written after the shard is safe on disk, so it is never ahead of it; a shard without one was never finished.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from clew.drivers.store.sqlite.database import CollectionState
from clew.drivers.store.sqlite.folder import list_own_shards

FORMAT = 1
FILE = "mark.json"
_KEYS = {"collection_id": "birth", "unindexed": "loose"}  # fields whose key in the file differs
_FIELDS = {key: field for field, key in _KEYS.items()}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Which collection a shard indexes, and the row and change to which it has followed.

    `average` is the mean chunk length with which its stored weights were computed, `unindexed` the number of rows
    added or removed since its graph was built.
    """

    collection_id: str
    dim: int
    average: float
    row: int = 0
    change: int = 0
    unindexed: int = 0
    counts: str = ""  # the file with the document frequencies as of this row and change
    format: int = FORMAT


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint in a folder; None if there is none of this format."""
    try:
        stored = json.loads((folder / FILE).read_text("utf-8"))
        checkpoint = Checkpoint(**{_FIELDS.get(key, key): value for key, value in stored.items()})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return checkpoint if checkpoint.format == FORMAT else None


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Replaces the checkpoint in a folder, atomically."""
    new = folder / f"{FILE}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump({_KEYS.get(field, field): value for field, value in asdict(checkpoint).items()}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)


def list_usable_shards(home: Path, state: CollectionState, dim: int) -> list[tuple[Path, Checkpoint]]:
    """The shards on disk that are of this collection and can catch up with it from their checkpoint."""
    read = [(folder, read_checkpoint(folder)) for folder in list_own_shards(home)]
    return [
        (folder, checkpoint)
        for folder, checkpoint in read
        if checkpoint
        and (checkpoint.collection_id, checkpoint.dim) == (state.collection_id, dim)
        and state.pruned <= checkpoint.change <= state.change
        and checkpoint.row <= state.last
    ]


def get_freshness(checkpoint: Checkpoint) -> tuple[int, int]:
    """By which the best of several is found: most rows in its graph, then the latest."""
    return -checkpoint.unindexed, checkpoint.change
