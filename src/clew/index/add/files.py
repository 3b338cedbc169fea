"""File discovery, before the readers: the files and chat exports below the given paths, found one at a time."""

import os
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path

from clew.core.errors import SourceError
from clew.index.chat import detect_export
from clew.index.read import SUFFIXES
from clew.index.read.load import describe_os_error

EXPORT_SUFFIXES = frozenset({".zip", ".json", ".jsonl", ".ndjson", ".mbox", ".mbx", ".mboxrd"})
EXPORT_MARKERS = (
    "users.json",
    "channels.json",
    "realm.json",
    "result.json",
    "_chat.txt",
)  # in a folder that is an export
DATABASE_FILE, SETTINGS_FILE = "clew.db", "clew.toml"


def find_files(paths: Iterable[Path], *, suffixes: Set[str] = SUFFIXES) -> Iterator[Path | SourceError]:
    """Each file once, in order; a path that cannot be opened comes as the SourceError that says why.

    A file, and a folder that is a chat export, is returned as given. Any other folder is walked, sorted by name, for
    files with one of the suffixes and for exports. Hidden files, Clew's own folders and its settings file, which may
    hold a key, are skipped. Symbolic links are not followed.
    """
    done: list[Path] = []  # resolved paths of the sources so far: what is inside one of them was found already
    for source in paths:
        try:
            real = source.resolve(strict=True)
            is_folder = real.is_dir()
        except OSError as error:
            yield SourceError(str(source), describe_os_error(error))
            continue
        except (ValueError, RuntimeError):  # a NUL in the path; a link to itself
            yield SourceError(str(source), "is not a valid path")
            continue
        if _is_covered_by_roots(real, done, suffixes):
            continue
        if not is_folder:
            yield source
        elif real.suffix == ".clew":
            yield SourceError(str(source), "is a Clew collection, not a source")
        elif is_chat_export_folder(real):
            yield source
        else:
            for found in _walk_folder(source, suffixes):
                if (
                    isinstance(found, SourceError)
                    or not done
                    or not _is_covered_by_roots(found.resolve(), done, suffixes)
                ):
                    yield found
        done.append(real)


def _walk_folder(folder: Path, suffixes: Set[str]) -> Iterator[Path | SourceError]:
    """The files of a folder and those below, depth first; only the folders on the current path are in memory."""
    open_folders = [_list_entries(folder)]
    while open_folders:
        entry = next(open_folders[-1], None)
        if entry is None:
            open_folders.pop()
        elif isinstance(entry, SourceError):
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            if entry.name.endswith(".clew") or Path(entry.path, DATABASE_FILE).exists():
                continue
            if is_chat_export_folder(Path(entry.path)):
                yield Path(entry.path)
            else:
                open_folders.append(_list_entries(Path(entry.path)))
        elif _is_supported_file(entry, suffixes):
            yield from _yield_regular_file(entry)


def is_chat_export_folder(folder: Path) -> bool:
    """Whether a folder as a whole is a chat export."""
    return any(Path(folder, marker).exists() for marker in EXPORT_MARKERS) and detect_export(folder) is not None


def _is_supported_file(entry: "os.DirEntry[str]", suffixes: Set[str]) -> bool:
    """Whether a file has one of the suffixes, or is a chat export."""
    suffix = Path(entry.name).suffix.lower()
    if suffix in suffixes:
        return entry.name != SETTINGS_FILE
    try:
        return (
            suffix in EXPORT_SUFFIXES
            and entry.is_file(follow_symlinks=False)
            and detect_export(Path(entry.path)) is not None
        )
    except SourceError:
        return True  # a damaged export: reading it reports that


def _list_entries(folder: Path) -> Iterator["os.DirEntry[str] | SourceError"]:
    """The entries of a folder that are not hidden, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
    except OSError as error:
        yield SourceError(str(folder), describe_os_error(error))
        return
    yield from ordered


def _yield_regular_file(entry: "os.DirEntry[str]") -> Iterator[Path | SourceError]:
    """The path of an entry; nothing for pipes, devices and links."""
    try:
        entry.name.encode()
        if entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
    except UnicodeEncodeError:
        name = entry.path.encode(errors="surrogateescape").decode(errors="replace")
        yield SourceError(name, "has a name that is not UTF-8; rename it")
    except OSError as error:
        yield SourceError(entry.path, describe_os_error(error))


def _is_covered_by_roots(real: Path, roots: Sequence[Path], suffixes: Set[str]) -> bool:
    """Whether this file or folder is one of the roots, or is found when one of them is walked."""
    for root in roots:
        if real == root:
            return True
        if real.is_relative_to(root):
            inside = real.relative_to(root).parts
            is_skipped = any(part.startswith(".") or part.endswith(".clew") for part in inside)
            if not is_skipped and (real.suffix.lower() in suffixes or real.is_dir()):
                return True
    return False
