"""Feedback: what users say of answers, one JSON object a line, a file for each collection."""

import json
import os
import shutil
import threading
import uuid
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from clew.surface.server.folder import find_server_folder
from clew.surface.settings.load import Invocation

FOLDER: Final = "feedback"  # within that of the server
MAX_READ: Final = 1000  # judgements that are read back
MAX_BYTES: Final = 16 * 1024 * 1024  # of one collection; beyond it the older half goes
_lock = threading.Lock()


class Feedback:
    """The judgements of all collections of a server, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, collection: str, given: Mapping[str, Any], caller: str) -> dict[str, Any]:
        """Keeps a judgement; as it is kept."""
        kept = {
            "id": uuid.uuid4().hex,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "collection": collection,
            **given,
            "caller": caller,
        }
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = json.dumps(kept) + "\n"  # ASCII: no character of a text can end the line
        path = self._folder / f"{collection}.jsonl"
        with _lock:
            with path.open("a", encoding="ascii") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if path.stat().st_size > MAX_BYTES:
                _keep_newer_half(path)
        return kept

    def read(self, collection: str) -> list[dict[str, Any]]:
        """The last judgements of a collection, the oldest first."""
        file = self._folder / f"{collection}.jsonl"
        if not file.is_file():
            return []
        with file.open(encoding="ascii") as lines:
            return [json.loads(line) for line in deque(lines, MAX_READ) if line.endswith("}\n")]

    def drop_collection(self, collection: str) -> None:
        """Removes the judgements of a collection that is gone: they quote it."""
        (self._folder / f"{collection}.jsonl").unlink(missing_ok=True)


def read_feedback(start: Invocation) -> list[dict[str, Any]]:
    """The last judgements that a server keeps of a collection, the oldest first; read from its folder."""
    return Feedback(find_server_folder(start) / FOLDER).read(start.collection)


def _keep_newer_half(path: Path) -> None:
    """Writes the file anew, with the last of its judgements alone."""
    draft = path.with_suffix(".new")
    with path.open("rb") as old, draft.open("wb") as new:
        old.seek(-MAX_BYTES // 2, os.SEEK_END)
        old.readline()  # the rest of one that is cut
        shutil.copyfileobj(old, new)
        new.flush()
        os.fsync(new.fileno())
    draft.replace(path)
