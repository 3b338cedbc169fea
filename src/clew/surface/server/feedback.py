"""Feedback of users: kept with each collection, and by earlier versions in a folder of the server."""

import json
from collections import deque
from pathlib import Path
from typing import Any, Final

from clew.engine import Engine
from clew.engine.feedback import MAX_READ
from clew.surface.server.folder import find_server_folder
from clew.surface.settings.load import Invocation

FOLDER: Final = "feedback"  # within that of the server


class Feedback:
    """The judgements that earlier versions kept, one JSON object a line, a file for each collection."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, engine: Engine, collection: str) -> list[dict[str, Any]]:
        """The last judgements and openings of a collection, the oldest first, those of earlier versions before."""
        file = self._folder / f"{collection}.jsonl"
        earlier: list[dict[str, Any]] = []
        if file.is_file():
            with file.open(encoding="ascii") as lines:
                earlier = [json.loads(line) for line in deque(lines, MAX_READ) if line.endswith("}\n")]
        found = [{"kind": "judged", "rank": None, **each} for each in earlier] + engine.list_feedback()
        return [{**each, "collection": collection} for each in found[-MAX_READ:]]

    def drop_collection(self, collection: str) -> None:
        """Removes the judgements of a collection that is gone: they quote it."""
        (self._folder / f"{collection}.jsonl").unlink(missing_ok=True)


def read_feedback(start: Invocation, engine: Engine) -> list[dict[str, Any]]:
    """The last judgements and openings of a collection, the oldest first, those of earlier servers before."""
    return Feedback(find_server_folder(start) / FOLDER).read(engine, start.collection)
