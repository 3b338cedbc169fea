"""Tables: a header, then a line for each row; tab-separated in a pipe, aligned within the width of a terminal.

No printed text can move the cursor, change colours or reorder the text beside it. On a terminal, control and bidi
characters are replaced. In a pipe the bidi characters stay, because they belong to the text; escapes do not, since
the next program may show them. In JSON both are written as `\\uXXXX`, so nothing is lost.
"""

import logging
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import IO

from clew.core.patterns import compile_pattern

REPLACEMENT = "\ufffd"
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
_BIDI = "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates: they reorder other text
_INVISIBLE_MARKS = "\u061c\u200e\u200f\u206a-\u206f\ufff9-\ufffb\U000e0000-\U000e007f"
_PIPE = compile_pattern(f"[{_CONTROLS}]")
_TERMINAL = compile_pattern(f"[{_CONTROLS}{_BIDI}]")
_MARKS = compile_pattern(f"[{_INVISIBLE_MARKS}]")
_JSON = compile_pattern(f"[{_CONTROLS}{_BIDI}{_INVISIBLE_MARKS}]")


def clean_text(text: str, *, terminal: bool) -> str:
    """Replace control characters except line ends and tabs; on a terminal also bidi characters."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return _MARKS.sub("", _TERMINAL.sub(REPLACEMENT, text)) if terminal else _PIPE.sub(REPLACEMENT, text)


def clean_for_stream(text: str, stream: IO[str]) -> str:
    """Return the text in a form that is safe to print on a stream."""
    return clean_text(text, terminal=stream.isatty())


def escape_json(text: str) -> str:
    """Escape the control and bidi characters in JSON text; its meaning stays the same."""
    return _JSON.sub(lambda found: _escape_as_utf16(found[0]), text)


def wrap_words(text: str, *, width: int, column: int = 0) -> str:
    """Wrap a text between words at a width; `column` is where its first line begins.

    A word that is longer than a line is not broken, and an indented line, as of code, stays as it is.
    """
    lines = []
    for line in text.split("\n"):
        lines.append(line if line.startswith(("  ", "\t")) else _wrap_line(line, width, column))
        column = 0
    return "\n".join(lines)


def _wrap_line(line: str, width: int, column: int) -> str:
    wrapped = ""
    for space, word in re.findall(r"([ \t]*)([^ \t]*)", line):
        if word and column and column + len(space) + len(word) > width:
            wrapped, column = f"{wrapped}\n{word}", len(word)
        else:
            wrapped, column = f"{wrapped}{space}{word}", column + len(space) + len(word)
    return wrapped


class CleanFormatter(logging.Formatter):
    """A formatter of log records that removes control characters, also from tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the cleaned text of a record."""
        return clean_for_stream(super().format(record), sys.stderr)


def _escape_as_utf16(character: str) -> str:
    data = character.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))


NUMBERS = frozenset({"documents", "chunks", "bytes", "done", "total"})  # right-aligned columns
ADDRESSES = frozenset({"uri"})  # columns whose ends say more than their beginnings
_GAP = "  "
_NARROW = 12  # width of a text on a terminal that is narrower than the least widths


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    texts: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Print a header and the rows: in a pipe all columns, tab-separated; on a terminal, what fits.

    On a terminal, optional columns are dropped in the order given until the rows fit. `texts` are shortened, to these
    widths at least unless the terminal is narrower. Nothing is broken across lines. `--json` has everything. Without
    rows, nothing is printed.
    """
    if not rows:
        return
    cleaned = [[clean_for_stream(re.sub(r"\s+", " ", cell), sys.stdout) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (columns, *cleaned):
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.text import Text

    header, *lines = fit_table(
        columns, cleaned, width=shutil.get_terminal_size().columns, optional=optional, texts=texts
    )
    console = Console()
    console.print(Text(header, "bold", no_wrap=True, overflow="ignore"), crop=False)
    for line in lines:
        console.print(Text(line, no_wrap=True, overflow="ignore"), crop=False)


def fit_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    optional: Sequence[str] = (),
    texts: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """Fit a table into a width; return its lines: the header, then the rows."""
    shown = [name for name in columns if name not in texts or any(row[columns.index(name)] for row in rows)]
    natural = {name: max(map(_measure, (name, *(row[place] for row in rows)))) for place, name in enumerate(columns)}
    least = {name: min(natural[name], texts.get(name, natural[name])) for name in columns}
    for name in optional:
        if _sum_widths(shown, least) <= width:
            break
        shown = [each for each in shown if each != name]
    widths = {name: natural[name] for name in shown}
    for floors in (least, {name: min(_NARROW, least[name]) for name in texts}):
        _narrow_texts(widths, {name: floors[name] for name in shown if name in texts}, width)
    return [
        _GAP.join(
            _pad(name, cell, widths[name]) for name, cell in zip(columns, row, strict=True) if name in widths
        ).rstrip()
        for row in (columns, *rows)
    ]


def _narrow_texts(widths: dict[str, int], floors: Mapping[str, int], width: int) -> None:
    """Make the widest texts narrower, down to their floors, until the columns fit a width."""
    while (over := _sum_widths(list(widths), widths) - width) > 0:
        wide = sorted((name for name in floors if widths[name] > floors[name]), key=lambda name: widths[name])
        if not wide:
            return
        step = min(over, max(widths[wide[-1]] - (widths[wide[-2]] if len(wide) > 1 else 0), 1))
        widths[wide[-1]] = max(widths[wide[-1]] - step, floors[wide[-1]])


def shorten(text: str, width: int, *, keeps_end: bool = False) -> str:
    """Cut a text to a width, at its end, or with `keeps_end` at its beginning; a path keeps its end."""
    if _measure(text) <= width:
        return text
    keeps_end = keeps_end or ("/" in text and " " not in text)
    while text and _measure(text) >= width:
        text = text[1:] if keeps_end else text[:-1]
    if keeps_end:
        return f"…{text}"
    words = text.rpartition(" ")[0]  # between words, unless that leaves little
    return f"{(words if len(words) > width // 2 else text).rstrip()}…"


def _pad(name: str, cell: str, width: int) -> str:
    cell = shorten(cell, width, keeps_end=name in ADDRESSES)
    padding = " " * (width - _measure(cell))
    return padding + cell if name in NUMBERS else cell + padding


def _sum_widths(names: Sequence[str], widths: dict[str, int]) -> int:
    return sum(widths[name] for name in names) + len(_GAP) * (len(names) - 1)


def _measure(text: str) -> int:
    """Count the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
