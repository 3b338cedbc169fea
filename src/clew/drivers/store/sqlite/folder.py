"""The folder of a collection: Clew's files in it, checks before opening, and its removal."""

import json
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.core.errors import CollectionLost, DriverFailed, StoreMismatch
from clew.core.patterns import compile_pattern
from clew.core.stored import CollectionRecord
from clew.core.time import from_iso, to_iso
from clew.drivers.store import checksums
from clew.drivers.store.sqlite import schema
from clew.drivers.store.sqlite.files import list_files, open_private, try_lock
from clew.drivers.store.sqlite.schema import LOG, open_read_only_connection

MARKER = "clew.collection"  # distinguishes a folder that lost its database from one that never had one
HOME, LOCK = "index", "index.lock"  # the lock is outside the index folder, which can be removed while it is held
_SHARD = compile_pattern("shard-[0-9a-f]{12}")
_LOGS = (LOG, f"{schema.FILE}-shm")
LAST_CHANGE = "clew.change"  # the number of the last change, to detect a log that has lost some
_OWN_FILES = (schema.FILE, *_LOGS, f"{schema.FILE}-journal", MARKER, LAST_CHANGE)  # besides the lock
_NOTE = "The documents of this collection are in clew.db; everything else here can be made again from it."


def check_database_exists(folder: Path) -> None:
    """Raise CollectionLost if a folder has lost its database; DriverFailed if that is itself a folder.

    Otherwise, opening it would create a new, empty collection, and SQLite would delete the log of the old one.
    """
    # List traces before looking for the database: a process that creates it now leaves traces only afterwards.
    left = _list_traces(folder)
    file = folder / schema.FILE
    if file.is_dir():
        raise DriverFailed(f"{file} is a folder, where the database of a collection is to be; move it away")
    with suppress(OSError):  # missing; if the folder is a file, opening it raises an error
        if file.stat().st_size:
            return
    if left:
        raise lost_error(folder, "is empty" if file.exists() else "is gone", left)


def denied_error(error: PermissionError) -> DriverFailed:
    """Make the error for a folder or file that this user may not read."""
    return DriverFailed(
        f"{error.filename}: this user may not read it ({error.strerror}); give the user the rights to the folder of "
        "the collection and the files in it, run Clew as their owner, or give another folder with --path"
    )


def lost_error(folder: Path, what: str, left: list[str]) -> CollectionLost:
    """Make the error for a folder whose database is gone, empty or without tables."""
    return CollectionLost(
        f"{folder / schema.FILE} {what}, but this was a collection (still there: {', '.join(left)}), and its documents "
        f"were in that file; put it back from a backup, or give the collection up with "
        f"`clew --path {folder.parent} collections drop {folder.name}` and add the sources, or restore an export, again"
    )


def write_marker(folder: Path) -> None:
    """Mark a folder as one that has a database, once; skip a read-only folder."""
    if not (folder / MARKER).exists():
        made = {"made": to_iso(datetime.now(UTC)), "note": _NOTE}
        with suppress(OSError), open(folder / MARKER, "w", encoding="utf-8", opener=open_private) as file:
            file.write(json.dumps(made, indent=2) + "\n")


def write_last_change(folder: Path, collection_id: str, change: int) -> None:
    """Record the number of the last change after its commit; it may lag, but is never ahead of the database."""
    text = f"{collection_id} {change:020}"
    with suppress(OSError):
        handle = open_private(folder / LAST_CHANGE, os.O_WRONLY | os.O_CREAT)
        try:
            os.write(handle, f"{text} {checksums.hash_values(text):+020}\n".encode())
        finally:
            os.close(handle)


def read_last_change(folder: Path) -> tuple[str, int] | None:
    """Read the recorded collection id and number of the last change; None if there are none."""
    try:
        collection_id, change, stored = (folder / LAST_CHANGE).read_text("utf-8").split()
        if int(stored) == checksums.hash_values(f"{collection_id} {change}"):
            return collection_id, int(change)
    except (OSError, ValueError):
        pass
    return None


