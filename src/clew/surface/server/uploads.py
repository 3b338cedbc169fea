"""Uploaded files: written to disk before they are acknowledged, kept until their job has read them.

The folder of an upload is named by its collection and an id; its files keep their relative paths, which become the
addresses of the documents.
"""

import logging
import os
import re
import shutil
import threading
import unicodedata
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from time import time
from typing import IO, Final

from clew.core.errors import ClewError, NotFound, SourceError
from clew.core.jobs import Job
from clew.core.parallel import is_cancelled
from clew.core.report import PassedOver, SourceFailure
from clew.core.settings import Settings
from clew.engine import Engine
from clew.surface.server.engines import Engines
from clew.surface.server.errors import TimeExceeded

log = logging.getLogger(__name__)
ORPHAN_SECONDS: Final = 3600.0  # an upload without a job that is older than this was never acknowledged
ENDED: Final = ("done", "cancelled")  # states of a job whose files are not needed; a failed job keeps its files
MAX_PART: Final = 255  # bytes of a file's or folder's name, which most disks take
MAX_NAME: Final = 1000  # bytes of a relative path
MAX_DEPTH: Final = 32  # parts of a relative path: each folder is made and written to the disk
MAX_PROBED: Final = 1_000_000  # bytes of a file that is read before its collection is made
MAX_SHOWN: Final = 100  # characters of a name in an error
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f]" if os.name == "posix" else r'[\x00-\x1f\x7f<>:"|?*]|[ .](?:/|$)')
_DRIVE: Final = re.compile(r"[A-Za-z]:/")


