"""Text as it may be printed: none of it can move the cursor, change colours or reorder what stands beside it.

On a terminal control and bidi characters are replaced. In a pipe the bidi characters stay, because they belong to the
text; escapes do not, since the next program may show them. In JSON both are written as `\\uXXXX`, so nothing is lost.
"""

import logging
import re
import sys
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
    """The text without control characters other than line ends and tabs; on a terminal also without bidi characters."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return _MARKS.sub("", _TERMINAL.sub(REPLACEMENT, text)) if terminal else _PIPE.sub(REPLACEMENT, text)


def clean_for_stream(text: str, stream: IO[str]) -> str:
    """The text as it may be printed on a stream."""
    return clean_text(text, terminal=stream.isatty())


def escape_json(text: str) -> str:
    """JSON with the control and bidi characters of its texts as escapes; it means the same."""
    return _JSON.sub(lambda found: _escape_as_utf16(found[0]), text)


def wrap_words(text: str, *, width: int, column: int = 0) -> str:
    """The text with line ends where words would pass the width; `column` is where its first line begins.

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
    """Formats log records without control characters, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """The cleaned text of a record."""
        return clean_for_stream(super().format(record), sys.stderr)


def _escape_as_utf16(character: str) -> str:
    data = character.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))
