"""Readers, the first step of the write path: the bytes of a file become a Document, by the suffix of its name.

`formats.READERS` is the table of the formats that Clew reads itself. A program adds a format, or replaces one, with a
`Reader` of its own: `readers={".foo": read_foo}`. `load` opens and decodes files, `validate` checks and completes
Documents made outside. The text of a Document is markdown, plain text or code; `meta["format"]` says which.
"""

import os
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path

from clew.core.errors import SettingsError, SourceError
from clew.core.ids import make_document_id
from clew.core.protocols import Reader
from clew.core.types import Document
from clew.index.read.formats import READERS, TEXT_NAMES, TEXT_SUFFIXES, read_plain_bytes
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import get_file_state, is_decodable_text, read_bytes_within_limit
from clew.index.read.office.speech import AUDIO_SUFFIXES, is_speech_installed
from clew.index.read.outline import make_title_from_file_name
from clew.index.read.pdf.ocr import IMAGE_SUFFIXES, is_ocr_installed
from clew.index.read.process.limits import DEFAULT_LIMITS, ReadLimits
from clew.index.read.process.pool import read_in_process
from clew.index.read.validate import validate_document

MAX_TEXT_HERE = 2_000_000  # bytes of Markdown and the like: a parser may need three hundred times as much memory

# What is read from a folder: images and recordings only where what they need is installed. A file that is named by
# itself is always tried.
SUFFIXES = (
    frozenset(READERS)
    - frozenset(() if is_ocr_installed() else IMAGE_SUFFIXES)
    - frozenset(() if is_speech_installed() else AUDIO_SUFFIXES)
)
SLOW_SUFFIXES = ((".pdf",), (*IMAGE_SUFFIXES, *AUDIO_SUFFIXES))  # files that may take seconds, the slowest last


def has_known_format(name: str, suffixes: Set[str] = SUFFIXES) -> bool:
    """Whether a file of this name is read from a folder: by its suffix, or as text by a name such as README."""
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 (many times faster than a Path)
    return suffix in suffixes if suffix else name.lower() in TEXT_NAMES


def read_file(
    path: Path,
    *,
    uri: str,
    max_bytes: int = 100_000_000,
    readers: Mapping[str, Reader] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Document:
    """The Document of a file, or a SourceError that says why it cannot be read.

    `readers` go before Clew's own; a suffix that neither knows is read as plain text if it is text. Anything but short
    text is read in another process within `limits`; a program's own reader is called here.
    """
    before = get_file_state(path)
    data = read_bytes_within_limit(path, uri=uri, max_bytes=max_bytes)
    if get_file_state(path) != before:
        raise SourceError(uri, "changed while it was read; add it again")
    suffix = path.suffix.lower()
    if readers and suffix in readers:
        return _read_with_custom_reader(readers[suffix], data, uri=uri, name=path.name)
    reader = READERS.get(suffix)
    if reader is None and not is_decodable_text(data):
        formats = ", ".join(sorted(SUFFIXES.union(readers or ())))
        raise SourceError(uri, f"is not a format Clew reads; it reads plain text and {formats}")
    if reader is None or (suffix in TEXT_SUFFIXES and len(data) <= MAX_TEXT_HERE):
        return (reader or read_plain_bytes)(data, uri=uri, name=path.name)
    return read_in_process(suffix, data, uri=uri, name=path.name, limits=limits)


def check_reader_suffixes(readers: Mapping[str, Reader]) -> None:
    """Raises a SettingsError for a key that no suffix can equal: a suffix is lower-case and begins with a dot."""
    for suffix in readers:
        if suffix != Path(f"name{suffix}").suffix.lower() or len(suffix) < 2:
            raise SettingsError(
                f"a reader is for {suffix!r}; name the file suffix with its dot, in lower case, like '.org'"
            )


def get_reader_name(reader: Reader) -> str:
    """The name of a reader for the stamp of its files, so that they are read again when another reader takes over."""
    if stamp := getattr(reader, "stamp", None):  # of a plugin
        return str(stamp)
    named = reader if hasattr(reader, "__qualname__") else type(reader)
    return f"{named.__module__}.{named.__qualname__}"


def _read_with_custom_reader(reader: Reader, data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a program's own reader; Clew sets its id and uri, and title and sections if it has none."""
    with wrap_library_errors(uri, format_name=f"{Path(name).suffix} file"):
        made = reader(data, uri)
    if not isinstance(made, Document | str):
        raise SourceError(uri, f"was read as {type(made).__name__}; a reader must return a Document or a text")
    document = Document("", made) if isinstance(made, str) else made
    document = validate_document(replace(document, id=make_document_id(uri), uri=uri))
    return document if document.title else replace(document, title=make_title_from_file_name(name))
