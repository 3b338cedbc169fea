"""Loads one file for the readers: its bytes within the size limit, its state, and its decoded text."""

import codecs
import errno
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from clew.core.errors import SourceError
from clew.index.read.encoding import detect_legacy_encoding

SETTLED_NS = 2_000_000_000  # age of a modification time from which it can be relied on
_NEWLINE = re.compile(r"\r\n?")
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"""^\s*<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9_.:-]{1,40})""")
# The longest first: the mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_bytes_within_limit(path: Path, *, uri: str, max_bytes: int) -> bytes:
    """The bytes of a regular file that is neither empty nor over the limit, which is checked before reading."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise SourceError(uri, "is a folder, not a file")
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
            raise SourceError(uri, "is not a regular file")
        if status.st_size > max_bytes:
            raise SourceError(uri, describe_size_limit(status.st_size, max_bytes))
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise SourceError(uri, describe_os_error(error)) from error
    except ValueError as error:  # a NUL in the path
        raise SourceError(uri, "is not a valid path") from error
    if len(data) > max_bytes:  # it grew since its size was checked
        raise SourceError(uri, describe_size_limit(len(data), max_bytes))
    if not data:
        raise SourceError(uri, "is empty")
    return data


def decode_text(data: bytes, *, uri: str) -> str:
    """The text with line endings made newlines.

    The encoding is that of the byte order mark, else UTF-8, else a legacy one that is detected.
    """
    encoding = _detect_bom_encoding(data) or "utf-8"
    if encoding.startswith("utf-8") and b"\0" in data:
        raise SourceError(uri, f"is not text: it has a NUL byte at offset {data.index(0)}")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        legacy = detect_legacy_encoding(data) if encoding == "utf-8" else ""
        if not legacy:
            raise SourceError(uri, _describe_decode_error(data, error)) from error
        text = data.decode(legacy)
    return _NEWLINE.sub("\n", text) if "\r" in text else text


def is_decodable_text(data: bytes) -> bool:
    """Whether the bytes are text, in UTF-8 or an encoding that is detected."""
    try:
        decode_text(data, uri="")
    except SourceError:
        return False
    return True


def decode_with_fallbacks(data: bytes, *, charset: str = "") -> str:
    """The text in the first of these that fits: byte order mark, `charset`, HTML or XML declaration, UTF-8, CP-1252."""
    declared = _META_CHARSET.search(data[:4096]) or _XML_CHARSET.search(data[:200])
    for encoding in (_detect_bom_encoding(data), charset, declared[1].decode() if declared else "", "utf-8"):
        try:
            known = codecs.lookup(encoding).name if encoding else ""
            if known:
                return data.decode("cp1252" if known in ("iso8859-1", "ascii") else known)
        except (LookupError, UnicodeDecodeError):
            continue
    return data.decode("cp1252", "replace")


def get_file_state(path: Path) -> tuple[int, ...]:
    """Time, size and inode of a file, to see that it did not change while it was read; empty if it has no status."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def is_there(path: Path) -> bool:
    """Whether there is a file or folder at a path; one that may not be asked about counts as there."""
    try:
        return path.exists()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG


def is_file_there(path: Path) -> bool:
    """Whether there is a file at a path; one that may not be asked about counts as there."""
    try:
        return path.is_file()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG


def is_folder(path: Path) -> bool:
    """Whether a path is known to be a folder."""
    try:
        return path.is_dir()
    except OSError:
        return False


class FileStatus(NamedTuple):
    """The state of a file before it is read.

    The stamp is kept with its document: equal as long as the file is not written to, never empty.
    """

    stamp: str
    size: int = 0
    modified: datetime | None = None


def read_file_status(path: Path) -> FileStatus:
    """The stamp, size and time of a file.

    A file modified in the last two seconds could change again within one tick of its clock, so its stamp is unique.
    """
    now = time_ns()
    try:
        status = path.stat()
        modified = datetime.fromtimestamp(int(status.st_mtime), UTC)
    except (OSError, ValueError, OverflowError):
        return FileStatus(f"unknown at {now}")
    settled = now - status.st_mtime_ns > SETTLED_NS
    stamp = f"{status.st_mtime_ns} {status.st_size}" if settled else f"unsettled at {now}"
    return FileStatus(stamp, status.st_size, modified)


def describe_os_error(error: OSError) -> str:
    """The reason why a file or folder cannot be read, worded to follow its name."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "cannot be read: no permission"
    return f"cannot be read: {(error.strerror or type(error).__name__).lower()}"


def describe_size_limit(size: int, limit: int) -> str:
    """The reason for skipping a file over the size limit, worded to follow its name."""
    return f"is too large: {size:,} bytes, and the limit is {limit:,} (ingestion.max_file_bytes)"


def _detect_bom_encoding(data: bytes) -> str:
    """The encoding that a byte order mark names; empty without one."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "")


def _describe_decode_error(data: bytes, error: UnicodeDecodeError) -> str:
    name = "UTF-8" if error.encoding.lower().startswith("utf-8") else error.encoding.upper()
    advice = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
    if error.start >= len(data):
        return f"is not {name}: it ends in the middle of a character; {advice}"
    return f"is not {name}: byte 0x{data[error.start]:02x} at offset {error.start}; {advice}"
