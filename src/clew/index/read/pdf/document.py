"""PDF: pdf-inspector's structure if its text is complete, else the raw text, and OCR for scanned pages.

pdf-inspector finds headings, lists and tables, but sometimes drops half a page or reads across columns. pypdfium2 finds
no structure, but every word in the order of the file. So the structure of a page is used only if it has the raw words
in the raw order; `meta` lists the other pages.

A file almost always has its lines in reading order. Text read across columns keeps the words of a line together but
separates each line from the next, so the line ends reveal it, even on a short page.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, collapse_whitespace
from clew.index.read.guard import PASSWORD_PROTECTED, wrap_library_errors
from clew.index.read.pdf.lines import (
    HyphenJoins,
    find_hyphen_joins,
    find_running_lines,
    match_running_lines,
    measure_usual_line,
    parse_pdf_date,
    parse_raw_page,
    parse_structured_page,
    raise_title,
    remove_edge_lines,
)
from clew.index.read.pdf.ocr import is_ocr_installed, recognise_text
from clew.index.read.pdf.rulings import Rows, find_ruled_tables, place_ruled_tables
from clew.index.read.process.limits import check_page_count, start_pages

if TYPE_CHECKING:
    import pypdfium2 as pdfium


MIN_WORD_OVERLAP = 0.95  # share of the raw words of a page that its structured text must have
MIN_PAIR_OVERLAP = 0.9  # the same for pairs of adjacent words, on pages whose order is often wrong
MAX_SCAN_CHARS = 20  # a page with a picture and fewer characters is a scan
OCR_DPI = 150  # resolution of a page rendered for OCR
_WORD = re.compile(r"[^\W_]+")
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_NO_TITLE = re.compile(
    r"untitled|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|pdf|ps|png|jpe?g|tiff?|html?)$|[\W\d]*$", re.IGNORECASE
)
_PASSWORD_ERROR = 4  # pdfium's error code
_NO_PAGES = re.compile(rb"/Count\s+0\b")
_pdfium_lock = Lock()  # pdfium has global state and is not thread-safe


@dataclass(frozen=True, slots=True)
class _RawPages:
    """The raw content from pypdfium2: the text of each page, scanned pages, title, date and ruled tables."""

    texts: Sequence[str]
    scans: frozenset[int]
    title: str
    date: str = ""
    tables: Mapping[int, Sequence[Rows]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _StructuredPages:
    """The structure from pdf-inspector: markdown by page, and the pages with columns."""

    pages: Mapping[int, str] = field(default_factory=dict)
    columns: frozenset[int] = frozenset()


def read_pdf(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of a PDF, with the page of every section; `meta` records how each page was read."""
    raw = _extract_raw_pages(data, uri=uri)
    if len(raw.scans) == len(raw.texts) and not is_ocr_installed():
        raise SourceError(uri, "is scanned: its pages are pictures without text; to read them: pip install 'clew[ocr]'")
    start_pages(len(raw.texts))
    structured = _extract_structured_pages(data, uri=uri) if len(raw.scans) < len(raw.texts) else _StructuredPages()
    running_lines = find_running_lines(raw.texts)
    joins = find_hyphen_joins(raw.texts)
    blocks: list[SourceBlock] = []
    pages_by_method: dict[str, list[int]] = {"structured": [], "reordered": [], "raw": [], "ocr": [], "unread": []}
    for page, page_text in enumerate(raw.texts):
        dropped = match_running_lines(page_text, running_lines, page)
        text, markdown = (
            remove_edge_lines(page_text, dropped),
            remove_edge_lines(structured.pages.get(page, ""), dropped),
        )
        found, method = _choose_page_blocks(page, text, markdown, joins, is_doubtful=page in structured.columns)
        if page in raw.scans and is_ocr_installed():
            start_pages()
            found, method = [*found, *_recognise_scanned_page(data, page, uri=uri)], "ocr"
        elif page in raw.scans:
            method = "unread"
        tables = [[list(map(joins.join_hyphenated_words, row)) for row in rows] for rows in raw.tables.get(page, ())]
        blocks += place_ruled_tables(found, tables, page=page + 1)
        pages_by_method[method].append(page + 1)
    meta = {**_make_extraction_meta(len(raw.texts), pages_by_method), **({"date": raw.date} if raw.date else {})}
    parsed = ParsedSource(raise_title(blocks), raw.title, meta)
    return build_document(parsed, uri=uri, name=name, source_format="pdf")


