"""Before the readers: the files that are to be read, found one at a time."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.core.errors import SourceError
from clew.index.read import SUFFIXES
from clew.index.read.source import why


def find(sources: Iterable[Path]) -> Iterator[Path | SourceError]:
    """Each file once, in order; what cannot be looked at comes as the SourceError that says why.

    A file is taken as it is given. A folder gives the files in it and below that a reader knows, sorted by name; what
    is hidden, and folders of Clew's own, are passed over. Links to folders are not followed: what they lead to is
    found where it stands, or is outside.
    """
    taken: list[Path] = []  # the sources so far, resolved: what is in one of them has been found
    linked: set[Path] = set()
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
        if real in linked or any(_found(real, before) for before in taken):
            continue
        if is_folder and real.suffix == ".clew":
            yield SourceError(str(source), "is a Clew collection, not a source")
            continue
        for found in _walk(source) if is_folder else [source]:
            if isinstance(found, Path) and not _is_new(found, real, taken, linked):
                continue
            yield found
        taken.append(real)


def _walk(folder: Path) -> Iterator[Path | SourceError]:
    """The files of a folder and those below, depth first; no more is held than the folders on the way down."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
    except OSError as error:
        yield SourceError(str(folder), why(error))
        return
    for entry in ordered:
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            if path.suffix != ".clew":
                yield from _walk(path)
        elif path.suffix.lower() in SUFFIXES:
            if entry.is_symlink() and not path.exists():
                yield SourceError(str(path), "is a link that leads nowhere")
            elif entry.is_file():
                yield path


def _is_new(path: Path, root: Path, taken: list[Path], linked: set[Path]) -> bool:
    """Whether a file has not been found under another name: only links and nested sources can bring one again."""
    if not path.is_symlink() and not taken and not linked:
        return True
    real = path.resolve()
    if any(_found(real, before) for before in taken) or real in linked:
        return False
    if path.is_symlink() and path.resolve() != root:
        if real.is_relative_to(root) and _found(real, root):
            return False
        linked.add(real)
    return True


def _found(real: Path, root: Path) -> bool:
    """Whether a walk of the root, or the root itself, gives this file or folder."""
    if real == root:
        return True
    if not real.is_relative_to(root):
        return False
    inside = real.relative_to(root).parts
    hidden = any(part.startswith(".") for part in inside)
    return (
        not hidden
        and not any(part.endswith(".clew") for part in inside[:-1])
        and (real.suffix.lower() in SUFFIXES or real.is_dir())
    )
