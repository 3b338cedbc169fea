"""The settings that were tuned for a collection, kept in its folder with what spoke for them, the last one in use."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clew.core.errors import DriverFailed

FILE = "tuned.json"
FORMAT = 1


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


def read_tuned_settings(folder: Path | None) -> list[TunedSettings]:
    """What was kept for the collection in a folder, the oldest first; nothing in memory and on a server."""
    file = folder / FILE if folder else None
    if file is None or not file.is_file():
        return []
    try:
        kept = json.loads(file.read_text("utf-8"))
        if kept["format"] != FORMAT:
            raise ValueError("another format")
        return [TunedSettings(**each) for each in kept["tuned"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DriverFailed(f"{file} cannot be read ({error}); delete it to go on without tuned settings") from error


def write_tuned_settings(folder: Path, tuned: Sequence[TunedSettings]) -> None:
    """Replaces what is kept, whole or not at all; without any the file is removed."""
    file = folder / FILE
    try:
        if not tuned:
            file.unlink(missing_ok=True)
            return
        new = folder / f"{FILE}.new"
        new.write_text(
            json.dumps({"format": FORMAT, "tuned": [asdict(each) for each in tuned]}, indent=1) + "\n", "utf-8"
        )
        new.replace(file)
    except OSError as error:
        raise DriverFailed(f"{file} cannot be written: {error.strerror}") from error
