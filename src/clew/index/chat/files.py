"""The files of a chat export (in a folder, in a zip or single), and a streaming parser of their JSON.

A tree is open for one reading; nothing is unpacked to disk. The sizes stated in a zip are checked before anything is
read, and no entry is read beyond its stated size.

The caller drives the parser: `iter_keys` (object) and `iter_items` (array) stop before each value. The caller reads the
value with `read_value`, descends into it, or ignores it to skip it. Only one value at a time is in memory.
"""

import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TextIO, TypeVar

from clew.core.errors import MalformedFile, SourceError
from clew.index.chat.normalise import ExportNotes
from clew.index.read.guard import (
    LARGE_UNPACKED_BYTES,
    MAX_RATIO,
    PASSWORD_PROTECTED,
    shorten_error_message,
    wrap_library_errors,
)
from clew.index.read.load import describe_os_error

MAX_ENTRIES = 200_000  # a workspace of a few hundred channels has a file for every day of each
MAX_UNPACKED_BYTES = 50_000_000_000  # of all entries; only one file is read at a time
MAX_FILE_BYTES = 2_000_000_000  # of one file
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)
MAX_VALUE_CHARS = 64_000_000  # of one value; a message seldom has more than a few thousand
_READ_CHARS = 1 << 16
_NUMBER_TAIL = 4  # characters needed after a number to know that it has ended: `.e+` and one more
_WHITESPACE = re.compile(r"[ \t\r\n\ufeff]*")
_DECODER = json.JSONDecoder(strict=False)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file of an export: its name, its uri for error messages, and how to open it."""

    name: str
    uri: str
    open: Callable[[], io.BufferedReader]

    @property
    def stem(self) -> str:
        """The file name without folders and suffix."""
        return PurePosixPath(self.name).stem

    @contextmanager
    def open_text(self, *, lenient: bool = False) -> Iterator[TextIO]:
        """Open the file as text, in UTF-8 or the encoding of its byte order mark; raise MalformedFile for other text.

        `lenient` replaces undecodable bytes, so that an export in another encoding is detected (and refused on read).
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
    """The files and folders of an export, by their paths below its root."""

    uri: str
    files_of: Callable[[str], Mapping[str, ExportFile]]  # files of a folder by name, sorted
    folders_of: Callable[[str], list[str]]  # names of the folders of a folder, sorted
    root: str = ""

    def get_subtree(self, folder: str) -> "ExportTree":
        """Return the tree below one of its folders."""
        return ExportTree(self.uri, self.files_of, self.folders_of, _join_path(self.root, folder))

    def find_possible_roots(self) -> "tuple[ExportTree, ...]":
        """Return the possible roots of the export: the tree, and its only folder if it holds nothing else (zips)."""
        names = self.list_folders()
        return (self, self.get_subtree(names[0])) if len(names) == 1 and not self.list_files() else (self,)

    def list_files(self, folder: str = "") -> Mapping[str, ExportFile]:
        """List the files directly in a folder by name, without hidden ones."""
        return self.files_of(_join_path(self.root, folder))

    def list_folders(self, folder: str = "") -> list[str]:
        """List the names of the folders directly in a folder."""
        return self.folders_of(_join_path(self.root, folder))


