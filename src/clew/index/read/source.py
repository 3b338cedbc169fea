"""The door of the readers: the bytes of one file, and the text that they spell."""

import codecs
import re
import stat
from pathlib import Path
from time import time_ns

from clew.core.errors import SourceError

SETTLED = 2_000_000_000  # nanoseconds after which the time of a file can be relied on
_NEWLINE = re.compile(r"\r\n?")
# The longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def load(path: Path, *, uri: str, max_bytes: int) -> bytes:
    """All bytes of a regular file that is not empty and not larger than the limit, which is checked before reading."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise SourceError(uri, "is a folder, not a file")
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
            raise SourceError(uri, "is not a regular file")
        if status.st_size > max_bytes:
            raise SourceError(uri, too_large(status.st_size, max_bytes))
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise SourceError(uri, why(error)) from error
    except ValueError as error:  # a NUL in the path
        raise SourceError(uri, "is not a path that a file can have") from error
    if len(data) > max_bytes:  # it grew since it was looked at
        raise SourceError(uri, too_large(len(data), max_bytes))
    if not data:
        raise SourceError(uri, "is empty")
    return data


def decode(data: bytes, *, uri: str) -> str:
    """The text, with every line ending made a newline. The encoding is UTF-8 or what a byte order mark says."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    if encoding.startswith("utf-8") and b"\0" in data:
        raise SourceError(uri, f"is not text: it has a NUL byte at offset {data.index(0)}")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise SourceError(uri, _undecodable(data, error)) from error
    return _NEWLINE.sub("\n", text) if "\r" in text else text


def stamp(path: Path) -> str:
    """The state of a file, equal as long as it is not written to, and never empty.

    A file written a moment ago could be written again within one tick of its clock, so its stamp is one of the moment.
    """
    now = time_ns()
    try:
        status = path.stat()
    except (OSError, ValueError):
        return f"unknown at {now}"
    settled = now - status.st_mtime_ns > SETTLED
    return f"{status.st_mtime_ns} {status.st_size}" if settled else f"unsettled at {now}"


def why(error: OSError) -> str:
    """The reason behind a failed look at a file or folder, in words that follow its name."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "cannot be read: no permission"
    return f"cannot be read: {(error.strerror or type(error).__name__).lower()}"


def too_large(size: int, limit: int) -> str:
    """The reason for leaving a file out, with both sizes."""
    return f"is too large: {size:,} bytes, and the limit is {limit:,} (ingestion.max_file_bytes)"


def _undecodable(data: bytes, error: UnicodeDecodeError) -> str:
    name = "UTF-8" if error.encoding.lower().startswith("utf-8") else error.encoding.upper()
    advice = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
    if error.start >= len(data):
        return f"is not {name}: it ends in the middle of a character; {advice}"
    return f"is not {name}: byte 0x{data[error.start]:02x} at offset {error.start}; {advice}"
