"""CSV and TSV files, with whichever separator they use."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from threading import Lock

from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, build_document
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.outline import make_title_from_file_name
from clew.index.read.tables import split_large_table

MAX_CELL_CHARS = 10_000_000
_SEPARATORS = ",;\t|"
_SAMPLE_LINES = 64  # from which the separator is detected
_cell_limit_lock = Lock()  # the size limit of a cell is global to the csv module


def read_delimited(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a CSV or TSV file: its table, split if it is large."""
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
    """The separator that splits most of the first lines into equally many cells, then into most; else a comma."""
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