def _choose_page_blocks(
    page: int, text: str, markdown: str, joins: HyphenJoins, *, is_doubtful: bool
) -> tuple[list[SourceBlock], str]:
    """Choose the blocks of a page; return also their method: "structured", "reordered" or "raw"."""
    text = joins.join_hyphenated_words(text)
    markdown = join_split_words(joins.join_hyphenated_words(markdown), text)
    is_doubtful = is_doubtful or len(_RIGHT_TO_LEFT.findall(text)) > len(text) / 4
    if not markdown or not has_same_words(text, markdown):
        return list(parse_raw_page(text, page=page + 1)), "raw"
    lines = [line.strip() for line in text.splitlines()]
    found = parse_structured_page(markdown, page=page + 1)
    blocks = list(drop_repeated_headers(split_off_headings(found, lines, measure_usual_line(lines))))
    if reads_across_columns(text, markdown) or (is_doubtful and not has_same_words(text, markdown, check_order=True)):
        return list(order_by_raw_lines(blocks, text, page=page + 1)), "reordered"
    return blocks, "structured"


def has_same_words(raw: str, structured: str, *, check_order: bool = False) -> bool:
    """Return whether 95 % of the raw words are in the structured text, and with `check_order` 90 % of their pairs."""
    expected, found = _WORD.findall(raw), _WORD.findall(structured)
    if _compute_word_overlap(expected, found) < MIN_WORD_OVERLAP:
        return False
    return not check_order or _compute_word_overlap(list(pairwise(expected)), list(pairwise(found))) >= MIN_PAIR_OVERLAP


def _compute_word_overlap(expected: Sequence[Any], found: Sequence[Any]) -> float:
    return (Counter(expected) & Counter(found)).total() / len(expected) if expected else 1.0


def _make_extraction_meta(pages: int, pages_by_method: dict[str, list[int]]) -> dict[str, Any]:
    methods = [method for method, read in pages_by_method.items() if read and method != "unread"]
    lists = {
        f"{method}_pages": read
        for method, read in pages_by_method.items()
        if read and method != "structured" and len(read) < pages
    }
    return {"pages": pages, "extraction": methods[0] if len(methods) == 1 else "mixed", **lists}


def _extract_raw_pages(data: bytes, *, uri: str) -> _RawPages:
    with wrap_library_errors(uri, format_name="PDF"), _pdfium_lock, _open_pdf(data, uri=uri) as file:
        if len(file) == 0:
            raise SourceError(uri, "has no pages")
        check_page_count(len(file), uri=uri)
        texts: list[str] = []
        scans: set[int] = set()
        tables: dict[int, Sequence[Rows]] = {}
        for number in range(len(file)):
            start_pages()
            page = file[number]
            text_page = page.get_textpage()
            text = text_page.get_text_range()
            texts.append(text)
            tables[number] = find_ruled_tables(page, text_page)
            if len("".join(text.split())) < MAX_SCAN_CHARS and _has_picture(page):
                scans.add(number)
            page.close()
        stated = file.get_metadata_dict(skip_empty=True)
        title = collapse_whitespace(stated.get("Title", ""))
        date = parse_pdf_date(stated.get("ModDate", "")) or parse_pdf_date(stated.get("CreationDate", ""))
        return _RawPages(texts, frozenset(scans), "" if _NO_TITLE.match(title) else title, date, tables)


@contextmanager
def _open_pdf(data: bytes, *, uri: str) -> Iterator["pdfium.PdfDocument"]:
    """Open the PDF for the `with` block."""
    try:
        import pypdfium2 as pdfium
    except ImportError as error:
        raise DriverMissing("reading PDF needs pypdfium2: pip install pypdfium2") from error
    try:
        file = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise SourceError(uri, _describe_open_error(data, error)) from error
    try:
        yield file
    finally:
        file.close()


