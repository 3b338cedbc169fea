"""What is around a collection: the files that it was made of, who may read its own, the disk, unfinished work."""

import os
import random
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.doctor import Defect
from clew.core.errors import ClewError
from clew.core.plural import format_count
from clew.drivers.tuned import TunedSettings, read_tuned_settings
from clew.index.read.load import is_there
from clew.index.read.sections import get_source_uri

if TYPE_CHECKING:
    from clew.engine.opened import Opened

MAX_FILES = 2000  # whose state is asked for
MIN_FREE = 64 << 20  # bytes
MAX_LOG = 256 << 20  # bytes of a log that nobody writes back
FOR_OTHERS = stat.S_IRWXO
IS_POSIX = os.name == "posix"
_warn, _advise = partial(Defect, severity="warning"), partial(Defect, severity="advice")


def inspect_surroundings(opened: "Opened") -> Iterator[Defect]:
    """What is wrong around a collection."""
    yield from inspect_sources(opened)
    yield from inspect_unfinished(opened)
    if opened.folder and opened.folder.is_dir():
        yield from inspect_permissions(opened.folder)
        yield from inspect_disk(opened.folder)


def inspect_sources(opened: "Opened") -> Iterator[Defect]:
    """Documents whose files are gone, or have changed since they were read."""
    try:
        records = [each for each in opened.store.documents() if each.stamp]
    except ClewError:  # named already
        return
    files = {get_source_uri(each): each.stamp for each in records}
    chosen = random.sample(sorted(files), min(MAX_FILES, len(files)))
    gone = sorted(uri for uri in chosen if not is_there(Path(opened.root, uri)))
    changed = sorted(uri for uri in chosen if uri not in gone and has_changed(Path(opened.root, uri), files[uri]))
    if gone and len(gone) == len(chosen):
        problem = f"none of the files that {format_count(len(records), 'document')} were read from is there"
        advice = "they may be on another machine or share; if they moved, add them from their new place"
        yield _advise("sources", problem, next_step=advice)
    elif gone:
        problem = f"{len(gone)} of {len(chosen)} files are gone, and what was in them is still found ({_name(gone)})"
        yield _warn("sources", problem, next_step="`clew add FOLDER --sync` drops their documents")
    if changed:
        problem = f"{len(changed)} of {len(chosen)} files have changed since they were read ({_name(changed)})"
        yield _warn("sources", problem, next_step="`clew add` them again")


def has_changed(path: Path, stamp: str) -> bool:
    """Whether a file is not the one that a stamp was made of, as far as its time and size say."""
    when, size, *_ = [*stamp.split(" "), "", ""]
    if not (when.isdigit() and size.isdigit()):  # it was young when it was read: `add` compares its text
        return False
    try:
        status = path.stat()
    except OSError:
        return False
    return (status.st_mtime_ns, status.st_size) != (int(when), int(size))


def _name(uris: list[str]) -> str:
    return ", ".join(uris[:3]) + (", …" if len(uris) > 3 else "")


def inspect_unfinished(opened: "Opened") -> Iterator[Defect]:
    """An erasure that was broken off, and tuned settings of another embedder."""
    is_erasing, tuned = False, list[TunedSettings]()
    with suppress(ClewError):  # what is damaged was named already
        is_erasing = bool(opened.store.eraser().pending())
    with suppress(ClewError):
        tuned = read_tuned_settings(opened.records)
    if is_erasing:
        problem = "an erasure was not finished: what it was to remove may still be on the disk"
        yield _warn("truth", problem, next_step="`clew erase` finishes it, also without a name")
    if tuned and tuned[-1].embedder != opened.embedder.name:
        problem = f"settings were tuned for {tuned[-1].embedder} and are not used with {opened.embedder.name}"
        yield _advise("calibration", problem, next_step="`clew tune` again, or `clew tune --rollback`")


def inspect_permissions(folder: Path) -> Iterator[Defect]:
    """Files that everybody on the machine may read or write, and those that this user may not."""
    if not IS_POSIX:
        return
    if open_ := [path.name for path in _list_own(folder) if path.stat().st_mode & FOR_OTHERS]:
        problem = f"everybody on this machine may read or change {_name(open_)} of {folder}"
        yield _warn("protection", problem, "", "protect")
    files = [path for path in _list_own(folder) if path.is_file()]
    if denied := [path.name for path in files if not os.access(path, os.R_OK | os.W_OK)]:
        advice = "it can be searched, not added to; give this user the right to write, or use its owner"
        yield _advise("protection", f"this user may not change {_name(denied)} of {folder}", next_step=advice)


def protect_files(folder: Path) -> None:
    """Takes the rights of everybody else from a folder and what is Clew's in it."""
    for path in _list_own(folder):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~FOR_OTHERS)


def _list_own(folder: Path) -> list[Path]:
    """The folder, and the files of the database in it."""
    return [folder, *(path for path in sorted(folder.glob("clew.*")) if path.is_file() and not path.is_symlink())]


def inspect_disk(folder: Path) -> Iterator[Defect]:
    """Whether there is room for what is to come, and logs that have grown."""
    size = sum(path.stat().st_size for path in folder.glob("clew.db*") if path.is_file())
    yield from check_room(shutil.disk_usage(folder).free, size)
    log = folder / "clew.db-wal"
    if log.is_file() and log.stat().st_size > MAX_LOG:
        problem = f"the log of changes has grown to {log.stat().st_size >> 20} MB"
        advice = "a process that reads all the time keeps it; close the ones that need not be open"
        yield _advise("disk", problem, next_step=advice)


def check_room(free: int, size: int) -> Iterator[Defect]:
    """Whether so many free bytes are enough for a collection of this size: a new index takes about as much again."""
    if free < max(MIN_FREE, size):
        problem = f"{free >> 20} MB are free on the disk, and the collection has {size >> 20} MB"
        advice = "make room: an index that is built again takes about as much as the collection"
        yield _warn("disk", problem, next_step=advice)
