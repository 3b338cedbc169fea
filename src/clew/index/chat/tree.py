"""The files of a chat export behind one interface: a folder, a zip or a single file; nothing is unpacked to disk.

A tree is opened for one reading and closed with it. The sizes that a zip states are checked before anything is read,
and no entry is read beyond its stated size.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TextIO

from clew.core.errors import MalformedFile, SourceError
from clew.index.read.guard import LARGE_UNPACKED_BYTES, MAX_RATIO, PASSWORD_PROTECTED, shorten_error_message
from clew.index.read.load import describe_os_error

MAX_ENTRIES = 200_000  # a workspace of a few hundred channels has a file for every day of each
MAX_UNPACKED_BYTES = 50_000_000_000  # of all entries; only one file is read at a time
MAX_FILE_BYTES = 2_000_000_000  # of one file
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file of an export: its name, its uri for error messages, and how to open it."""

    name: str
    uri: str
    open: Callable[[], io.BufferedReader]

    @property
    def stem(self) -> str:
        """The name without folders and suffix."""
        return PurePosixPath(self.name).stem

    @contextmanager
    def open_text(self, *, lenient: bool = False) -> Iterator[TextIO]:
        """The file opened as text, in UTF-8 or the encoding of its byte order mark; anything else is a MalformedFile.

        `lenient` replaces bytes that cannot be decoded, so that an export in another encoding is still detected, and
        then refused when it is read.
        """
        try:
            with self.open() as raw:
                head = raw.peek(4)
                encoding = next((name for mark, name in _BYTE_ORDER_MARKS if head.startswith(mark)), "utf-8")
                with io.TextIOWrapper(raw, encoding=encoding, errors="replace" if lenient else "strict") as file:
                    yield file
        except UnicodeDecodeError as error:
            advice = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
            raise MalformedFile(self.uri, f"is not {error.encoding.upper()} text; {advice}") from error
        except OSError as error:
            raise SourceError(self.uri, describe_os_error(error)) from error
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise SourceError(
                self.uri, f"cannot be unpacked: its archive is broken ({shorten_error_message(error)})"
            ) from error


@dataclass(frozen=True, slots=True)
class ExportTree:
    """The files and folders of an export, addressed by their names below its root."""

    uri: str
    files_of: Callable[[str], Mapping[str, ExportFile]]  # of a folder, by their own names, sorted
    folders_of: Callable[[str], list[str]]  # of a folder, sorted
    root: str = ""

    def get_subtree(self, folder: str) -> "ExportTree":
        """The same tree with one of its folders as the root."""
        return ExportTree(self.uri, self.files_of, self.folders_of, _join_path(self.root, folder))

    def find_possible_roots(self) -> "tuple[ExportTree, ...]":
        """Where the export may begin: the tree, and its only folder if it holds nothing else, as in many zips."""
        names = self.list_folders()
        return (self, self.get_subtree(names[0])) if len(names) == 1 and not self.list_files() else (self,)

    def list_files(self, folder: str = "") -> Mapping[str, ExportFile]:
        """The files directly in a folder, by name, without hidden ones."""
        return self.files_of(_join_path(self.root, folder))

    def list_folders(self, folder: str = "") -> list[str]:
        """The names of the folders directly in a folder."""
        return self.folders_of(_join_path(self.root, folder))


@contextmanager
def open_export_tree(path: Path, left_out: Set[str] = frozenset()) -> Iterator[ExportTree]:
    """The tree of a folder or a zip, open within the `with` block; `left_out` are paths of a folder not to be read."""
    uri = str(path)
    if path.is_dir():

        def list_entries(folder: str) -> list[Path]:
            found = _list_visible_entries(path / folder)
            return [each for each in found if _join_path(folder, each.name) not in left_out]

        yield ExportTree(
            uri,
            lambda folder: {each.name: make_export_file(each) for each in list_entries(folder) if each.is_file()},
            lambda folder: [each.name for each in list_entries(folder) if each.is_dir()],
        )
        return
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise SourceError(uri, describe_os_error(error)) from error
    except _ARCHIVE_ERRORS as error:
        raise SourceError(uri, f"cannot be unpacked: its archive is broken ({shorten_error_message(error)})") from error
    with archive:
        _check_archive_safety(archive, path.stat().st_size, uri=uri)
        folders = _index_archive(archive, uri=uri)
        empty = _FolderEntries()
        yield ExportTree(
            uri,
            lambda folder: dict(sorted(folders.get(folder, empty).files.items())),
            lambda folder: sorted(folders.get(folder, empty).folders),
        )


def make_export_file(path: Path) -> ExportFile:
    """An export that is a single file."""

    def open_regular() -> io.BufferedReader:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe or a device may never end
            raise SourceError(str(path), "is not a regular file")
        return path.open("rb")

    return ExportFile(path.name, str(path), open_regular)


@dataclass(frozen=True, slots=True)
class _FolderEntries:
    files: dict[str, ExportFile] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


def _check_archive_safety(archive: zipfile.ZipFile, packed: int, *, uri: str) -> None:
    """Raises a SourceError for a zip bomb, a password-protected archive, and one with paths outside itself."""
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise SourceError(uri, f"is refused: its archive has {len(entries):,} entries, more than {MAX_ENTRIES:,}")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > MAX_UNPACKED_BYTES:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000:,} MB")
    if unpacked > LARGE_UNPACKED_BYTES and unpacked > MAX_RATIO * packed:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_RATIO} times its size, as no export does")
    for entry in entries:
        if entry.flag_bits & 0x1:
            raise SourceError(uri, PASSWORD_PROTECTED)
        path = PurePosixPath(entry.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0:1]:
            raise SourceError(uri, f"is refused: its archive has a path outside itself ({entry.filename[:80]})")


def _index_archive(archive: zipfile.ZipFile, *, uri: str) -> dict[str, _FolderEntries]:
    """The files and folders of each folder of an archive, without hidden ones and those that macOS adds."""
    entries: dict[str, _FolderEntries] = {"": _FolderEntries()}
    for item in archive.infolist():
        path = PurePosixPath(item.filename)
        if not path.parts or any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
            continue
        folders = path.parts if item.is_dir() else path.parts[:-1]
        for depth, name in enumerate(folders):
            above = "/".join(folders[:depth])
            entries[above].folders.add(name)
            entries.setdefault(_join_path(above, name), _FolderEntries())
        if not item.is_dir():
            part = ExportFile(str(path), f"{uri}/{path}", lambda item=item: _open_archive_entry(archive, item, uri=uri))  # type: ignore[misc]
            entries["/".join(folders)].files[path.name] = part
    return entries


def _open_archive_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *, uri: str) -> io.BufferedReader:
    if entry.file_size > MAX_FILE_BYTES:
        raise SourceError(f"{uri}/{entry.filename}", f"is too large: {entry.file_size:,} bytes in one file")
    return archive.open(entry)  # type: ignore[return-value]  # ZipExtFile reads and peeks alike


def _list_visible_entries(folder: Path) -> list[Path]:
    """The entries of a folder, sorted, without hidden ones and symbolic links."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink())
    except OSError as error:
        raise SourceError(str(folder), describe_os_error(error)) from error


def _join_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
