"""Collections in a folder that are refused as a whole: a log that is not theirs, missing changes, a damaged record."""

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from clew.core.doctor import Defect
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.time import parse_iso_or_none
from clew.drivers.store import checksums
from clew.drivers.store.sqlite import connection, schema, sums
from clew.drivers.store.sqlite.folder import read_last_change, write_last_change
from clew.drivers.store.sqlite.vectors import find_width

COUNTS = {
    "documents": "SELECT count(*) FROM documents",
    "chunks": "SELECT count(*) FROM chunks",
    "length": "SELECT coalesce(sum(length), 0) FROM signals",
}


def is_foreign_log(folder: Path, collection_id: str) -> bool:
    """Whether the log makes the collection another than the one whose last change was noted in this folder.

    SQLite applies any log, and what comes of it may look whole. A switch of model gives the collection another id too,
    which is noted a moment after: the file then has the other model. Files that were put here together agree with each
    other, and are not foreign.
    """
    file = folder / schema.FILE
    try:
        if not (folder / connection.LOG).stat().st_size or not file.stat().st_size:
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
            opened = connection.open_read_only_connection(file)
        else:
            opened = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
        with closing(opened) as db:
            found: tuple[Any, ...] | None = db.execute("SELECT birth, embedder FROM meta").fetchone()
            return found
    except (sqlite3.Error, DriverFailed):
        return None


def accept_what_is_there(folder: Path, embedder: str, known: Sequence[str]) -> Iterator[Defect]:
    """Let a collection be opened that is refused as a whole; yields what was wrong, repaired.

    A damaged record of the collection is made again, and the last change that is there counts as the last there was.

    embedder: The name of its embedder, where nothing stored says it.
    known: Names that a stored name is believed by.
    """
    file = folder / schema.FILE
    if not file.exists():
        return
    last = read_last_change(folder)
    with schema.translate_errors(str(file)):
        try:
            with closing(connection.open_read_only_connection(file)) as db:
                birth, change = schema.read_meta(db, str(file), "birth", "change")
        except CollectionDamaged:
            birth, change = _rebuild_record(folder, last[1] if last else 0, embedder, known)
            problem = f"{file}: the record of the collection is damaged"
            yield Defect("truth", problem, "", "rebuild", is_repaired=True)
            return
    if last is None:
        return
    if is_foreign_log(folder, last[0]):
        problem = f"{file}: the log beside it is of another collection"
    elif birth == last[0] and change < last[1]:
        problem = f"{file}: the last {last[1] - change} changes are missing"
    else:
        return
    write_last_change(folder, birth, change)
    yield Defect("truth", problem, "", "accept", is_repaired=True)


def _rebuild_record(folder: Path, last_change: int, embedder: str, known: Sequence[str]) -> tuple[str, int]:
    """Make the record of the collection again from the tables; returns the collection's new id and its change number.

    The new id makes every index be built again.
    """
    place = str(folder / schema.FILE)
    db = connection.connect(folder)
    try:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        db.execute("BEGIN IMMEDIATE")
        stored = db.execute("SELECT embedder, dim, created FROM meta").fetchone()
        if stored is None:
            raise schema.record_gone_error(place)
        counted = {name: db.execute(sql).fetchone()[0] for name, sql in COUNTS.items()}
        (revision,) = db.execute("SELECT coalesce(max(revision), 0) FROM documents").fetchone()
        (last,) = db.execute("SELECT coalesce(max(row), 0) FROM chunks").fetchone()
        (vector,) = db.execute("SELECT vector FROM signals LIMIT 1").fetchone() or (b"",)
        change = max(last_change, revision) + 1
        made = {
            **counted,
            "embedder": _find_embedder(db, place, stored[0], embedder, known),
            "dim": find_width(vector) or stored[1],
            "change": change,
            "last": last,
            "pruned": change,
            "birth": uuid.uuid4().hex,
            "created": stored[2] if parse_iso_or_none(str(stored[2])) else None,
        }
        record = [made[name] for name in sums.META]
        columns = ", ".join(f"{name} = ?" for name in (*sums.META, "sum"))
        db.execute(f"UPDATE meta SET {columns}", (*record, checksums.hash_values(*record)))
        db.execute("DELETE FROM gone")
        db.execute("COMMIT")
    finally:
        connection.close_connection(db, folder)
    write_last_change(folder, made["birth"], change)
    return made["birth"], change


def _find_embedder(db: sqlite3.Connection, place: str, stored: str, given: str, known: Sequence[str]) -> str:
    """The embedder by the calibration, by the damaged record where that is a known name, or as it is given."""
    with suppress(DriverFailed, ValueError, KeyError, TypeError):  # it is damaged too
        if text := sums.read_checked_text(db, "calibration", ""):
            return str(json.loads(text)["embedder"])
    if stored in known or given:
        return stored if stored in known else given
    raise CollectionDamaged(
        f"{place}: the record of the collection is damaged, and nothing says whether {stored!r} is its embedder; "
        "name that: `clew --embedder NAME doctor --repair`"
    )