class Uploads:
    """The uploads of a server, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._saving: set[Path] = set()  # folders whose job is not queued yet
        self._making = threading.Lock()  # guards folders and `_saving`
        self._changing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @contextmanager
    def save(self, collection: str, files: Iterable[tuple[str, IO[bytes]]]) -> Iterator[Path]:
        """Save the files of an upload to disk and yield their folder; it is removed if the block raises.

        Raises SourceError if a file name is no relative path below the folder, or is used twice.
        """
        named = [(parse_file_name(name), source) for name, source in files]
        folder = self.folder / collection / uuid.uuid4().hex
        with self._making:
            folder.mkdir(parents=True, mode=0o700)
            self._saving.add(folder)
        try:
            for name, source in named:
                if is_cancelled():
                    raise TimeExceeded("nobody waits for this upload any more; send fewer files at a time")
                _write(folder, name, source)
            for place in {folder, *(path for path in folder.rglob("*") if path.is_dir())}:
                _sync_folder(place)
            _sync_folder(folder.parent)
            yield folder
        except BaseException:
            self._remove(folder)
            raise
        finally:
            self._saving.discard(folder)

    @contextmanager
    def changing(self, collection: str) -> Iterator[None]:
        """Lock the uploads of a collection: queueing a job and dropping the collection exclude each other."""
        with self._making:
            held = self._changing[collection]
        with held:
            yield

    @contextmanager
    def queueing(self, collection: str, folder: Path) -> Iterator[None]:
        """Lock a collection's uploads while a folder's job is queued; from then on both are dropped together."""
        with self.changing(collection):
            yield
            self._saving.discard(folder)

    def remove_finished(self, job: Job) -> None:
        """Remove the files of a job that is done or cancelled; a failed job keeps its files until it is gone."""
        if job.state != "failed":
            for folder in self._find_folders(job):
                shutil.rmtree(folder, ignore_errors=True)

    def drop_collection(self, collection: str) -> None:
        """Remove the uploads of a dropped collection; an upload that is not queued yet will create it again."""
        place = self.folder / collection
        for folder in tuple(place.iterdir()) if place.is_dir() else ():
            if folder not in self._saving:
                self._remove(folder)

    def sweep(self, engines: Engines) -> None:
        """Open the collections with uploads, so that their jobs resume, and remove files that no job will read."""
        if not self.folder.is_dir():
            return
        for place in sorted(path for path in self.folder.iterdir() if path.is_dir()):
            try:
                jobs = engines.get(place.name).jobs()
            except NotFound:  # it was never made, or is gone
                jobs = []
            except ClewError as error:
                log.warning("uploads of %s: %s", place.name, error)
                continue
            ended = {folder for job in jobs if job.state in ENDED for folder in self._find_folders(job)}
            needed = {folder for job in jobs if job.state not in ENDED for folder in self._find_folders(job)}
            for folder in tuple(place.iterdir()):
                is_orphan = folder not in needed and time() - folder.stat().st_mtime > ORPHAN_SECONDS
                if folder in ended - needed or is_orphan:
                    self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """Remove the folder of an upload, and the folder of its collection if that is then empty."""
        shutil.rmtree(folder, ignore_errors=True)
        with self._making, suppress(OSError):  # others are in it
            folder.parent.rmdir()

    def _find_folders(self, job: Job) -> set[Path]:
        parents = {Path(source).parent for source in job.request.get("sources", ()) if "://" not in source}
        return {parent for parent in parents if parent.parent.parent == self.folder}


def check_readable(engine: Engine, collection: str, folder: Path) -> None:
    """Raise SourceError if an upload is the first of its collection and none of its files can be read.

    So a wrong name creates no collection. A large file counts as readable, since reading it may take long.
    """
    if engine.status().documents:
        return
    entries = sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.stat().st_size))
    if any(path.stat().st_size > MAX_PROBED for path in folder.rglob("*")):
        return
    apart = _set_apart(engine, folder)
    problems: list[SourceFailure | PassedOver] = []
    for entry in entries:
        plan = apart.plan(entry, settings=_keep_all(engine))
        if plan.added or plan.changed or plan.unchanged:
            return
        problems += [*plan.failed, *plan.passed_over]
    first = f"{problems[0].source}: {problems[0].reason}".replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
    raise SourceError(first, f"none of the files can be read, so the collection {collection!r} was not made")


def enqueue(engine: Engine, folder: Path) -> Job:
    """Queue the files of an upload; relative paths become addresses, and no file is ignored, since it was sent."""
    return _set_apart(engine, folder).enqueue_add(*sorted(folder.iterdir()), settings=_keep_all(engine))


def _set_apart(engine: Engine, folder: Path) -> Engine:
    return type(engine)(replace(engine.opened, root=folder.resolve(), is_upload=True))


def _keep_all(engine: Engine) -> Settings:
    return replace(engine.settings, ingestion=replace(engine.settings.ingestion, ignore=False))


def parse_file_name(name: str) -> PurePosixPath:
    """Parse the relative path of an uploaded file; raise SourceError if the name is none."""
    plain = unicodedata.normalize("NFC", name).replace("\\", "/")
    shown = repr(plain if len(plain) <= MAX_SHOWN else f"{plain[:MAX_SHOWN]}…")
    parts = plain.split("/")
    problem = ""
    if plain.startswith("/") or _DRIVE.match(plain):
        problem = "is an absolute path; give one relative to the folder that is uploaded, as filename=a/page.md"
    elif any(part in ("", ".", "..") for part in parts):
        problem = "has an empty part, . or ..; give a plain relative path, as filename=a/page.md"
    elif _UNSAFE.search(plain) or not _is_encodable(plain):
        problem = "has signs that no file name may have; rename the file"
    elif any(len(part.encode()) > MAX_PART for part in parts) or len(plain.encode()) > MAX_NAME:
        problem = f"is too long: at most {MAX_PART} bytes a part and {MAX_NAME} in all; rename the file"
    elif len(parts) > MAX_DEPTH:
        problem = f"has {len(parts)} parts, and at most {MAX_DEPTH} are taken; put the file in fewer folders"
    if problem:
        raise SourceError(shown, f"as the name of a file it {problem}")
    return PurePosixPath(plain)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write(folder: Path, name: PurePosixPath, source: IO[bytes]) -> None:
    target = folder / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
    except (FileExistsError, NotADirectoryError):
        reason = "two files of the upload have this name; give each its relative path, as filename=a/page.md"
        raise SourceError(str(name), reason) from None


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
