"""PDF: pdf-inspector's structure where its words can be trusted, else the raw text, and pictures of pages by OCR.

pdf-inspector finds headings, lists and tables, but now and then it drops half a page or reads columns across. pypdfium2
finds no structure, but every word in the order it was written. So a page's structure is taken only if its words agree
with the raw ones, and the Document says of which pages it is not.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.blocks import Block, Page, document, one_line
from clew.index.read.guard import PROTECTED, sealed
from clew.index.read.pdf.lines import Breaks, breaks_of, edges, raw_blocks, running, structured_blocks, without
from clew.index.read.pdf.ocr import has_ocr, recognised

if TYPE_CHECKING:
    import pypdfium2 as pdfium

AGREEMENT = 0.95  # share of a page's raw words that its structure must hold
ORDER = 0.9  # the same of pairs of neighbours, asked where the order is known to go wrong
PICTURE_ONLY = 20  # characters; a page with a picture and fewer of them is a scan
DPI = 150  # of the picture of a page that is given to OCR
_WORD = re.compile(r"[^\W_]+")
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_NO_TITLE = re.compile(
    r"untitled|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|pdf|ps|png|jpe?g|tiff?)$|[\W\d]*$", re.IGNORECASE
)
_PASSWORD = 4  # pdfium's number for it
_NO_PAGES = re.compile(rb"/Count\s+0\b")
_pdfium = Lock()  # the library keeps its state in one place and may not be used by two threads at once


@dataclass(frozen=True, slots=True)
class _Raw:
    """What pypdfium2 sees: the text of each page, the pages that are pictures, and the title the file gives itself."""

    texts: Sequence[str]
    pictures: Sequence[int]
    title: str


@dataclass(frozen=True, slots=True)
class _Marked:
    """What pdf-inspector makes of it: markdown by page, and the pages that have columns."""

    pages: Mapping[int, str] = field(default_factory=dict)
    columns: frozenset[int] = frozenset()


def pdf(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a PDF, with the page of every section; `meta` says how its pages were read."""
    raw = _raw(data, uri=uri)
    spoken = [page for page in range(len(raw.texts)) if page not in set(raw.pictures)]
    if not spoken and not has_ocr():
        raise SourceError(
            uri, "is scanned: its pages are pictures with no text in them; pip install 'clew[ocr]' reads them"
        )
    marked = _marked(data, uri=uri) if spoken else _Marked()
    kept = running(raw.texts)
    breaks = breaks_of(raw.texts)
    blocks: list[Block] = []
    how: dict[str, list[int]] = {"structured": [], "raw": [], "ocr": [], "unread": []}
    for page, text in enumerate(raw.texts):
        gone = edges(text, kept, page)
        said, structured = without(text, gone), without(marked.pages.get(page, ""), gone)
        found, way = _page(page, said, structured, breaks, is_doubtful=page in marked.columns)
        if page in raw.pictures:
            read = _by_ocr(data, page, uri=uri) if has_ocr() else []
            found, way = ([*found, *read], "ocr") if has_ocr() else (found, "unread")
        blocks += found
        how[way].append(page + 1)
    return document(Page(blocks, raw.title, _meta(len(raw.texts), how)), uri=uri, name=name, source_format="pdf")


def _page(page: int, text: str, markdown: str, breaks: Breaks, *, is_doubtful: bool) -> tuple[list[Block], str]:
    """The blocks of a page, and whether they are structured or raw."""
    text, markdown = breaks.joined(text), breaks.joined(markdown)
    is_doubtful = is_doubtful or len(_RIGHT_TO_LEFT.findall(text)) > len(text) / 4
    if markdown and agrees(text, markdown, ordered=is_doubtful):
        return list(structured_blocks(markdown, page=page + 1)), "structured"
    return list(raw_blocks(text, page=page + 1)), "raw"


def agrees(raw: str, structured: str, *, ordered: bool = False) -> bool:
    """Whether the structured text holds at least 95 % of the raw words, and if asked 90 % of their pairs."""
    there, here = _WORD.findall(raw), _WORD.findall(structured)
    if _share(there, here) < AGREEMENT:
        return False
    return not ordered or _share(list(pairwise(there)), list(pairwise(here))) >= ORDER


def _share(wanted: Sequence[Any], found: Sequence[Any]) -> float:
    return (Counter(wanted) & Counter(found)).total() / len(wanted) if wanted else 1.0


def _meta(pages: int, how: dict[str, list[int]]) -> dict[str, Any]:
    ways = [way for way, read in how.items() if read and way != "unread"]
    lists = {f"{way}_pages": read for way, read in how.items() if read and way != "structured" and len(read) < pages}
    return {"pages": pages, "extraction": ways[0] if len(ways) == 1 else "mixed", **lists}


def _raw(data: bytes, *, uri: str) -> _Raw:
    with sealed(uri, what="PDF"), _pdfium, _opened(data, uri=uri) as file:
        if len(file) == 0:
            raise SourceError(uri, "has no pages")
        texts: list[str] = []
        pictures: list[int] = []
        for number in range(len(file)):
            page = file[number]
            text = page.get_textpage().get_text_range()
            texts.append(text)
            if len("".join(text.split())) < PICTURE_ONLY and _has_picture(page):
                pictures.append(number)
            page.close()
        title = one_line(file.get_metadata_dict(skip_empty=True).get("Title", ""))
        return _Raw(texts, pictures, "" if _NO_TITLE.match(title) else title)


@contextmanager
def _opened(data: bytes, *, uri: str) -> Iterator["pdfium.PdfDocument"]:
    """The PDF, open for as long as the block runs."""
    try:
        import pypdfium2 as pdfium
    except ImportError as error:
        raise DriverMissing("PDF is read by pypdfium2, which is not here: pip install pypdfium2") from error
    try:
        file = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise SourceError(uri, _why(data, error)) from error
    try:
        yield file
    finally:
        file.close()


def _why(data: bytes, error: Exception) -> str:
    """Why a PDF could not be opened; the bytes are asked too, for pdfium's number may be left from a file before."""
    if getattr(error, "err_code", None) == _PASSWORD and b"/Encrypt" in data:
        return PROTECTED
    return "has no pages" if _NO_PAGES.search(data) else "is not a PDF that can be read: it is broken"


def _has_picture(page: "pdfium.PdfPage") -> bool:
    import pypdfium2.raw as pdfium_c

    return next(iter(page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE])), None) is not None


def _marked(data: bytes, *, uri: str) -> _Marked:
    """The structure of the pages; none where pdf-inspector cannot read the file at all."""
    try:
        import pdf_inspector
    except ImportError as error:
        raise DriverMissing("PDF is read by pdf-inspector, which is not here: pip install pdf-inspector") from error
    try:
        with sealed(uri, what="PDF"):
            found = pdf_inspector.extract_pages_markdown_bytes(data)
    except SourceError:  # then the raw text stands alone
        return _Marked()
    columns = frozenset(page - 1 for page in found.pages_with_columns)
    return _Marked({page.page: page.markdown for page in found.pages}, columns)


def _by_ocr(data: bytes, page: int, *, uri: str) -> Iterator[Block]:
    with sealed(uri, what="PDF"), _pdfium, _opened(data, uri=uri) as file:
        picture = file[page].render(scale=DPI / 72).to_numpy().copy()
    return recognised(picture, uri=uri, page=page + 1)