def _describe_open_error(data: bytes, error: Exception) -> str:
    """Explain why a PDF could not be opened. Check the bytes too: pdfium's error code may be an earlier file's."""
    if getattr(error, "err_code", None) == _PASSWORD_ERROR and b"/Encrypt" in data:
        return PASSWORD_PROTECTED
    return "has no pages" if _NO_PAGES.search(data) else "is not a readable PDF: it is broken"


def _has_picture(page: "pdfium.PdfPage") -> bool:
    import pypdfium2.raw as pdfium_c

    return next(iter(page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE])), None) is not None


def _extract_structured_pages(data: bytes, *, uri: str) -> _StructuredPages:
    """Extract the structure of the pages; empty if pdf-inspector cannot read the file."""
    try:
        import pdf_inspector
    except ImportError as error:
        raise DriverMissing("reading PDF needs pdf-inspector: pip install pdf-inspector") from error
    try:
        with wrap_library_errors(uri, format_name="PDF"):
            found = pdf_inspector.extract_pages_markdown_bytes(data)
    except SourceError:  # use only the raw text
        return _StructuredPages()
    columns = frozenset(page - 1 for page in found.pages_with_columns)
    return _StructuredPages({page.page: page.markdown for page in found.pages}, columns)


def _recognise_scanned_page(data: bytes, page: int, *, uri: str) -> Iterator[SourceBlock]:
    with wrap_library_errors(uri, format_name="PDF"), _pdfium_lock, _open_pdf(data, uri=uri) as file:
        picture = file[page].render(scale=OCR_DPI / 72).to_numpy().copy()
    return recognise_text(picture, uri=uri, page=page + 1)


MAX_HEADING_SHARE = 0.75  # of a full line: length up to which a line may be a heading
MAX_TITLE_CHARS = 200
_LETTERS = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[^\W\d_]")
MIN_LINE_WORDS = 4  # of a line of prose; shorter lines are cells and labels
MIN_LINE_ENDS = 2  # line ends in prose needed to judge the order
MIN_KEPT_LINE_ENDS = 0.75  # share of line ends at which the structured text must continue with the next line
MAX_LINES = 3_000  # of a page that is reordered
MAX_HEADINGS = 300


def join_split_words(structured: str, raw: str) -> str:
    """Join words that a narrow gap split in the structured text, if the raw text has them whole."""
    there = _WORD.findall(raw)
    missing = Counter(there) - Counter(_WORD.findall(structured))
    if not missing:
        return structured
    adjacent = set(pairwise(there))
    parts: list[str] = []
    at = 0
    for first, second in pairwise(_LETTERS.finditer(structured)):
        whole = first[0] + second[0]
        is_split = first.start() >= at and structured[first.end() : second.start()] == " " and missing[whole] > 0
        if is_split and (first[0], second[0]) not in adjacent:
            parts += (structured[at : first.start()], whole)
            at = second.end()
            missing[whole] -= 1
    return "".join([*parts, structured[at:]])


def split_off_headings(blocks: Iterable[SourceBlock], lines: Sequence[str], usual: int) -> Iterator[SourceBlock]:
    """Yield the blocks, splitting off a numbered title at the start of a paragraph if it is a short separate line."""
    short = {
        " ".join(line.split()): below.split()[0]
        for line, below in pairwise(lines)
        if _NUMBERED.match(line) and len(line) <= MAX_HEADING_SHARE * usual and line.rstrip()[-1].isalnum() and below
    }
    for block in blocks:
        words = block.text[:MAX_TITLE_CHARS].split() if short and block.kind == "paragraph" else []
        title = next((title for title in _list_beginnings(words) if title in short), "")
        rest = block.text.split(maxsplit=len(title.split()))[-1] if title else ""
        if rest.split(maxsplit=1)[:1] == [short.get(title, "")] and rest[0].isupper():
            yield replace(block, kind="heading", text=title, level=title.split()[0].strip(".").count(".") + 1)
            yield replace(block, text=rest)
        else:
            yield block


