"""The tuned settings of a collection, stored with it and their measurements; the last ones are in use."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clew.core.errors import ConcurrentChange, DriverFailed
from clew.core.protocols import RecordStore
from clew.drivers.store.sqlite.files import try_lock

FORMAT = 1
LOCK = "tuned.lock"


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """All settings tuned so far, by dotted name, and the measurement that led to the last change.

    They apply only to the embedder of the measurement. `difference` is the gain on the held-out questions.
    """

    settings: Mapping[str, Any]
    embedder: str
    at: str  # ISO 8601
    measure: str = ""
    difference: float = 0.0
    p: float = 1.0
    questions: int = 0


@contextmanager
def hold_tuning(folder: Path | None) -> Iterator[None]:
    """Hold the lock for tuning in a folder; ConcurrentChange if another process or thread holds it.

    Stores outside a folder, and file systems without locks, are not locked.
    """
    handle, is_taken = None, False
    if folder is not None and folder.is_dir():
        with suppress(OSError):  # no locks, or read-only
            handle = try_lock(folder / LOCK)
            is_taken = handle is None
    if is_taken:
        raise ConcurrentChange("another tuning of this collection is running; wait until it is done, or stop it")
    with handle or nullcontext():
        yield


def read_tuned_settings(records: RecordStore | None) -> list[TunedSettings]:
    """Return the tuned settings of the collection, the oldest first; empty without a RecordStore."""
    text = records.read("tuned") if records else ""
    if records is None or not text:
        return []
    try:
        kept = json.loads(text)
        if kept["format"] != FORMAT:
            raise ValueError("another format")
        return [_parse_tuned(each) for each in kept["tuned"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        place = records.describe("tuned")
        raise DriverFailed(f"{place} cannot be read ({error}); delete it to go on without tuned settings") from error


def _parse_tuned(value: Mapping[str, Any]) -> TunedSettings:
    """Parse tuned settings from a JSON object; TypeError for a wrong shape."""
    tuned = TunedSettings(**value)
    texts, numbers = (tuned.embedder, tuned.at, tuned.measure), (tuned.difference, tuned.p, tuned.questions)
    if not (
        isinstance(tuned.settings, dict)
        and all(isinstance(each, str) for each in texts)
        and all(isinstance(each, (int, float)) for each in numbers)
    ):
        raise TypeError("a value of the wrong type")
    return tuned


def write_tuned_settings(records: RecordStore, tuned: Sequence[TunedSettings]) -> None:
    """Replace the tuned settings of the collection, atomically."""
    kept = {"format": FORMAT, "tuned": [asdict(each) for each in tuned]}
    records.write("tuned", json.dumps(kept, indent=1) + "\n" if tuned else "")
