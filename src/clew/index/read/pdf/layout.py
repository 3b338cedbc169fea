"""Layout rules of PDF pages: columns are no table; titles and dates."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clew.core.time import parse_iso_or_none
from clew.index.read.blocks import MAX_HEADING_LEVEL, SourceBlock

MIN_COLUMN_ROWS = 4  # of a table that may be columns of prose
MAX_COLUMNS = 3
MIN_PROSE_CHARS = 20  # of a usual cell in a column of prose
MIN_CONTINUED_SHARE = 0.5  # of its rows in which a sentence goes on from the row above
_NUMBERED = re.compile(r"(?:\d+(?:\.\d+)*\.?|[IVX]+\.|[A-Z]\.\d*)\s+\S")
_NAMED = re.compile(
    r"(?:chapter|part|section|appendix|abstract|introduction|summary|contents|preface|foreword|references|kapitel|teil"
    r"|chapitre|partie|capítulo|anhang|annexe)\b",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?:D:)?(?P<year>\d{4})(?P<month>\d\d)?(?P<day>\d\d)?(?P<hour>\d\d)?(?P<minute>\d\d)?(?P<second>\d\d)?"
    r"(?:Z|(?P<sign>[+-])(?P<ahead>\d\d)'?(?P<more>\d\d)?)?"
)
_CONTINUED = re.compile(r"[^\W\d_]")


def parse_pdf_date(text: str) -> str:
    """The date of PDF metadata (D:20240131120000+01'00') as ISO 8601; empty if it is none."""
    found = _DATE.match(text)
    if found is None:
        return ""
    year, month, day = found["year"], found["month"] or "01", found["day"] or "01"
    clock = ":".join((found["hour"] or "00", found["minute"] or "00", found["second"] or "00"))
    zone = f"{found['sign']}{found['ahead']}:{found['more'] or '00'}" if found["sign"] else "+00:00"
    at = parse_iso_or_none(f"{year}-{month}-{day}T{clock}{zone}")
    return at.isoformat() if at else ""


def raise_title(blocks: Sequence[SourceBlock]) -> Sequence[SourceBlock]:
    """The blocks, with the line that opens the document above its chapters even if they are set in larger type.

    It is a title if text follows it, no other heading of its level comes before the first chapter, and there are two
    chapters or more.
    """
    headings = [block for block in blocks if block.kind == "heading"]
    if len(blocks) < 2 or blocks[0].kind != "heading" or blocks[1].kind == "heading":
        return blocks
    title, top = blocks[0], min(heading.level for heading in headings)
    chapters = sum(heading.level == top for heading in headings)
    is_named = _NUMBERED.match(title.text) or _NAMED.match(title.text)
    if title.level == top or chapters < 2 or headings[1].level != top or is_named:
        return blocks
    deeper = (
        replace(block, level=min(block.level - top + 2, MAX_HEADING_LEVEL)) if block.kind == "heading" else block
        for block in blocks[1:]
    )
    return [replace(title, level=1), *deeper]


def is_prose_in_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether what looks like a table is text set in columns: long cells whose sentences go on in the row below."""
    width = max(map(len, rows), default=0)
    if len(rows) < MIN_COLUMN_ROWS or not 2 <= width <= MAX_COLUMNS:
        return False
    columns = [[row[at] if at < len(row) else "" for row in rows] for at in range(width)]
    return all(_is_prose(column) for column in columns)


def _is_prose(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    sizes = sorted(map(len, filled))
    if len(filled) < MIN_COLUMN_ROWS or sizes[len(sizes) // 2] < MIN_PROSE_CHARS:
        return False
    continued = sum(
        bool(_CONTINUED.match(cell)) and cell[0].islower() and before[-1] not in ".!?:;"
        for before, cell in itertools.pairwise(filled)
    )
    return continued >= MIN_CONTINUED_SHARE * (len(filled) - 1)


def read_columns(rows: Sequence[Sequence[str]], *, page: int) -> Iterator[SourceBlock]:
    """The text of columns, one after the other."""
    for at in range(max(map(len, rows), default=0)):
        lines = [row[at] for row in rows if at < len(row) and row[at]]
        if lines:
            yield SourceBlock("paragraph", "\n".join(lines), page=page)
