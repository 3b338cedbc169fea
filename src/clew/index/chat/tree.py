"""Where the parts of an export stand: in a folder, in a zip or by themselves; no part is ever unpacked to the disk.

A tree is opened for one reading and closed with it. What a zip states of its sizes is checked before anything is read,
and its entries are read no further than they state.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TextIO

from clew.core.errors import SourceError
from clew.index.read.guard import LARGE, MAX_RATIO, PROTECTED, gist
from clew.index.read.source import why

MAX_ENTRIES = 200_000  # a workspace of a few hundred channels has a file for every day of each
MAX_UNPACKED = 50_000_000_000  # bytes of all entries; no more than one part is read at a time
MAX_PART = 2_000_000_000  # bytes of one part
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)


class NotSpelled(SourceError):
    """A part whose bytes are not the text or the JSON that they should be, which may only mean that it is no chat."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an export: its name, what it is called in an error, and how to open it."""

    name: str
    uri: str
    open: Callable[[], io.BufferedReader]

    @property
    def stem(self) -> str:
        """Its name without folders and suffix."""
        return PurePosixPath(self.name).stem

    @contextmanager
    def text(self, *, at_sight: bool = False) -> Iterator[TextIO]:
        """The part as text: UTF-8, or what a byte order mark says; what is neither is a SourceError.

        At sight, bytes that spell nothing are passed over: an export in another encoding is known all the same, and
        refused when it is read.
        """
        try:
            with self.open() as raw:
                head = raw.peek(4)
                encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")
                with io.TextIOWrapper(raw, encoding=encoding, errors="replace" if at_sight else "strict") as file:
                    yield file
        except UnicodeDecodeError as error:
            advice = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
            raise NotSpelled(self.uri, f"is not {error.encoding.upper()} text; {advice}") from error
        except OSError as error:
            raise SourceError(self.uri, why(error)) from error
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise SourceError(self.uri, f"cannot be unpacked: its archive is broken ({gist(error)})") from error


@dataclass(frozen=True, slots=True)
class Tree:
    """The files and folders of an export, by their names below its root."""

    uri: str
    files: Callable[[str], Mapping[str, Part]]  # of a folder, by their own names, sorted
    folders: Callable[[str], list[str]]  # of a folder, sorted
    root: str = ""

    def below(self, folder: str) -> "Tree":
        """The same tree, seen from one of its folders."""
        return Tree(self.uri, self.files, self.folders, _joined(self.root, folder))

    def roots(self) -> "tuple[Tree, ...]":
        """The tree, and the only folder in it where it holds nothing else: a zip often has one around all."""
        names = self.names()
        return (self, self.below(names[0])) if len(names) == 1 and not self.parts() else (self,)

    def parts(self, folder: str = "") -> Mapping[str, Part]:
        """The files that stand right in a folder, by name; what is hidden is left out."""
        return self.files(_joined(self.root, folder))

    def names(self, folder: str = "") -> list[str]:
        """The names of the folders that stand right in a folder."""
        return self.folders(_joined(self.root, folder))


@contextmanager
def opened(path: Path) -> Iterator[Tree]:
    """The tree of a folder or a zip, open as long as it is read."""
    uri = str(path)
    if path.is_dir():
        yield Tree(uri, lambda folder: _files(path / folder), lambda folder: _folders(path / folder))
        return
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise SourceError(uri, why(error)) from error
    except _BROKEN as error:
        raise SourceError(uri, f"cannot be unpacked: its archive is broken ({gist(error)})") from error
    with archive:
        _check(archive, path.stat().st_size, uri=uri)
        shelves = _shelved(archive, uri=uri)
        nothing = _Shelf()
        yield Tree(
            uri,
            lambda folder: dict(sorted(shelves.get(folder, nothing).files.items())),
            lambda folder: sorted(shelves.get(folder, nothing).folders),
        )


def single(path: Path) -> Part:
    """A file as the only part of an export."""

    def regular() -> io.BufferedReader:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe or a device may never end
            raise SourceError(str(path), "is not a regular file")
        return path.open("rb")

    return Part(path.name, str(path), regular)


@dataclass(frozen=True, slots=True)
class _Shelf:
    files: dict[str, Part] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


def _check(archive: zipfile.ZipFile, packed: int, *, uri: str) -> None:
    """Raises a SourceError for a bomb, a locked archive, and one that names places outside itself."""
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise SourceError(uri, f"is refused: its archive has {len(entries):,} entries, more than {MAX_ENTRIES:,}")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > MAX_UNPACKED:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_UNPACKED // 1_000_000:,} MB")
    if unpacked > LARGE and unpacked > MAX_RATIO * packed:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_RATIO} times its size, as no export does")
    for entry in entries:
        if entry.flag_bits & 0x1:
            raise SourceError(uri, PROTECTED)
        path = PurePosixPath(entry.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0:1]:
            raise SourceError(uri, f"is refused: its archive names a place outside itself ({entry.filename[:80]})")


def _shelved(archive: zipfile.ZipFile, *, uri: str) -> dict[str, _Shelf]:
    """What stands in each folder of an archive; hidden files and those that macOS adds are left out."""
    shelves: dict[str, _Shelf] = {"": _Shelf()}
    for entry in archive.infolist():
        path = PurePosixPath(entry.filename)
        if not path.parts or any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
            continue
        folders = path.parts if entry.is_dir() else path.parts[:-1]
        for depth, name in enumerate(folders):
            above = "/".join(folders[:depth])
            shelves[above].folders.add(name)
            shelves.setdefault(_joined(above, name), _Shelf())
        if not entry.is_dir():
            part = Part(str(path), f"{uri}/{path}", lambda entry=entry: _entry(archive, entry, uri=uri))  # type: ignore[misc]
            shelves["/".join(folders)].files[path.name] = part
    return shelves


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *, uri: str) -> io.BufferedReader:
    if entry.file_size > MAX_PART:
        raise SourceError(f"{uri}/{entry.filename}", f"is too large: {entry.file_size:,} bytes in one file")
    return archive.open(entry)  # type: ignore[return-value]  # it reads and peeks alike


def _files(folder: Path) -> dict[str, Part]:
    return {path.name: single(path) for path in _shown(folder) if path.is_file()}


def _folders(folder: Path) -> list[str]:
    return [path.name for path in _shown(folder) if path.is_dir()]


def _shown(folder: Path) -> list[Path]:
    """What stands in a folder, sorted; what is hidden or only a link is left out."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink())
    except OSError as error:
        raise SourceError(str(folder), why(error)) from error


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
