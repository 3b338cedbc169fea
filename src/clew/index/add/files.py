"""Before the readers: the files that are to be read, found one at a time."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from clew.core.errors import SourceError
from clew.index.chat import export_of
from clew.index.read import SUFFIXES
from clew.index.read.source import why

CHATS = frozenset({".zip", ".json", ".jsonl", ".ndjson", ".mbox", ".mbx", ".mboxrd"})  # that may hold a chat
MARKS = ("users.json", "channels.json", "realm.json", "result.json", "_chat.txt")  # of a folder that is one
TRUTH, SETTINGS = "clew.db", "clew.toml"  # what a collection and its settings are kept in


def find(sources: Iterable[Path]) -> Iterator[Path | SourceError]:
    """Each file once, in order; what cannot be looked at comes as the SourceError that says why.

    A file is taken as it is given, and so is a folder that is a chat export. Any other folder gives, sorted by name,
    the files in it and below that a reader knows, and the exports. What is hidden, Clew's own folders and its settings,
    which may hold a key, are passed over. Links are not followed: what they lead to is found where it stands, or is
    outside.
    """
    taken: list[Path] = []  # where the sources so far really are: what can be found in one of them has been
    for source in sources:
        try:
            real = source.resolve(strict=True)
            is_folder = real.is_dir()
        except OSError as error:
            yield SourceError(str(source), why(error))
            continue
        except (ValueError, RuntimeError):  # a NUL in the path; a link to itself
            yield SourceError(str(source), "is not a path that leads to a file")
            continue
        if _is_in(real, taken):
            continue
        if not is_folder:
            yield source
        elif real.suffix == ".clew":
            yield SourceError(str(source), "is a Clew collection, not a source")
        elif is_chat(real):
            yield source
        else:
            for found in _walk(source):
                if isinstance(found, SourceError) or not taken or not _is_in(found.resolve(), taken):
                    yield found
        taken.append(real)


def _walk(folder: Path) -> Iterator[Path | SourceError]:
    """The files of a folder and those below, depth first; no more is held than the folders on the way down."""
    open_folders = [_entries(folder)]
    while open_folders:
        entry = next(open_folders[-1], None)
        if entry is None:
            open_folders.pop()
        elif isinstance(entry, SourceError):
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            if entry.name.endswith(".clew") or Path(entry.path, TRUTH).exists():
                continue
            if is_chat(Path(entry.path)):
                yield Path(entry.path)
            else:
                open_folders.append(_entries(Path(entry.path)))
        elif _is_read(entry):
            yield from _file(entry)


def is_chat(folder: Path) -> bool:
    """Whether a folder is a chat export as a whole."""
    return any(Path(folder, mark).exists() for mark in MARKS) and export_of(folder) is not None


def _is_read(entry: "os.DirEntry[str]") -> bool:
    """Whether a reader knows a file, or it is a chat export."""
    suffix = Path(entry.name).suffix.lower()
    if suffix in SUFFIXES:
        return entry.name != SETTINGS
    try:
        return suffix in CHATS and entry.is_file(follow_symlinks=False) and export_of(Path(entry.path)) is not None
    except SourceError:
        return True  # it is one, but damaged: reading it says so


def _entries(folder: Path) -> Iterator["os.DirEntry[str] | SourceError"]:
    """What is in a folder and not hidden, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
    except OSError as error:
        yield SourceError(str(folder), why(error))
        return
    yield from ordered


def _file(entry: "os.DirEntry[str]") -> Iterator[Path | SourceError]:
    """The file of an entry; nothing for pipes, devices and links."""
    try:
        entry.name.encode()
        if entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
    except UnicodeEncodeError:
        name = entry.path.encode(errors="surrogateescape").decode(errors="replace")
        yield SourceError(name, "has a name that is not UTF-8; rename it")
    except OSError as error:
        yield SourceError(entry.path, why(error))


def _is_in(real: Path, roots: Sequence[Path]) -> bool:
    """Whether one of the roots is this file or folder, or gives it when it is walked."""
    for root in roots:
        if real == root:
            return True
        if real.is_relative_to(root):
            inside = real.relative_to(root).parts
            passed_over = any(part.startswith(".") or part.endswith(".clew") for part in inside)
            if not passed_over and (real.suffix.lower() in SUFFIXES or real.is_dir()):
                return True
    return False
