"""The readers of rich formats by suffix: each takes the bytes of a file, because what they spell is its own affair."""

from typing import Protocol

from clew.core.types import Document
from clew.index.read.office.captions import captions
from clew.index.read.office.delimited import delimited
from clew.index.read.office.docling import NAMES, office, xml
from clew.index.read.office.mail import mail
from clew.index.read.pdf.document import pdf
from clew.index.read.pdf.ocr import PICTURES, picture
from clew.index.read.web.html import html


class RichReader(Protocol):
    """Makes a Document of the bytes of a file; `name` is the file's, for its suffix and for a title."""

    def __call__(self, data: bytes, *, uri: str, name: str) -> Document: ...


RICH: dict[str, RichReader] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), html),
    **dict.fromkeys((".csv", ".tsv"), delimited),
    **dict.fromkeys((".vtt", ".srt"), captions),
    **dict.fromkeys(PICTURES, picture),
    **dict.fromkeys(NAMES, office),
    ".eml": mail,
    ".pdf": pdf,
    ".xml": xml,
}
