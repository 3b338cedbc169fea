"""Tables: a header, then a line for each row; tab-separated in a pipe, aligned within the width of a terminal."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from clew.surface.cli.terminal import clean_for_stream

NUMBERS = frozenset({"documents", "chunks", "bytes", "done", "total"})  # columns set to the right
_GAP = "  "


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    texts: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Prints a header and the rows: all columns, tab-separated, in a pipe; what fits on a terminal.

    There the `optional` columns are left out, the first named first, until the rows fit with the `texts` shortened to
    no less than these widths. Nothing is broken across lines. `--json` has everything.
    Where there are no rows, nothing is printed.
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
    """The lines of a table within a width: the header, then the rows."""
    shown = [name for name in columns if name not in texts or any(row[columns.index(name)] for row in rows)]
    natural = {name: max(map(_measure, (name, *(row[place] for row in rows)))) for place, name in enumerate(columns)}
    least = {name: min(natural[name], texts.get(name, natural[name])) for name in columns}
    for name in optional:
        if _sum_widths(shown, least) <= width:
            break
        shown = [each for each in shown if each != name]
    widths = {name: natural[name] for name in shown}
    while (over := _sum_widths(shown, widths) - width) > 0:
        longest = max((name for name in shown if name in texts), key=lambda name: widths[name], default="")
        if not longest or widths[longest] <= least[longest]:
            break
        others = [widths[name] for name in shown if name in texts and name != longest]
        step = min(over, max(widths[longest] - max(others, default=0), 1))
        widths[longest] = max(widths[longest] - step, least[longest])
    return [
        _GAP.join(
            _pad(name, cell, widths[name]) for name, cell in zip(columns, row, strict=True) if name in widths
        ).rstrip()
        for row in (columns, *rows)
    ]


def shorten(text: str, width: int) -> str:
    """The text within a width: of a path the end is kept, of any other text the beginning."""
    if _measure(text) <= width:
        return text
    keeps_end = "/" in text and " " not in text
    while text and _measure(text) >= width:
        text = text[1:] if keeps_end else text[:-1]
    if keeps_end:
        return f"…{text}"
    words = text.rpartition(" ")[0]  # between words, unless that leaves little
    return f"{(words if len(words) > width // 2 else text).rstrip()}…"


def _pad(name: str, cell: str, width: int) -> str:
    cell = shorten(cell, width)
    padding = " " * (width - _measure(cell))
    return padding + cell if name in NUMBERS else cell + padding


def _sum_widths(names: Sequence[str], widths: dict[str, int]) -> int:
    return sum(widths[name] for name in names) + len(_GAP) * (len(names) - 1)


def _measure(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
