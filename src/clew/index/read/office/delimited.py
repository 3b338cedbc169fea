"""Tables in text: comma-separated values, or whatever else separates them."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from threading import Lock

from clew.core.types import Document
from clew.index.read.blocks import Page, document
from clew.index.read.guard import sealed
from clew.index.read.outline import title_of
from clew.index.read.tables import tables
from clew.index.read.web.html import spelled

LONGEST_CELL = 10_000_000
_SEPARATORS = ",;\t|"
_SAMPLE = 64  # lines that show which separator it is
_limit = Lock()  # the size of a cell is a setting of the whole csv module


def delimited(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a CSV or TSV file: its table, cut into several where it is large."""
    text = spelled(data)
    with sealed(uri, what="table"), _long_cells():
        separator = "\t" if PurePath(name).suffix.lower() == ".tsv" else _separator(text)
        blocks = list(tables(csv.reader(io.StringIO(text, newline=""), delimiter=separator)))
    return document(Page(blocks, title_of(name)), uri=uri, name=name, source_format="csv")


@contextmanager
def _long_cells() -> Iterator[None]:
    with _limit:
        before = csv.field_size_limit(LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _separator(text: str) -> str:
    """The separator that cuts the first lines into the most cells, and all of them alike; a comma where none does."""
    sample = text[: 1 << 16].splitlines(keepends=True)[:_SAMPLE]
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