def is_foreign_log(folder: Path, collection_id: str) -> bool:
    """Return whether the log belongs to another collection than the one recorded in this folder.

    SQLite applies any log, and the result may look intact. Two other cases change the id, too, and are not foreign: a
    model switch, where log and file have different models and the new id is recorded a moment later; and files that
    were put here together, which agree with each other.
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
    """Read the id of the collection and its model; None if that fails."""
    try:
        if with_log:
            opened = open_read_only_connection(file)
        else:
            opened = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
        with closing(opened) as db:
            found: tuple[Any, ...] | None = db.execute("SELECT birth, embedder FROM meta").fetchone()
            return found
    except (sqlite3.Error, UnicodeDecodeError, DriverFailed):
        return None


def has_marker(folder: Path) -> bool:
    """Return whether this folder has had a complete database."""
    return (folder / MARKER).exists()


def list_collections(root: Path) -> list[CollectionRecord]:
    """List the collections in a folder, by name; the record of an unreadable one says why."""
    found = []
    for folder in sorted(root.iterdir()):
        try:
            if folder.is_dir() and not folder.is_symlink() and is_collection(folder):
                found.append(read_record(folder))
        except (DriverFailed, StoreMismatch) as error:
            found.append(CollectionRecord(folder.name, bytes=measure_disk_usage(folder), problem=error.message))
        except PermissionError as error:
            found.append(CollectionRecord(folder.name, problem=str(denied_error(error))))
    return found


def is_collection(folder: Path) -> bool:
    """Return whether a folder is a collection, even a damaged one."""
    return (folder / schema.FILE).exists() or bool(_list_traces(folder))


def _list_traces(folder: Path) -> list[str]:
    """List the files of a collection in its folder, apart from the database."""
    left = [name for name in (MARKER, LOCK, *_LOGS) if (folder / name).exists()]
    return [*left, HOME] if list_own_shards(folder / HOME) else left


def list_own_shards(home: Path) -> list[Path]:
    """List the shard folders in `index/`, recognised by name and content; nothing else there is touched."""
    found = [each for each in home.iterdir() if _SHARD.fullmatch(each.name)] if home.is_dir() else []
    return sorted(each for each in found if not each.is_symlink() and each.is_dir() and _is_own_shard(each))


def _is_own_shard(folder: Path) -> bool:
    try:
        names = {each.name for each in folder.iterdir()}
    except FileNotFoundError:  # deleted meanwhile
        return False
    return not names or bool(names & {"shard", "mark.json"})


def read_record(folder: Path) -> CollectionRecord:
    """Read the collection's record from its database; DriverFailed if it is lost or damaged."""
    check_database_exists(folder)
    file = folder / schema.FILE
    with schema.translate_errors(str(file)), closing(open_read_only_connection(file)) as db:
        if not schema.has_tables(db, str(file)):
            if has_marker(folder):
                raise lost_error(folder, "has no tables", [MARKER])
            return CollectionRecord(folder.name, problem=f"{file} is not a collection of Clew, or was never finished")
        documents, chunks, embedder = schema.read_meta(db, str(file), "documents", "chunks", "embedder")
        created, updated = db.execute("SELECT created, (SELECT max(updated) FROM documents) FROM meta").fetchone()
    size = measure_disk_usage(folder)
    times = from_iso(created), from_iso(updated)
    return CollectionRecord(folder.name, documents, chunks, embedder, *times, bytes=size)


def remove_collection(folder: Path) -> tuple[str, ...]:
    """Remove Clew's files from a collection's folder, and the folder if it is then empty; return the remaining names.

    DriverFailed, without a removal, while another process or engine has the collection open.
    """
    busy = f"{folder}: the collection is open elsewhere; close the programs that use it and drop it again"
    try:
        lock = try_lock(folder / LOCK)
    except OSError as error:
        raise DriverFailed(f"{folder}: the collection cannot be removed ({error}); check its permissions") from error
    if lock is None:
        raise DriverFailed(busy)
    try:
        if not _is_unused(folder / schema.FILE):
            raise DriverFailed(busy)
        for name in _OWN_FILES:
            (folder / name).unlink(missing_ok=True)
        for shard in list_own_shards(folder / HOME):
            shutil.rmtree(shard)
        with suppress(OSError):  # missing, or not empty
            (folder / HOME).rmdir()
    except OSError as error:
        raise DriverFailed(f"{folder}: the collection cannot be removed ({error}); check its permissions") from error
    finally:
        lock.close()
    (folder / LOCK).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
    return tuple(sorted(left.name for left in folder.iterdir())) if folder.exists() else ()


def _is_unused(file: Path) -> bool:
    """Return whether no other connection has the database open; a damaged or missing one counts as unused."""
    if not file.exists() or not file.stat().st_size:
        return True
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("PRAGMA journal_mode = DELETE")  # possible only for the last connection
            db.execute("BEGIN EXCLUSIVE")
            db.execute("ROLLBACK")
        except UnicodeDecodeError:  # damaged
            return True
        except sqlite3.DatabaseError as error:
            return error.sqlite_errorcode & schema.PRIMARY_CODE not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return True


def measure_disk_usage(folder: Path) -> int:
    """Measure the bytes that a folder takes on disk; a shard's files are mostly holes, which take none."""
    return sum(getattr(stat, "st_blocks", (stat.st_size + 511) // 512) * 512 for _, stat in list_files(folder))
