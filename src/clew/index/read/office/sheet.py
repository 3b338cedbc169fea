"""Workbooks too vast for Docling, row by row: memory grows with the cells that are filled, not with the rectangle."""

import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from posixpath import join, normpath
from typing import IO
from xml.etree import ElementTree

from clew.core.errors import SourceError
from clew.index.read.blocks import Block
from clew.index.read.guard import sealed
from clew.index.read.tables import tables

VAST = 300_000  # cells of a sheet's rectangle: Docling takes some 3 kB for each
VAST_BYTES = 30_000_000
MOST_CELLS = 20_000_000  # empty ones counted, up to the last of each row
_STEP = 1 << 20
_CELL = re.compile(rb'<(?:\w+:)?c\s[^>]{0,200}?\br="([A-Z]{1,3})(\d{1,7})"[^>]{0,200}(?<!/)>')  # with something in it
_REFERENCE = re.compile(r"([A-Z]+)\d+")
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def is_vast(data: bytes, *, uri: str) -> bool:
    """Whether any sheet of the workbook spans more cells than Docling should be given."""
    with sealed(uri, what="workbook"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = [
            entry for entry in archive.infolist() if "worksheets/" in entry.filename and entry.filename.endswith("xml")
        ]
        return any(entry.file_size > VAST_BYTES or _area(archive, entry) > VAST for entry in parts)


def sheets(data: bytes, *, uri: str) -> Iterator[Block]:
    """The visible sheets of the workbook, each a heading and its tables."""
    with sealed(uri, what="workbook"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        shared = list(_shared(archive))
        dated = _dated(archive)
        for name, part in _parts(archive):
            yield Block("heading", name, level=1)
            with archive.open(part) as file:
                yield from tables(list(_rows(file, shared, dated, sheet=name, uri=uri)))


def _area(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    rows = columns = 0
    with archive.open(entry) as file:
        before = b""
        while chunk := file.read(_STEP):
            for letters, number in _CELL.findall(before + chunk):
                rows = max(rows, int(number))
                columns = max(columns, _column(letters.decode()))
            before = chunk[-300:]
    return rows * columns


def _parts(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """The name of each visible sheet and where it stands in the archive."""
    targets = {
        relation.get("Id"): normpath(join("/xl", relation.get("Target", ""))).lstrip("/")
        for relation in ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    }
    for element in ElementTree.fromstring(archive.read("xl/workbook.xml")).iter():
        part = targets.get(element.get(_RELATION)) if _local(element) == "sheet" else None
        if part in archive.NameToInfo and element.get("state", "visible") == "visible":
            yield element.get("name", ""), str(part)


def _shared(archive: zipfile.ZipFile) -> Iterator[str]:
    if "xl/sharedStrings.xml" not in archive.NameToInfo:
        return
    with archive.open("xl/sharedStrings.xml") as file:
        for element in _ended(file, "si"):
            yield _text(element)


def _dated(archive: zipfile.ZipFile) -> Sequence[bool]:
    """For each style whether it shows a number as a date or a time."""
    if "xl/styles.xml" not in archive.NameToInfo:
        return ()
    root = ElementTree.fromstring(archive.read("xl/styles.xml"))
    dates = set(map(str, _DATES))
    for element in root.iter():
        if _local(element) == "numFmt" and set(_QUOTED.sub("", element.get("formatCode", "")).lower()) & set("ymdhs"):
            dates.add(element.get("numFmtId", ""))
    styles = next((element for element in root.iter() if _local(element) == "cellXfs"), ())
    return [style.get("numFmtId", "") in dates for style in styles]


def _rows(
    file: IO[bytes], shared: Sequence[str], dated: Sequence[bool], *, sheet: str, uri: str
) -> Iterator[list[str]]:
    room = MOST_CELLS
    for row in _ended(file, "row"):
        cells: list[str] = []
        for cell in row:
            place = _REFERENCE.match(cell.get("r", ""))
            if place is not None:
                cells += [""] * min(_column(place[1]) - 1 - len(cells), room)
            cells.append(_value(cell, shared, dated))
        room -= len(cells)
        if room < 0:
            raise SourceError(uri, f"is too large: its sheet {sheet!r} spans more than {MOST_CELLS:,} cells")
        if any(cells):
            yield cells


def _ended(file: IO[bytes], name: str) -> Iterator[ElementTree.Element]:
    """Each element of that name when it is complete; it is forgotten afterwards."""
    ending = f"}}{name}"
    for _, element in ElementTree.iterparse(file):
        if element.tag.endswith(ending) or element.tag == name:
            yield element
            element.clear()


def _value(cell: ElementTree.Element, shared: Sequence[str], dated: Sequence[bool]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    raw = next((child.text or "" for child in cell if _local(child) == "v"), "")
    if kind == "s":
        return shared[int(raw)] if raw else ""
    if kind == "b":
        return "TRUE" if raw == "1" else "FALSE"
    style = int(cell.get("s", "0"))
    if kind == "n" and raw and style < len(dated) and dated[style]:
        return _date(float(raw))
    return raw


def _date(serial: float) -> str:
    """The date that a number of days stands for; a number below one is a time of day."""
    if not 0 <= serial < 2_958_466:  # the year 10000
        return str(serial)
    moment = datetime(1899, 12, 30) + timedelta(seconds=round(serial * 86_400))
    return moment.strftime("%H:%M:%S") if serial < 1 else moment.isoformat(" ").removesuffix(" 00:00:00")


def _text(element: ElementTree.Element) -> str:
    """The text of a string, its runs joined; how it is pronounced is left out."""
    texts = []
    for child in element:
        kind = _local(child)
        if kind == "t":
            texts.append(child.text or "")
        elif kind != "rPh":
            texts.append(_text(child))
    return "".join(texts)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
