"""The readers that Clew has itself, by the suffix of a file's name."""

from typing import Protocol

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.load import decode_text
from clew.index.read.office.captions import captions
from clew.index.read.office.delimited import delimited
from clew.index.read.office.docling import FORMAT_NAMES, office, xml
from clew.index.read.office.mail import mail
from clew.index.read.pdf.document import pdf
from clew.index.read.pdf.ocr import IMAGE_SUFFIXES, image
from clew.index.read.text.code import LANGUAGES, code
from clew.index.read.text.markdown import markdown
from clew.index.read.text.plain import plain
from clew.index.read.web.html import html


class TextReader(Protocol):
    """Makes a Document of decoded text; `name` is the file's name, used as the title where the text has none."""

    def __call__(self, text: str, *, uri: str, name: str) -> Document: ...


class FileReader(Protocol):
    """Makes a Document of the bytes of a file; `name` is the file's name, for its suffix and as a title."""

    def __call__(self, data: bytes, *, uri: str, name: str) -> Document: ...


def _decode_first(reader: TextReader) -> FileReader:
    """The reader of text as a reader of bytes."""

    def read_text(data: bytes, *, uri: str, name: str) -> Document:
        text = decode_text(data, uri=uri)
        if not text.strip():
            raise SourceError(uri, "is empty: it holds nothing but white space")
        return reader(text, uri=uri, name=name)

    return read_text


read_plain = _decode_first(plain)
READERS: dict[str, FileReader] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx"), _decode_first(markdown)),
    **dict.fromkeys((".txt", ".text", ".log", ".rst"), read_plain),
    **dict.fromkeys(LANGUAGES, _decode_first(code)),
    **dict.fromkeys((".html", ".htm", ".xhtml"), html),
    **dict.fromkeys((".csv", ".tsv"), delimited),
    **dict.fromkeys((".vtt", ".srt"), captions),
    **dict.fromkeys(IMAGE_SUFFIXES, image),
    **dict.fromkeys(FORMAT_NAMES, office),
    ".eml": mail,
    ".pdf": pdf,
    ".xml": xml,
}
