"""The settings that were tuned for a collection, kept with it and with what spoke for them, the last one in use."""

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
    """Settings by dotted name, all that were tuned until then, and the measurement for which they were kept.

    They hold for the embedder that they were measured with. `difference` is that on the held-out questions.
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
    """Raise ConcurrentChange if another process or thread is in this block for the same folder.

    A store that is no folder, or whose file system does not lock, has no such lock.
    """
    handle, is_taken = None, False
    if folder is not None and folder.is_dir():
        with suppress(OSError):  # no locks, or no right to write
            handle = try_lock(folder / LOCK)
            is_taken = handle is None
    if is_taken:
        raise ConcurrentChange("another tuning of this collection is running; wait until it is done, or stop it")
    with handle or nullcontext():
        yield


def read_tuned_settings(records: RecordStore | None) -> list[TunedSettings]:
    """Return what was kept for the collection, the oldest first; nothing in memory."""
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
    """Parse the settings of a JSON object; TypeError for one of another shape."""
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
    """Replace what is kept, whole or not at all."""
    kept = {"format": FORMAT, "tuned": [asdict(each) for each in tuned]}
    records.write("tuned", json.dumps(kept, indent=1) + "\n" if tuned else "")