@contextmanager
def open_export_tree(path: Path, left_out: Set[str] = frozenset()) -> Iterator[ExportTree]:
    """Open the tree of a folder or zip for the `with` block; `left_out` are paths in a folder that must not be read."""
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
    """Make the ExportFile of a path; opening it raises SourceError unless it is a regular file."""

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
    """Raise SourceError for a zip bomb, a password-protected archive, and paths outside the archive."""
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
    """Return the files and folders of each folder of an archive, without hidden entries and those added by macOS."""
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
    """List the entries of a folder, sorted, without hidden ones and symbolic links."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink())
    except OSError as error:
        raise SourceError(str(folder), describe_os_error(error)) from error


def _join_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name


class JsonScanner:
    """A cursor in a JSON text that advances as values are read."""

    def __init__(self, stream: TextIO, *, uri: str) -> None:
        self._stream = stream
        self._uri = uri
        self._text = ""
        self._at = 0
        self._consumed = 0  # characters dropped from the buffer
        self._is_at_end = False

    def peek_character(self) -> str:
        """Return the first character of the next value; empty at the end."""
        while True:
            match = _WHITESPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._fill_buffer():
                return self._text[self._at : self._at + 1]

    def read_value(self) -> Any:
        """Read the next value completely."""
        self.peek_character()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._fill_buffer():
                    is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip())
                    raise self._make_syntax_error(error.msg, is_cut=is_cut) from error
                continue
            except ValueError as error:  # a number of thousands of digits
                raise self._make_syntax_error(str(error)) from error
            # A number may continue beyond the buffer: 2 may be the start of 2.5e+7.
            if len(self._text) - end >= _NUMBER_TAIL or not isinstance(value, int | float) or not self._fill_buffer():
                self._at = end
                return value

    def iter_keys(self) -> Iterator[str]:
        """Yield each key of the next object, before its value."""
        self._expect_character("{")
        if self.peek_character() == "}":
            self._at += 1
            return
        while True:
            if self.peek_character() != '"':
                raise self._make_syntax_error("a key was expected")
            key = self.read_value()
            self._expect_character(":")
            here = self._get_position()
            yield key
            self._skip_value_if_unread(here)
            if not self._has_next_element("}"):
                return

    def iter_items(self) -> Iterator[None]:
        """Yield before each value of the next array."""
        self._expect_character("[")
        if self.peek_character() == "]":
            self._at += 1
            return
        while True:
            here = self._get_position()
            yield
            self._skip_value_if_unread(here)
            if not self._has_next_element("]"):
                return

    def iter_objects(self) -> Iterator[dict[str, Any] | None]:
        """Yield the objects of the next array; None for each value that is not an object."""
        for _ in self.iter_items():
            value = self.read_value()
            yield value if isinstance(value, dict) else None

    def _skip_value_if_unread(self, here: int) -> None:
        if self._get_position() != here:
            return
        opening = self.peek_character()
        if opening not in ("{", "["):
            self.read_value()
        elif opening == "{":
            for _ in self.iter_keys():
                pass
        else:
            for _ in self.iter_items():
                pass

    def _expect_character(self, mark: str) -> None:
        if self.peek_character() != mark:
            raise self._make_syntax_error(f"{mark} was expected")
        self._at += 1

    def _has_next_element(self, closing: str) -> bool:
        mark = self.peek_character()
        if mark not in (",", closing):
            raise self._make_syntax_error(f", or {closing} was expected")
        self._at += 1
        return mark == ","

    def _get_position(self) -> int:
        self.peek_character()
        return self._consumed + self._at

    def _fill_buffer(self) -> bool:
        """Read more text; return False at the end. The buffer doubles, so that a long value is not parsed too often."""
        if self._is_at_end:
            return False
        if len(self._text) - self._at > MAX_VALUE_CHARS:
            raise self._make_syntax_error(f"a value of more than {MAX_VALUE_CHARS:,} characters")
        read = self._stream.read(max(_READ_CHARS, len(self._text) - self._at))
        if not read:
            self._is_at_end = True
            return False
        self._consumed += self._at
        self._text = self._text[self._at :] + read
        self._at = 0
        return True

    def _make_syntax_error(self, reason: str, *, is_cut: bool = False) -> MalformedFile:
        place = self._consumed + self._at
        if is_cut or (self._is_at_end and self._at >= len(self._text)):
            return MalformedFile(self._uri, f"is cut short: its JSON ends at character {place:,}; export it again")
        return MalformedFile(self._uri, f"is not valid JSON: {reason} at character {place:,}; export it again")


@contextmanager
def open_json_scanner(file: ExportFile, *, lenient: bool = False) -> Iterator[JsonScanner]:
    """Open a scanner at the beginning of a file; `lenient` ignores decoding errors, to detect the format."""
    with file.open_text(lenient=lenient) as stream:
        yield JsonScanner(stream, uri=file.uri)


def json_starts_with(file: ExportFile, opening: str) -> bool:
    """Return whether the JSON of a file begins with this character."""
    with open_json_scanner(file, lenient=True) as scanner:
        return scanner.peek_character() == opening


def read_until_failure(file: ExportFile, items: Iterable[Item], notes: ExportNotes, *, kind: str) -> Iterator[Item]:
    """Yield the items of a file up to a failure, and note that, so that other files can still be read."""
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
