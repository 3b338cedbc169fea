"""Shows on a terminal what a model is writing, until the checked sentences take its place."""

import os
import re
import shutil
import sys

from rich.cells import cell_len

from clew.surface.cli.terminal import clean_text, wrap_words

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_MARKS = re.compile(r"\s*[\[(【]\d+(?:\s*[,;]\s*\d+)*[\])】]")
_BETWEEN = re.compile(rf"(?:{_MARKS.pattern}|[^\w\[(【])*")


class Preview:
    """The unchecked end of a reply, dim, behind what was printed; nothing on a pipe or a terminal that cannot erase.

    Of a text that is higher than the terminal the beginning is shown, since what has
    scrolled away cannot be erased.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._shown = ""
        self._column = 0

    def add(self, text: str, *, column: int) -> None:
        """Shows a further piece of the reply."""
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            self._pending += clean_text(text, terminal=True)
            self._draw(column)

    def clear(self) -> None:
        """Erases what is shown; `redraw` shows it again."""
        if self._shown:
            rows = _count_rows(self._shown, self._column, shutil.get_terminal_size().columns)
            up = f"\x1b[{rows - 1}A" if rows > 1 else ""
            right = f"\x1b[{self._column}C" if self._column else ""
            print(f"{up}\r{right}\x1b[J", end="", flush=True)
        self._shown = ""

    def drop(self) -> None:
        """Erases what is shown and forgets it."""
        self.clear()
        self._pending = ""

    def skip_sentence(self, sentence: str, *, column: int) -> None:
        """Forgets a sentence that was checked, with its citation marks, and shows the rest again."""
        if not self._pending:
            return
        self.clear()
        left = sum(map(str.isalnum, sentence))
        at = 0
        while at < len(self._pending) and left > 0:
            if marks := _MARKS.match(self._pending, at):
                at = marks.end()
                continue
            left -= self._pending[at].isalnum()
            at += 1
        between = _BETWEEN.match(self._pending, at)
        self._pending = self._pending[between.end() if between else at :]
        self._draw(column)

    def _draw(self, column: int) -> None:
        size = shutil.get_terminal_size()
        text = wrap_words(self._pending, width=size.columns, column=column)
        if _count_rows(text, column, size.columns) >= size.lines:
            return
        if self._column != column or not text.startswith(self._shown):
            self.clear()
        self._column = column
        if new := text[len(self._shown) :]:
            print(f"{_DIM}{new}{_PLAIN}", end="", flush=True)
        self._shown = text


def _count_rows(text: str, column: int, width: int) -> int:
    """How many rows of a terminal a text takes that begins at a column."""
    lines = text.split("\n")
    cells = [cell_len(line) + (column if at == 0 else 0) for at, line in enumerate(lines)]
    return sum(max(1, -(-each // width)) for each in cells)