def _list_beginnings(words: Sequence[str]) -> Iterator[str]:
    """Yield the first two words, the first three, and so on up to nineteen, but never all words."""
    return (" ".join(words[:count]) for count in range(2, min(len(words), 20)))


def drop_repeated_headers(blocks: Iterable[SourceBlock]) -> Iterator[SourceBlock]:
    """Yield the blocks without a paragraph that repeats the header of the table above it."""
    header: list[str] = []
    for block in blocks:
        if block.kind == "paragraph" and len(header) > 1 and _WORD.findall(block.text) == header:
            header = []
            continue
        header = _WORD.findall(block.text.split("\n", 1)[0]) if block.kind == "table" else []
        yield block


def reads_across_columns(raw: str, structured: str) -> bool:
    """Return whether the structured text does not continue with the next line at many ends of prose lines."""
    lines = [_WORD.findall(line) for line in raw.splitlines()]
    ends = [(line[-1], below[0]) for line, below in pairwise(lines) if min(len(line), len(below)) >= MIN_LINE_WORDS]
    inside = Counter(pair for line in lines for pair in pairwise(line))
    kept = (Counter(ends) & (Counter(pairwise(_WORD.findall(structured))) - inside)).total()
    return len(ends) >= MIN_LINE_ENDS and kept < MIN_KEPT_LINE_ENDS * len(ends)


def order_by_raw_lines(blocks: Sequence[SourceBlock], text: str, *, page: int) -> Iterator[SourceBlock]:
    """Yield the raw text of a page, with the structure's headings, tables and code at the place of their lines."""
    lines = [line.strip() for line in text.splitlines()]
    whole = {_join_words(_WORD.findall(line)) for line in lines}
    parts = [_Part(block) for block in blocks if block.kind == "heading" or _has_whole_lines(block, whole)]
    if len(lines) > MAX_LINES or len(parts) > MAX_HEADINGS:
        yield from parse_raw_page(text, page=page)
        return
    usual = measure_usual_line(lines)
    prose: list[str] = []
    heading: SourceBlock | None = None
    for line in lines:
        words = _WORD.findall(line)
        part = next((part for part in parts if part.take(words)), None) if words else None
        if heading is not None and (part is None or part.block.kind != "heading" or not _goes_on(heading, part, line)):
            yield heading
            heading = None
        if part is None:
            prose.append(line)
            continue
        yield from parse_raw_page("\n".join(prose), page=page, usual=usual)
        prose = []
        if part.block.kind == "heading":
            heading = replace(heading or part.block, text=f"{heading.text} {line}" if heading else line)
        elif part.is_first:
            yield part.block
    if heading is not None:
        yield heading
    yield from parse_raw_page("\n".join(prose), page=page, usual=usual)


def _has_whole_lines(block: SourceBlock, lines: Set[str]) -> bool:
    """Return whether each row of a table or line of code is a line of the page, and not torn out of columns."""
    if block.kind not in ("table", "code"):
        return False
    rows = (_WORD.findall(row) for row in block.text.splitlines())
    return all(_join_words(row) in lines for row in rows if row)


def _goes_on(heading: SourceBlock, part: "_Part", line: str) -> bool:
    """Return whether a heading continues in the next line: it did in the structure, or the line starts lower-case."""
    return part.block.level == heading.level and (part.goes_on or line[:1].islower())


class _Part:
    """A block of the structure, and its words that no line has claimed yet."""

    def __init__(self, block: SourceBlock) -> None:
        self.block = block
        self.is_first = True
        self.goes_on = False
        self._text = _join_words(_WORD.findall(block.text))
        self._end = -1
        self._left = Counter(_WORD.findall(block.text))
        self._taken = False

    def take(self, words: Sequence[str]) -> bool:
        """Claim the words of a line if it belongs to this block; return whether it does."""
        if not self._left.total() or any(word not in self._left for word in words):
            return False
        run = _join_words(words)
        begin = self._text.find(run)
        if begin < 0 or not Counter(words) <= self._left:
            return False
        self.is_first, self._taken = not self._taken, True
        self.goes_on = begin == self._end
        self._end = begin + len(run) - 1
        self._left -= Counter(words)
        return True


def _join_words(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "
