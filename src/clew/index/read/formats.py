"""The readers that Clew has itself, by the suffix of a file's name."""

from typing import Protocol

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.load import decode_text
from clew.index.read.office.captions import read_captions
from clew.index.read.office.delimited import read_delimited
from clew.index.read.office.docling import FORMAT_NAMES, read_office, read_xml
from clew.index.read.office.mail import read_mail
from clew.index.read.office.speech import AUDIO_SUFFIXES, read_speech
from clew.index.read.pdf.document import read_pdf
from clew.index.read.pdf.ocr import IMAGE_SUFFIXES, read_image
from clew.index.read.text.code import LANGUAGES, read_code
from clew.index.read.text.markdown import read_markdown
from clew.index.read.text.notebook import read_notebook
from clew.index.read.text.plain import read_plain_text
from clew.index.read.text.rst import read_rst
from clew.index.read.text.tex import read_tex
from clew.index.read.web.html import read_html


class TextReader(Protocol):
    """Makes a Document of decoded text; `name` is the file's name, used as the title where the text has none."""

    def __call__(self, text: str, *, uri: str, name: str) -> Document: ...


class FileReader(Protocol):
    """Makes a Document of the bytes of a file; `name` is the file's name, for its suffix and as a title."""

    def __call__(self, data: bytes, *, uri: str, name: str) -> Document: ...


def _make_bytes_reader(reader: TextReader) -> FileReader:
    """A reader of bytes that decodes them and passes the text to a reader of text."""

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
# Files without a suffix that hold text by their names; others may be anything, also keys.
TEXT_NAMES = frozenset(
    (
        *("readme", "license", "licence", "copying", "copyright", "notice", "authors", "contributors", "maintainers"),
        *("changes", "changelog", "history", "news", "todo", "install", "contributing", "security", "codeowners"),
        *("makefile", "dockerfile", "containerfile", "jenkinsfile", "vagrantfile", "procfile", "gemfile", "rakefile"),
    )
)
TEXT_SUFFIXES = frozenset(_TEXT_READERS)  # read in time and memory that grow with the size of the file alone
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
