"""Ruled tables of PDF pages: drawn lines show the cells more reliably than gaps between words.

A table replaces the blocks that have exactly its words; if there are none, nothing changes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from clew.index.read.blocks import SourceBlock, split_large_table

if TYPE_CHECKING:
    import pypdfium2 as pdfium

MAX_OBJECTS = 20_000  # a page with more is not searched for rulings
MAX_TABLES = 20  # per page
MAX_CHECKS = 20_000_000  # cells of a page times its characters: pdfium checks each character for every cell
MAX_CELL_CHARS = 500  # a longer cell is a column of text in a frame
MAX_THICKNESS = 3.0  # points
MIN_LENGTH = 6.0  # points
SNAP = 4.0  # points: nearer rulings are the two sides of one border
MIN_COVERAGE = 0.5  # share of a table's height or width that a border must cover

Rows = Sequence[Sequence[str]]
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class _Ruling:
    """A drawn horizontal or vertical line: its position across its direction, and its two ends."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class _Grid:
    """The borders of a table: `across` from the left, `down` from the top."""

    across: Sequence[float]
    down: Sequence[float]


def find_ruled_tables(page: "pdfium.PdfPage", text_page: "pdfium.PdfTextPage") -> list[Rows]:
    """Find the tables with lines around their cells on a page, as rows of texts."""
    across, down = _collect_rulings(page)
    if len(across) < 3 or len(down) < 3:
        return []
    grids = list(islice(_find_grids(across, down), MAX_TABLES))
    cells = sum(len(grid.across) * len(grid.down) for grid in grids)
    if cells * text_page.count_chars() > MAX_CHECKS:
        return []
    tables = (_read_cells(grid, text_page) for grid in grids)
    return [rows for rows in tables if _is_table(rows)]


def _collect_rulings(page: "pdfium.PdfPage") -> tuple[list[_Ruling], list[_Ruling]]:
    """Collect the horizontal and the vertical lines of a page, including the sides of framed rectangles."""
    import pypdfium2.raw as pdfium_c

    across: list[_Ruling] = []
    down: list[_Ruling] = []
    if pdfium_c.FPDFPage_CountObjects(page) > MAX_OBJECTS:
        return across, down
    for path in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_PATH], max_depth=1):
        left, bottom, right, top = path.get_bounds()
        if top - bottom <= MAX_THICKNESS and right - left >= MIN_LENGTH:
            across.append(_Ruling((bottom + top) / 2, left, right))
        elif right - left <= MAX_THICKNESS and top - bottom >= MIN_LENGTH:
            down.append(_Ruling((left + right) / 2, bottom, top))
        elif right - left >= MIN_LENGTH and top - bottom >= MIN_LENGTH and _is_frame(path):
            across += (_Ruling(bottom, left, right), _Ruling(top, left, right))
            down += (_Ruling(left, bottom, top), _Ruling(right, bottom, top))
    return across, down


def _is_frame(path: "pdfium.PdfObject") -> bool:
    """Return whether a path is a rectangle with a drawn outline."""
    import ctypes

    import pypdfium2.raw as pdfium_c

    fill, stroke = ctypes.c_int(), ctypes.c_int()
    is_known = pdfium_c.FPDFPath_GetDrawMode(path, fill, stroke)
    return bool(is_known and stroke.value and pdfium_c.FPDFPath_CountSegments(path) in (4, 5))


def _find_grids(across: Sequence[_Ruling], down: Sequence[_Ruling]) -> Iterator[_Grid]:
    """Yield the grids from top to bottom; vertical rulings that overlap or touch in height are in one grid."""
    spans = sorted([(ruling.start, ruling.end, ruling) for ruling in down], key=lambda span: span[0])
    stacks: list[list[_Ruling]] = []
    top = float("-inf")
    for start, end, ruling in spans:
        if not stacks or start > top + SNAP:
            stacks.append([])
        stacks[-1].append(ruling)
        top = max(top, end)
    lines = sorted(across, key=lambda ruling: ruling.at)
    first = 0
    found: list[_Grid] = []
    for stack in stacks:
        low, high = min(each.start for each in stack) - SNAP, max(each.end for each in stack) + SNAP
        while first < len(lines) and lines[first].at < low:
            first += 1
        begin = first
        while first < len(lines) and lines[first].at <= high:
            first += 1
        columns, rows = _find_borders(stack), _find_borders(lines[begin:first])
        if len(columns) >= 3 and len(rows) >= 3:
            found.append(_Grid(columns, rows[::-1]))
    yield from reversed(found)


