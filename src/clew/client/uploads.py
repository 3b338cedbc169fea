"""The files that a client uploads: those of a folder with their relative paths, in parts that a server takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.core.errors import SettingsError, SourceError
from clew.core.report import PassedOver

MAX_FILES = 100  # of one request, as the server has it
MAX_BYTES = 32 * 1024 * 1024  # of one request of several files: half of what a server takes by default
Named = tuple[str, Path]  # the name that a file gets on the server, and the file


@dataclass(frozen=True)
class FoundFiles:
    """The files to be uploaded, what of a folder was passed over, and what cannot be read."""

    files: tuple[Named, ...]
    passed_over: tuple[dict[str, Any], ...]
    failed: tuple[dict[str, Any], ...]


def find_files(sources: Sequence[Path]) -> FoundFiles:
    """The files at paths; a folder is walked as `Engine.add` does. SourceError if a path does not exist.

    A file is named by its path where that is a relative one below the working directory, else by its last part; the
    files of a folder by that of the folder and their paths in it.
    """
    files: dict[str, Path] = {}
    passed_over: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for source in sources:
        if not source.exists():
            raise SourceError(str(source), "does not exist; nothing was uploaded")
        for found in _walk(source) if source.is_dir() else [source]:
            if isinstance(found, SourceError):
                failed.append({"source": found.source, "reason": found.reason})
            elif isinstance(found, PassedOver):
                passed_over.append({"source": found.source, "reason": found.reason, "files": found.files})
            else:
                name = _make_name(source, found)
                if files.setdefault(name, found).resolve() != found.resolve():
                    raise SettingsError(f"{files[name]} and {found} are both uploaded as {name!r}; add them one by one")
    return FoundFiles(tuple(files.items()), tuple(passed_over), tuple(failed))


def split_files(files: Sequence[Named]) -> Iterator[list[Named]]:
    """The files in parts, none with more than a server takes at a time."""
    part: list[Named] = []
    size = 0
    for each in files:
        added = each[1].stat().st_size
        if part and (len(part) == MAX_FILES or size + added > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += added
    if part:
        yield part


def _walk(folder: Path) -> Iterator[Path | SourceError | PassedOver]:
    """The files of a folder; one that is a chat export with all that belongs to it."""
    from clew.index.walk import files as walk  # the readers take time to import

    for found in walk.find_files([folder]):
        if isinstance(found, Path | SourceError | PassedOver):
            yield found
            continue
        parts = sorted(path for path in Path(found.path).rglob("*") if path.is_file())
        if len(parts) > MAX_FILES:
            raise SettingsError(
                f"{found.path} is a chat export of {len(parts):,} files, and {MAX_FILES} are uploaded at a time; "
                "add it as one zip file"
            )
        yield from parts


def _make_name(source: Path, file: Path) -> str:
    """The name of a file that was found at a source."""
    inside = "" if file == source else file.relative_to(source).as_posix()
    above = source if not source.is_absolute() and ".." not in source.parts else Path(source.resolve().name)
    return "/".join(part for part in (above.as_posix(), inside) if part not in ("", "."))
