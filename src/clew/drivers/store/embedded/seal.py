"""The seal of a shard: the checksums of its files, written when it is saved and broken before it is changed.

A shard whose seal does not match was damaged; one without a seal was being changed when its process was killed. Either
is built again: a damaged one may end the process that opens it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from xxhash import xxh3_64

SEAL = "seal.json"
BLOCK = 1 << 18
_VOLATILE = ("tracker_journal.dat", "edge_config.json", SEAL)  # rewritten whenever a shard is opened


def write_seal(folder: Path) -> None:
    """Seals a shard that is saved; one that is sealed already stays as it is."""
    if not (folder / SEAL).exists():
        new = folder / f"{SEAL}.new"
        new.write_text(json.dumps(dict(_list_sums(folder))), "utf-8")
        new.replace(folder / SEAL)


def break_seal(folder: Path) -> None:
    """Removes the seal of a shard that is about to be changed."""
    (folder / SEAL).unlink(missing_ok=True)


def has_right_seal(folder: Path) -> bool:
    """Whether a shard is sealed and every file of it is as it was then."""
    try:
        sealed = json.loads((folder / SEAL).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(sealed == dict(_list_sums(folder)))


def _list_sums(folder: Path) -> Iterator[tuple[str, str]]:
    buffer = memoryview(bytearray(BLOCK))  # for all files: a new one for each block takes longer
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name not in _VOLATILE and not name.endswith(".new"):
                path = Path(place, name)
                with suppress(FileNotFoundError):
                    yield path.relative_to(folder).as_posix(), _hash_file(path, buffer)


def _hash_file(path: Path, buffer: memoryview) -> str:
    hasher = xxh3_64()
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            hasher.update(buffer[:size])
    return hasher.hexdigest()
