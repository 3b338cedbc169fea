"""Loading of files for the readers: bytes within the size limit, file state, and text in any encoding.

charset-normalizer distinguishes scripts, such as Cyrillic and Japanese, and recognises binary data. Among the Latin
encodings it prefers rare ones, so these are detected here.
"""

import codecs
import errno
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from clew.core.errors import SourceError

SETTLED_NS = 2_000_000_000  # age from which a modification time is reliable
_NEWLINE = re.compile(r"\r\n?")
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"""^\s*<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9_.:-]{1,40})""")
# Longest first: the mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MAX_HIGH_SHARE = 0.4  # share of non-ASCII letters in a Latin text
MAX_RUN_LENGTH = 1.8  # mean length of a run of non-ASCII letters
MAX_CONTROL_SHARE = 0.005  # share of control characters in a text
_CANDIDATES = (
    *("cp1251", "koi8-r", "cp1253", "cp1255", "cp1256"),
    *("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"),
)
_SAMPLE_BYTES = 200_000
# Polish, Hungarian and related letters, decoded as Western European, become signs in the middle of a word.
_SIGN_IN_WORD = re.compile(r"[^\W\d_][³¹¿¥£¼¾][^\W\d_]")
_MIN_SIGNS = 2
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_ASCII_LETTER = re.compile(rb"[A-Za-z]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_TRUNCATED = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]{1}|[\xf0-\xf4][\x80-\xbf]{1,2})\Z")


def read_bytes_within_limit(path: Path, *, uri: str, max_bytes: int) -> bytes:
    """Read a regular file; raise SourceError if it is empty or over the limit, which is checked before reading."""
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
    if len(data) > max_bytes:  # the file grew since its size was checked
        raise SourceError(uri, describe_size_limit(len(data), max_bytes))
    if not data:
        raise SourceError(uri, "is empty")
    return data


def decode_text(data: bytes, *, uri: str) -> str:
    """Decode a text, converting line endings to newlines.

    The encoding is that of the byte order mark, else UTF-8, else a detected legacy encoding.
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
    """Return whether the bytes are text, in UTF-8 or a detected encoding."""
    try:
        decode_text(data, uri="")
    except SourceError:
        return False
    return True


def decode_with_fallbacks(data: bytes, *, charset: str = "") -> str:
    """Decode with the first that works: byte order mark, `charset`, HTML or XML declaration, UTF-8, CP-1252."""
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
    """Return time, size and inode of a file, to detect a change while it is read."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists; one that cannot be checked, as without permission, counts as existing."""
    try:
        return path.exists()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG


def is_file_there(path: Path) -> bool:
    """Return whether a file exists; one that cannot be checked, as without permission, counts as existing."""
    try:
        return path.is_file()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; False if it cannot be checked."""
    try:
        return path.is_dir()
    except OSError:
        return False


class FileStatus(NamedTuple):
    """The state of a file before it is read.

    The stamp is stored with its document. It is never empty, and changes when the file is written to.
    """

    stamp: str
    size: int = 0
    modified: datetime | None = None


def read_file_status(path: Path) -> FileStatus:
    """Return the stamp, size and time of a file.

    A file modified in the last two seconds could change again within one clock tick, so it gets a unique stamp.
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
    """Explain why a file or folder cannot be read, worded to follow its name."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "cannot be read: no permission"
    return f"cannot be read: {(error.strerror or type(error).__name__).lower()}"


def describe_size_limit(size: int, limit: int) -> str:
    """Explain why a file over the size limit is skipped, worded to follow its name."""
    return f"is too large: {size:,} bytes, and the limit is {limit:,} (ingestion.max_file_bytes)"


def _detect_bom_encoding(data: bytes) -> str:
    """Detect the encoding of a byte order mark; empty without one."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "")


def _describe_decode_error(data: bytes, error: UnicodeDecodeError) -> str:
    name = "UTF-8" if error.encoding.lower().startswith("utf-8") else error.encoding.upper()
    advice = "save it as UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
    if error.start >= len(data):
        return f"is not {name}: it ends in the middle of a character; {advice}"
    return f"is not {name}: byte 0x{data[error.start]:02x} at offset {error.start}; {advice}"


def detect_legacy_encoding(data: bytes) -> str:
    """Detect the encoding of a text that is not UTF-8; empty if unknown, or if it is UTF-8 that was cut off."""
    if _is_truncated_utf8(data):
        return ""
    if _looks_latin(data[:_SAMPLE_BYTES]):
        western = data.decode("cp1252", "replace")
        if len(_SIGN_IN_WORD.findall(western)) >= _MIN_SIGNS and _decodes(data, "cp1250"):
            return "cp1250"
        return "cp1252" if _decodes(data, "cp1252") else "latin-1"
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE_BYTES], cp_isolation=list(_CANDIDATES)).best()
    return best.encoding if best is not None and _decodes(data, best.encoding) else ""


def _looks_latin(data: bytes) -> bool:
    """Return whether the bytes are text with few and isolated non-ASCII letters, like accented ones."""
    runs = _HIGH_RUN.findall(data)
    high, plain = sum(map(len, runs)), len(_ASCII_LETTER.findall(data))
    is_text = len(_CONTROL.findall(data)) <= MAX_CONTROL_SHARE * len(data)
    return is_text and bool(runs) and high <= MAX_HIGH_SHARE * (high + plain) and high <= MAX_RUN_LENGTH * len(runs)


def _is_truncated_utf8(data: bytes) -> bool:
    """Return whether the bytes are UTF-8 but for a last character cut off after more than its first byte."""
    cut = _TRUNCATED.search(data[-4:])
    if cut is None or len(cut[0]) < 2:
        return False
    try:
        data[: -len(cut[0])].decode()
    except UnicodeDecodeError:
        return False
    return True


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
