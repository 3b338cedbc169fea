"""Readers, the first step of the write path: the bytes of a file become a Document, by the suffix of its name.

`READERS` is the table of built-in formats. A program adds or replaces a format with its own `Reader`:
`readers={".foo": read_foo}`. `load` opens and decodes files, `sections` checks and completes Documents made by
programs. The text of a Document is markdown, plain text or code, according to `meta["format"]`.
"""

import os
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from clew.core.errors import SettingsError, SourceError
from clew.core.ids import make_document_id
from clew.core.protocols import Reader
from clew.core.types import Document
from clew.index.read.blocks import make_title_from_file_name
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_text, get_file_state, is_decodable_text, read_bytes_within_limit
from clew.index.read.office.docling import FORMAT_NAMES, read_office, read_xml
from clew.index.read.office.mail import read_mail
from clew.index.read.office.recordings import AUDIO_SUFFIXES, is_speech_installed, read_captions, read_speech
from clew.index.read.office.sheets import read_delimited
from clew.index.read.pdf.document import read_pdf
from clew.index.read.pdf.ocr import IMAGE_SUFFIXES, is_ocr_installed, read_image
from clew.index.read.process.limits import DEFAULT_LIMITS, ReadLimits
from clew.index.read.process.pool import read_in_process
from clew.index.read.sections import validate_document
from clew.index.read.text.code import LANGUAGES, read_code
from clew.index.read.text.markdown import read_markdown
from clew.index.read.text.notebook import read_notebook
from clew.index.read.text.plain import read_plain_text, read_rst
from clew.index.read.text.tex import read_tex
from clew.index.read.web.html import read_html

MAX_TEXT_HERE = 2_000_000  # bytes of text parsed in this process: a parser may need three hundred times as much memory


class TextReader(Protocol):
    """A function from decoded text to a Document; `name` is the file name, the title of a text without one."""

    def __call__(self, text: str, *, uri: str, name: str) -> Document: ...


class FileReader(Protocol):
    """A function from the bytes of a file to a Document; `name` is the file name, for the suffix and the title."""

    def __call__(self, data: bytes, *, uri: str, name: str) -> Document: ...


def _make_bytes_reader(reader: TextReader) -> FileReader:
    """Make a FileReader that decodes the bytes and passes the text to a TextReader."""

    def read_text(data: bytes, *, uri: str, name: str) -> Document:
        text = decode_text(data, uri=uri)
        if not text.strip():
            raise SourceError(uri, "is empty: it holds nothing but white space")
        return reader(text, uri=uri, name=name)

    return read_text


read_plain_bytes = _make_bytes_reader(read_plain_text)
_TEXT_READERS: dict[str, FileReader] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx"), _make_bytes_reader(read_markdown)),
    **dict.fromkeys((".txt", ".text", ".log", ".org", ".wiki", ".mediawiki", ".textile"), read_plain_bytes),
    **dict.fromkeys((".conf", ".properties", ".graphql", ".tf", ".vue", ".svelte"), read_plain_bytes),
    ".rst": _make_bytes_reader(read_rst),
    **dict.fromkeys(LANGUAGES, _make_bytes_reader(read_code)),
}
# Names of text files without a suffix; other files may be anything, including keys.
TEXT_NAMES = frozenset(
    (
        *("readme", "license", "licence", "copying", "copyright", "notice", "authors", "contributors", "maintainers"),
        *("changes", "changelog", "history", "news", "todo", "install", "contributing", "security", "codeowners"),
        *("makefile", "dockerfile", "containerfile", "jenkinsfile", "vagrantfile", "procfile", "gemfile", "rakefile"),
    )
)
TEXT_SUFFIXES = frozenset(_TEXT_READERS)  # time and memory depend only on the size of the file
READERS: dict[str, FileReader] = {
    **_TEXT_READERS,
    **dict.fromkeys((".html", ".htm", ".xhtml"), read_html),
    **dict.fromkeys((".csv", ".tsv"), read_delimited),
    **dict.fromkeys((".vtt", ".srt"), read_captions),
    **dict.fromkeys(IMAGE_SUFFIXES, read_image),
    **dict.fromkeys(AUDIO_SUFFIXES, read_speech),
    **dict.fromkeys(FORMAT_NAMES, read_office),
    **dict.fromkeys((".tex", ".ltx", ".latex"), _make_bytes_reader(read_tex)),
    ".eml": read_mail,
    ".ipynb": _make_bytes_reader(read_notebook),
    ".pdf": read_pdf,
    ".xml": read_xml,
}
# Suffixes read from a folder: images and recordings only if their packages are installed. A file given by name is
# always tried.
SUFFIXES = (
    frozenset(READERS)
    - frozenset(() if is_ocr_installed() else IMAGE_SUFFIXES)
    - frozenset(() if is_speech_installed() else AUDIO_SUFFIXES)
)
SLOW_SUFFIXES = ((".pdf",), (*IMAGE_SUFFIXES, *AUDIO_SUFFIXES))  # files that may take seconds, the slowest last


def has_known_format(name: str, suffixes: Set[str] = SUFFIXES) -> bool:
    """Return whether a file of this name is read from a folder, by its suffix or by a name such as README."""
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
    """Return the Document of a file; raise SourceError if it cannot be read.

    `readers` take precedence over the built-in ones. An unknown suffix is read as plain text if it is text. Short texts
    are read in this process, and custom readers run in it; everything else is read in another process within `limits`.
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
    """Raise SettingsError for a key that is not a lower-case suffix with a dot."""
    for suffix in readers:
        if suffix != Path(f"name{suffix}").suffix.lower() or len(suffix) < 2:
            raise SettingsError(
                f"a reader is for {suffix!r}; name the file suffix with its dot, in lower case, like '.org'"
            )


def get_reader_name(reader: Reader) -> str:
    """Return the name of a reader for the stamp of its files, so that another reader reads them again."""
    if stamp := getattr(reader, "stamp", None):  # of a plugin
        return str(stamp)
    named = reader if hasattr(reader, "__qualname__") else type(reader)
    return f"{named.__module__}.{named.__qualname__}"


def _read_with_custom_reader(reader: Reader, data: bytes, *, uri: str, name: str) -> Document:
    """Read with a custom reader. Clew sets the id and uri, and the title and sections if missing."""
    with wrap_library_errors(uri, format_name=f"{Path(name).suffix} file"):
        made = reader(data, uri)
    if not isinstance(made, Document | str):
        raise SourceError(uri, f"was read as {type(made).__name__}; a reader must return a Document or a text")
    document = Document("", made) if isinstance(made, str) else made
    document = validate_document(replace(document, id=make_document_id(uri), uri=uri))
    return document if document.title else replace(document, title=make_title_from_file_name(name))
