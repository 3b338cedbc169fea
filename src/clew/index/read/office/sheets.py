"""Tables read by row: CSV and TSV files with any separator, and workbooks too large for Docling.

A workbook is streamed: memory grows with the filled cells, not with the rectangle around them.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import PurePath
from posixpath import join, normpath
from threading import Lock
from typing import IO
from xml.etree import ElementTree

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.blocks import (
    ParsedSource,
    SourceBlock,
    build_document,
    make_title_from_file_name,
    split_large_table,
)
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_with_fallbacks

MAX_CELL_CHARS = 10_000_000
_SEPARATORS = ",;\t|"
_SAMPLE_LINES = 64  # lines from which the separator is detected
_cell_limit_lock = Lock()  # the size limit of a cell is global to the csv module
MAX_DOCLING_CELLS = 300_000  # of a sheet's rectangle: Docling needs some 3 kB for each
MAX_DOCLING_BYTES = 30_000_000
MAX_CELLS = 20_000_000  # including empty ones, up to the last filled one of each row
_READ_BYTES = 1 << 20
_FILLED_CELL = re.compile(rb'<(?:\w+:)?c\s[^>]{0,200}?\br="([A-Z]{1,3})(\d{1,7})"[^>]{0,200}(?<!/)>')  # not empty
_CELL_REFERENCE = re.compile(r"([A-Z]+)\d+")
_QUOTED_FORMAT = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_BUILTIN_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_RELATION_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read_delimited(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of a CSV or TSV file: its table, split if large."""
    text = decode_with_fallbacks(data)
    with wrap_library_errors(uri, format_name="table"), _lift_cell_size_limit():
        separator = "\t" if PurePath(name).suffix.lower() == ".tsv" else _detect_separator(text)
        blocks = list(split_large_table(csv.reader(io.StringIO(text, newline=""), delimiter=separator)))
    return build_document(
        ParsedSource(blocks, make_title_from_file_name(name)), uri=uri, name=name, source_format="csv"
    )


@contextmanager
def _lift_cell_size_limit() -> Iterator[None]:
    with _cell_limit_lock:
        before = csv.field_size_limit(MAX_CELL_CHARS)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _detect_separator(text: str) -> str:
    """Detect the separator that splits most of the first lines into the same number of cells; else a comma."""
    sample = text[: 1 << 16].splitlines(keepends=True)[:_SAMPLE_LINES]
    best, choice = (0.0, 0), ","
    for separator in _SEPARATORS:
        widths = [len(row) for row in csv.reader(sample, delimiter=separator) if row]
        if not widths or max(widths) < 2:
            continue
        common = max(set(widths), key=widths.count)
        score = (widths.count(common) / len(widths) if common > 1 else 0.0, common)
        if score > best:
            best, choice = score, separator
    return choice


