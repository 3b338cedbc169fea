"""Exports of several files of which one is broken: it is reported, and the others are read."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from clew.core.errors import SourceError
from clew.index.chat.normalise import ExportNotes
from clew.index.chat.tree import ExportFile
from clew.index.read.guard import wrap_library_errors

Item = TypeVar("Item")


def read_until_failure(file: ExportFile, items: Iterable[Item], notes: ExportNotes, *, kind: str) -> Iterator[Item]:
    """What is read of one file of an export, up to where that fails, which is noted."""
    rest = iter(items)
    while True:
        try:
            with wrap_library_errors(file.uri, format_name=f"{kind} export"):
                found = [item for item in (next(rest, None),) if item is not None]
        except SourceError as error:
            notes.add_failure(error)
            return
        if not found:
            return
        yield found[0]
