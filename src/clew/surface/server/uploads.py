"""Uploaded files: written to disk before they are acknowledged, kept until their job has read them.

The folder of an upload is named by its collection and an id; its files keep their names, which become the addresses of
the documents.
"""

import logging
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from time import time
from typing import IO, Final

from clew.core.errors import ClewError
from clew.core.jobs import Job
from clew.engine import Engine
from clew.surface.server.engines import Engines

log = logging.getLogger(__name__)
ORPHAN_SECONDS: Final = 3600.0  # an upload without a job that is older than this was never acknowledged
ENDED: Final = ("done", "cancelled")  # states of a job whose files are not needed; those of a failed one are kept
MAX_NAME: Final = 150  # bytes
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\/]')


class Uploads:
    """The uploads of a server, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, collection: str, files: Iterable[tuple[str, IO[bytes]]]) -> Path:
        """The folder with the files of an upload, which are on the disk when this returns."""
        folder = self.folder / collection / uuid.uuid4().hex
        folder.mkdir(parents=True, mode=0o700)
        try:
            for name, source in files:
                target = _find_free_name(folder / make_file_name(name))
                with target.open("xb") as file:
                    shutil.copyfileobj(source, file)
                    file.flush()
                    os.fsync(file.fileno())
            _sync_folder(folder)
            _sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    def enqueue(self, engine: Engine, folder: Path) -> Job:
        """Queues the files of an upload; their addresses are their names."""
        apart = type(engine)(replace(engine.opened, root=folder.resolve()))
        return apart.enqueue_add(*sorted(folder.iterdir()))

    def remove_finished(self, job: Job) -> None:
        """Removes the files of a job that is done or was cancelled; those of a failed one stay until it is gone."""
        if job.state != "failed":
            for folder in self._find_folders(job):
                shutil.rmtree(folder, ignore_errors=True)

    def drop_collection(self, collection: str) -> None:
        """Removes the uploads of a collection that is gone."""
        shutil.rmtree(self.folder / collection, ignore_errors=True)

    def sweep(self, engines: Engines) -> None:
        """Opens the collections with uploads, so that their jobs go on, and removes what no job will read."""
        if not self.folder.is_dir():
            return
        for place in sorted(path for path in self.folder.iterdir() if path.is_dir()):
            try:
                jobs = engines.get(place.name).jobs()
            except ClewError as error:
                log.warning("uploads of %s: %s", place.name, error)
                continue
            ended = {folder for job in jobs if job.state in ENDED for folder in self._find_folders(job)}
            needed = {folder for job in jobs if job.state not in ENDED for folder in self._find_folders(job)}
            for folder in place.iterdir():
                is_orphan = folder not in needed and time() - folder.stat().st_mtime > ORPHAN_SECONDS
                if folder in ended - needed or is_orphan:
                    shutil.rmtree(folder, ignore_errors=True)

    def _find_folders(self, job: Job) -> set[Path]:
        """The folders of uploads that a job reads."""
        parents = {Path(source).parent for source in job.request.get("sources", ()) if "://" not in source}
        return {parent for parent in parents if parent.parent.parent == self.folder}


def make_file_name(name: str) -> str:
    """A name for an uploaded file: the last part of the given one, without signs that mean something to a disk."""
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    plain = _UNSAFE.sub("_", last.encode("utf-8", "replace").decode("utf-8")).strip(" .")
    stem, dot, suffix = plain.rpartition(".")
    if not dot or len(suffix.encode()) >= 20:
        return _cut(plain, MAX_NAME) or "upload"
    return f"{_cut(stem, MAX_NAME - len(suffix.encode()) - 1)}.{suffix}"


def _cut(text: str, size: int) -> str:
    """The beginning of a text within so many bytes, which is what a disk counts."""
    return text.encode()[:size].decode(errors="ignore")


def _find_free_name(wanted: Path) -> Path:
    """The path, with a number where another file of the upload has it."""
    numbered = (wanted.with_name(f"{wanted.stem} ({number}){wanted.suffix}") for number in count(2))
    return next(path for path in chain([wanted], numbered) if not path.exists())


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
