"""Guards of the readers against hostile files: limits on archives and XML, and conversion of library errors.

The parsers behind the readers are mostly hardened. These checks ensure that no file can exhaust the memory or time of
the machine, and that every error inside a library becomes a SourceError.
"""

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from xml.parsers import expat

from clew.core.errors import ClewError, SourceError

MAX_ENTRIES = 20_000
MAX_UNPACKED_BYTES = 1_000_000_000  # of all entries
MAX_XML_BYTES = 400_000_000  # of all parsed entries
MAX_RATIO = 200  # unpacked to packed, for large archives; text seldom packs better than 20 to 1
LARGE_UNPACKED_BYTES = 50_000_000
MAX_DEPTH = 500  # nested elements
MAX_ENTITIES = 300
_READ_BYTES = 1 << 20
_XML_SUFFIXES = (".xml", ".rels", ".vml", ".xhtml", ".opf", ".ncx", ".html", ".htm")
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")
PASSWORD_PROTECTED = "is password-protected; save a copy without a password and add that"


@contextmanager
def wrap_library_errors(uri: str, *, format_name: str) -> Iterator[None]:
    """Convert every error of a library to a SourceError, including a Rust panic, which is a BaseException."""
    try:
        yield
    except ClewError:
        raise
    except RecursionError as error:
        raise SourceError(uri, f"is not a readable {format_name}: it is nested too deeply") from error
    except MemoryError as error:
        raise SourceError(
            uri, f"is too large to be read as a {format_name}: it needs more memory than there is"
        ) from error
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise SourceError(uri, f"is not a readable {format_name}: {shorten_error_message(error)}") from error


def shorten_error_message(error: BaseException) -> str:
    """Return the first line of an error message, or the last line of a traceback, at most 160 characters."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = lines[-1 if lines[0].startswith("Traceback ") else 0]
    return line if len(line) <= 160 else f"{line[:157]}…"


def check_archive_safety(data: bytes, *, uri: str, format_name: str) -> None:
    """Raise SourceError for an archive that is a zip bomb, password-protected or broken.

    Entries are unpacked to check them, because the sizes stated in an archive may be wrong.
    """
    if data.startswith(_OLE_MAGIC):
        reason = (
            PASSWORD_PROTECTED
            if _ENCRYPTED_STREAM in data
            else f"is not a {format_name} but a file of an older Office; correct its suffix"
        )
        raise SourceError(uri, reason)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise SourceError(
                    uri, f"is refused: its archive has {len(entries):,} entries, more than {MAX_ENTRIES:,}"
                )
            if any(entry.flag_bits & 0x1 for entry in entries):
                raise SourceError(uri, PASSWORD_PROTECTED)
            _check_unpacked_size(sum(entry.file_size for entry in entries), len(data), uri=uri)
            _check_unpacked_entries(archive, entries, len(data), uri=uri)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        raise SourceError(
            uri, f"is not a readable {format_name}: its archive is broken ({shorten_error_message(error)})"
        ) from error


def _check_unpacked_size(unpacked: int, packed: int, *, uri: str) -> None:
    if unpacked > MAX_UNPACKED_BYTES:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000:,} MB")
    if unpacked > LARGE_UNPACKED_BYTES and unpacked > MAX_RATIO * packed:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_RATIO} times its size, as no document does")


def _check_unpacked_entries(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], packed: int, *, uri: str) -> None:
    total = parsed = 0
    for entry in entries:
        is_xml = entry.filename.lower().endswith(_XML_SUFFIXES)
        with archive.open(entry) as file:
            chunks = iter(lambda file=file: file.read(_READ_BYTES), b"")  # type: ignore[misc]
            for size in check_xml_safety(chunks, uri=uri) if is_xml else map(len, chunks):
                total += size
                parsed += size if is_xml else 0
                _check_unpacked_size(total, packed, uri=uri)
                if parsed > MAX_XML_BYTES:
                    raise SourceError(uri, f"is too large: it holds more than {MAX_XML_BYTES // 1_000_000} MB of XML")


def check_xml_safety(chunks: Iterable[bytes], *, uri: str) -> Iterator[int]:
    """Yield the size of each chunk; raise SourceError if the XML is nested too deeply or declares dangerous entities.

    Malformed XML is left to the reader: parsing stops here, and the rest is only counted.
    """
    depth = entities = 0

    def on_start(_name: str, _attributes: list[str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise SourceError(uri, f"is refused: its XML is nested more than {MAX_DEPTH} levels deep")

    def on_end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def on_entity(_name: str, _is_parameter: int, value: str | None, *_rest: object) -> None:
        nonlocal entities
        entities += 1
        if entities > MAX_ENTITIES or (value is not None and ("&" in value or "%" in value or len(value) > 1000)):
            raise SourceError(uri, "is refused: its XML declares entities that expand without limit")

    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = on_start
    parser.EndElementHandler = on_end
    parser.EntityDeclHandler = on_entity
    well_formed = True
    for chunk in chunks:
        try:
            if well_formed:
                parser.Parse(chunk, False)
        except (expat.ExpatError, ValueError, LookupError):  # also an encoding that Python does not know
            well_formed = False
        yield len(chunk)