def _find_borders(rulings: Sequence[_Ruling]) -> list[float]:
    """Find the positions of borders that cover MIN_COVERAGE of a table; rulings within SNAP count as one."""
    if not rulings:
        return []
    ordered = sorted(rulings, key=lambda ruling: ruling.at)
    length = max(each.end for each in ordered) - min(each.start for each in ordered)
    groups: list[list[_Ruling]] = [[ordered[0]]]
    for before, ruling in pairwise(ordered):
        if ruling.at - before.at > SNAP:
            groups.append([])
        groups[-1].append(ruling)
    return [(group[0].at + group[-1].at) / 2 for group in groups if _measure_coverage(group) >= MIN_COVERAGE * length]


def _measure_coverage(rulings: Sequence[_Ruling]) -> float:
    """Measure the total length covered by the lines."""
    covered, reached = 0.0, float("-inf")
    for ruling in sorted(rulings, key=lambda each: each.start):
        covered += max(0.0, ruling.end - max(ruling.start, reached))
        reached = max(reached, ruling.end)
    return covered


def _read_cells(grid: _Grid, text_page: "pdfium.PdfTextPage") -> Rows:
    return [
        [text_page.get_text_bounded(left, bottom, right, top).strip() for left, right in pairwise(grid.across)]
        for top, bottom in pairwise(grid.down)
    ]


def _is_table(rows: Rows) -> bool:
    """Return whether the cells have short texts, in at least two rows and two columns."""
    if any(len(cell) > MAX_CELL_CHARS for row in rows for cell in row):
        return False
    columns = zip(*rows, strict=True)
    return sum(map(any, rows)) >= 2 and sum(map(any, columns)) >= 2


def place_ruled_tables(blocks: Sequence[SourceBlock], tables: Sequence[Rows], *, page: int) -> list[SourceBlock]:
    """Replace the blocks with exactly the words of a table by the table."""
    found = list(blocks)
    for rows in tables:
        units = [unit for block in found for unit in _split_lines(block)]
        words = [word for row in rows for cell in row for word in _WORD.findall(cell)]
        span = _find_span([_WORD.findall(unit.text) for unit in units], words)
        if span is None or _has_more_columns(units[slice(*span)], rows):
            continue
        start, end = span
        table = split_large_table(rows, page=page)
        found = [*_join_lines(units[:start]), *table, *_join_lines(units[end:])]
    return found


def _split_lines(block: SourceBlock) -> Iterator[SourceBlock]:
    if block.kind != "paragraph":
        yield block
        return
    for number, line in enumerate(block.text.splitlines()):
        yield replace(block, text=line, marker="" if number == 0 else "+")


def _join_lines(units: Sequence[SourceBlock]) -> Iterator[SourceBlock]:
    """Join the lines of each paragraph again."""
    lines: list[SourceBlock] = []
    for unit in units:
        if lines and (unit.kind != "paragraph" or unit.marker != "+"):
            yield replace(lines[0], text="\n".join(line.text for line in lines), marker="")
            lines = []
        if unit.kind == "paragraph":
            lines.append(unit)
        else:
            yield unit
    if lines:
        yield replace(lines[0], text="\n".join(line.text for line in lines), marker="")


def _find_span(units: Sequence[Sequence[str]], words: Sequence[str]) -> tuple[int, int] | None:
    """Find the range of adjacent units with exactly these words, in any order."""
    wanted = Counter(words)
    missing = dict(wanted)  # from units[start:end]; negative for words that are there too often
    wrong = len(wanted)  # number of different words with a wrong count
    start = 0
    size = 0

    def count(word: str, change: int) -> int:
        before = missing.get(word, 0)
        missing[word] = before - change
        return (before == 0) - (missing[word] == 0)

    for end, unit in enumerate(units, 1):
        for word in unit:
            wrong += count(word, 1)
        size += len(unit)
        while size > len(words) or (start < end and not units[start] and size):
            for word in units[start]:
                wrong += count(word, -1)
            size -= len(units[start])
            start += 1
        if wrong == 0 and size == len(words) and size:
            return start, end
    return None


def _has_more_columns(blocks: Sequence[SourceBlock], rows: Rows) -> bool:
    """Return whether the blocks already include a table with more columns."""
    width = sum(any(column) for column in zip(*rows, strict=True))
    tops = [block.text.split("\n", 1)[0] for block in blocks if block.kind == "table"]
    return any(len(re.findall(r"(?<!\\)\|", top)) - 1 > width for top in tops)
