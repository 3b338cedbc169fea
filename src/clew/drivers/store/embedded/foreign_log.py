"""Whether the log beside a database is its own: SQLite applies any, and what comes of it may look whole."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from clew.core.errors import DriverFailed
from clew.drivers.store.embedded import schema
from clew.drivers.store.embedded.connection import LOG, open_read_only_connection


def is_foreign_log(folder: Path, collection_id: str) -> bool:
    """Whether the log makes the collection another than the one whose last change was noted in this folder.

    A switch of model gives it another id too, which is noted a moment after: the file then has the other model. Files
    that were put here together agree with each other, and are not foreign.
    """
    file = folder / schema.FILE
    try:
        if not (folder / LOG).stat().st_size or not file.stat().st_size:
            return False
    except OSError:
        return False
    seen = _read_identity(file, with_log=True)
    if seen is None or seen[0] == collection_id:
        return False
    alone = _read_identity(file, with_log=False)
    return alone is None or (alone[0] != seen[0] and alone[1] == seen[1])


def _read_identity(file: Path, *, with_log: bool) -> tuple[Any, ...] | None:
    """The id of the collection and its model; None if they cannot be read."""
    try:
        if with_log:
            opened = open_read_only_connection(file)
        else:
            opened = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
        with closing(opened) as db:
            found: tuple[Any, ...] | None = db.execute("SELECT birth, embedder FROM meta").fetchone()
            return found
    except (sqlite3.Error, DriverFailed):
        return None