def is_large_workbook(data: bytes, *, uri: str) -> bool:
    """Return whether any sheet of the workbook is too large for Docling."""
    with wrap_library_errors(uri, format_name="workbook"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = [
            entry for entry in archive.infolist() if "worksheets/" in entry.filename and entry.filename.endswith("xml")
        ]
        return any(
            entry.file_size > MAX_DOCLING_BYTES or _count_spanned_cells(archive, entry) > MAX_DOCLING_CELLS
            for entry in parts
        )


def stream_visible_sheets(data: bytes, *, uri: str) -> Iterator[SourceBlock]:
    """Yield the visible sheets of a workbook, each as a heading and its tables."""
    with wrap_library_errors(uri, format_name="workbook"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        shared = list(_read_shared_strings(archive))
        dated = _read_date_styles(archive)
        for name, part in _list_visible_sheets(archive):
            yield SourceBlock("heading", name, level=1)
            with archive.open(part) as file:
                yield from split_large_table(list(_read_sheet_rows(file, shared, dated, sheet=name, uri=uri)))


def _count_spanned_cells(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    rows = columns = 0
    with archive.open(entry) as file:
        before = b""
        while chunk := file.read(_READ_BYTES):
            for letters, number in _FILLED_CELL.findall(before + chunk):
                rows = max(rows, int(number))
                columns = max(columns, _parse_column_letters(letters.decode()))
            before = chunk[-300:]
    return rows * columns


def _list_visible_sheets(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the name of each visible sheet and its path in the archive."""
    targets = {
        relation.get("Id"): normpath(join("/xl", relation.get("Target", ""))).lstrip("/")
        for relation in ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    }
    for element in ElementTree.fromstring(archive.read("xl/workbook.xml")).iter():
        part = targets.get(element.get(_RELATION_ID)) if _get_local_name(element) == "sheet" else None
        if part in archive.NameToInfo and element.get("state", "visible") == "visible":
            yield element.get("name", ""), str(part)


def _read_shared_strings(archive: zipfile.ZipFile) -> Iterator[str]:
    if "xl/sharedStrings.xml" not in archive.NameToInfo:
        return
    with archive.open("xl/sharedStrings.xml") as file:
        for element in _iter_elements(file, "si"):
            yield _join_text_runs(element)


def _read_date_styles(archive: zipfile.ZipFile) -> Sequence[bool]:
    """Return for each cell style whether it shows a number as a date or time."""
    if "xl/styles.xml" not in archive.NameToInfo:
        return ()
    root = ElementTree.fromstring(archive.read("xl/styles.xml"))
    dates = set(map(str, _BUILTIN_DATE_FORMATS))
    for element in root.iter():
        if _get_local_name(element) == "numFmt" and set(
            _QUOTED_FORMAT.sub("", element.get("formatCode", "")).lower()
        ) & set("ymdhs"):
            dates.add(element.get("numFmtId", ""))
    styles = next((element for element in root.iter() if _get_local_name(element) == "cellXfs"), ())
    return [style.get("numFmtId", "") in dates for style in styles]


def _read_sheet_rows(
    file: IO[bytes], shared: Sequence[str], dated: Sequence[bool], *, sheet: str, uri: str
) -> Iterator[list[str]]:
    room = MAX_CELLS
    for row in _iter_elements(file, "row"):
        cells: list[str] = []
        for cell in row:
            place = _CELL_REFERENCE.match(cell.get("r", ""))
            if place is not None:
                cells += [""] * min(_parse_column_letters(place[1]) - 1 - len(cells), room)
            cells.append(_format_cell_value(cell, shared, dated))
        room -= len(cells)
        if room < 0:
            raise SourceError(uri, f"is too large: its sheet {sheet!r} spans more than {MAX_CELLS:,} cells")
        if any(cells):
            yield cells


def _iter_elements(file: IO[bytes], name: str) -> Iterator[ElementTree.Element]:
    """Yield each complete element of that name, clearing it afterwards to free memory."""
    ending = f"}}{name}"
    for _, element in ElementTree.iterparse(file):
        if element.tag.endswith(ending) or element.tag == name:
            yield element
            element.clear()


def _format_cell_value(cell: ElementTree.Element, shared: Sequence[str], dated: Sequence[bool]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _join_text_runs(cell)
    raw = next((child.text or "" for child in cell if _get_local_name(child) == "v"), "")
    if kind == "s":
        return shared[int(raw)] if raw else ""
    if kind == "b":
        return "TRUE" if raw == "1" else "FALSE"
    style = int(cell.get("s", "0"))
    if kind == "n" and raw and style < len(dated) and dated[style]:
        return _format_serial_date(float(raw))
    return raw


def _format_serial_date(serial: float) -> str:
    """Format a serial number of days as a date; a number below one as a time of day."""
    if not 0 <= serial < 2_958_466:  # the year 10000
        return str(serial)
    moment = datetime(1899, 12, 30) + timedelta(seconds=round(serial * 86_400))
    return moment.strftime("%H:%M:%S") if serial < 1 else moment.isoformat(" ").removesuffix(" 00:00:00")


def _join_text_runs(element: ElementTree.Element) -> str:
    """Join the runs of a string, without phonetic hints."""
    texts = []
    for child in element:
        kind = _get_local_name(child)
        if kind == "t":
            texts.append(child.text or "")
        elif kind != "rPh":
            texts.append(_join_text_runs(child))
    return "".join(texts)


def _parse_column_letters(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number


def _get_local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
