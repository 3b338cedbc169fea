"""Before a rich format is parsed: whether its archive and its XML are of a size that a real document has.

The parsers behind the readers are fast and mostly hardened; this is what makes sure that no file can take the memory or
the time of the whole machine, and that whatever happens inside a library comes out as a SourceError.
"""

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.parsers import expat

from clew.core.errors import ClewError, SourceError

MAX_ENTRIES = 20_000
MAX_UNPACKED = 1_000_000_000  # bytes of all entries
MAX_XML = 400_000_000  # bytes of all entries that are parsed
MAX_RATIO = 200  # of an archive that is large when unpacked; text seldom packs better than 20 to 1
LARGE = 50_000_000
MAX_DEPTH = 500  # elements inside one another
MAX_ENTITIES = 300
_STEP = 1 << 20
_XML = (".xml", ".rels", ".vml", ".xhtml", ".opf", ".ncx", ".html", ".htm")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
PROTECTED = "is password-protected; save a copy without a password and add that"


def state(path: Path) -> tuple[int, ...]:
    """What changes when a file is written to or replaced; empty where it cannot be looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def sealed(uri: str, *, what: str) -> Iterator[None]:
    """Lets no error of a library out but as a SourceError; a Rust panic is a BaseException and counts as one."""
    try:
        yield
    except ClewError:
        raise
    except RecursionError as error:
        raise SourceError(uri, f"is not a {what} that can be read: its parts are nested too deeply") from error
    except MemoryError as error:
        raise SourceError(uri, f"is too large to be read as a {what}: it needs more memory than there is") from error
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise SourceError(uri, f"is not a {what} that can be read: {gist(error)}") from error


def gist(error: BaseException) -> str:
    """The first line of what a library says, short enough to stand in a list."""
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return line if len(line) <= 160 else f"{line[:157]}…"


def check_archive(data: bytes, *, uri: str, what: str) -> None:
    """Raises a SourceError for an archive that is no document: a bomb, one that is locked, or a broken one.

    Entries are unpacked as they are checked, because the sizes that an archive states need not be true.
    """
    if data.startswith(_OLE):
        reason = (
            PROTECTED if _ENCRYPTED in data else f"is not a {what}: it is a file of an older Office; check its name"
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
                raise SourceError(uri, PROTECTED)
            _check_total(sum(entry.file_size for entry in entries), len(data), uri=uri)
            _check_entries(archive, entries, len(data), uri=uri)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        raise SourceError(uri, f"is not a {what} that can be read: its archive is broken ({gist(error)})") from error


def _check_total(unpacked: int, packed: int, *, uri: str) -> None:
    if unpacked > MAX_UNPACKED:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_UNPACKED // 1_000_000:,} MB")
    if unpacked > LARGE and unpacked > MAX_RATIO * packed:
        raise SourceError(uri, f"is refused: it unpacks to more than {MAX_RATIO} times its size, as no document does")


def _check_entries(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], packed: int, *, uri: str) -> None:
    total = parsed = 0
    for entry in entries:
        is_xml = entry.filename.lower().endswith(_XML)
        with archive.open(entry) as file:
            chunks = iter(lambda file=file: file.read(_STEP), b"")  # type: ignore[misc]
            for size in check_xml(chunks, uri=uri) if is_xml else map(len, chunks):
                total += size
                parsed += size if is_xml else 0
                _check_total(total, packed, uri=uri)
                if parsed > MAX_XML:
                    raise SourceError(uri, f"is too large: it holds more than {MAX_XML // 1_000_000} MB of XML")


def check_xml(chunks: Iterable[bytes], *, uri: str) -> Iterator[int]:
    """The size of each chunk, as long as the XML is neither nested too deeply nor full of entities.

    What is not well-formed is left to the reader to judge: here parsing then stops, and the rest is only counted.
    """
    depth = entities = 0

    def start(_name: str, _attributes: list[str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise SourceError(uri, f"is refused: its XML is nested more than {MAX_DEPTH} levels deep")

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def entity(_name: str, _is_parameter: int, value: str | None, *_rest: object) -> None:
        nonlocal entities
        entities += 1
        if entities > MAX_ENTITIES or (value is not None and ("&" in value or "%" in value or len(value) > 1000)):
            raise SourceError(uri, "is refused: its XML declares entities that expand to more than they say")

    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = entity
    well_formed = True
    for chunk in chunks:
        try:
            if well_formed:
                parser.Parse(chunk, False)
        except (expat.ExpatError, ValueError, LookupError):  # also an encoding that Python does not know
            well_formed = False
        yield len(chunk)
