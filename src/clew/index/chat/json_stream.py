"""A streaming JSON parser (pull style) for exports of any size.

The caller drives: `iter_keys` of an object and `iter_items` of an array stop before each value, which the caller then
reads whole with `read_value`, walks into, or leaves alone to have it skipped. No more than one value is in memory.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from clew.core.errors import MalformedFile
from clew.index.chat.tree import ExportFile

MAX_VALUE_CHARS = 64_000_000  # of one value; a message seldom has more than a few thousand
_READ_CHARS = 1 << 16
_NUMBER_TAIL = 4  # most characters that can follow a number before it goes on (.e+), and one more
_WHITESPACE = re.compile(r"[ \t\r\n\ufeff]*")
_DECODER = json.JSONDecoder(strict=False)


class JsonScanner:
    """A cursor in a JSON text that advances as values are read."""

    def __init__(self, stream: TextIO, *, uri: str) -> None:
        self._stream = stream
        self._uri = uri
        self._text = ""
        self._at = 0
        self._consumed = 0  # characters dropped from the buffer
        self._is_at_end = False

    def peek_character(self) -> str:
        """The first character of the next value; empty at the end."""
        while True:
            match = _WHITESPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._fill_buffer():
                return self._text[self._at : self._at + 1]

    def read_value(self) -> Any:
        """Reads and returns the next value, whole."""
        self.peek_character()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._fill_buffer():
                    is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip())
                    raise self._make_syntax_error(error.msg, is_cut=is_cut) from error
                continue
            except ValueError as error:  # a number of thousands of digits
                raise self._make_syntax_error(str(error)) from error
            # A number may continue after the end of the buffer: 2 and 2.5e+7 begin alike.
            if len(self._text) - end >= _NUMBER_TAIL or not isinstance(value, int | float) or not self._fill_buffer():
                self._at = end
                return value

    def iter_keys(self) -> Iterator[str]:
        """The keys of the next object; the value of each comes next."""
        self._expect_character("{")
        if self.peek_character() == "}":
            self._at += 1
            return
        while True:
            if self.peek_character() != '"':
                raise self._make_syntax_error("a key was expected")
            key = self.read_value()
            self._expect_character(":")
            here = self._get_position()
            yield key
            self._skip_value_if_unread(here)
            if not self._has_next_element("}"):
                return

    def iter_items(self) -> Iterator[None]:
        """Yields once for each value of the next array, before the value."""
        self._expect_character("[")
        if self.peek_character() == "]":
            self._at += 1
            return
        while True:
            here = self._get_position()
            yield
            self._skip_value_if_unread(here)
            if not self._has_next_element("]"):
                return

    def iter_objects(self) -> Iterator[dict[str, Any] | None]:
        """The objects of the next array; None for each value that is not an object."""
        for _ in self.iter_items():
            value = self.read_value()
            yield value if isinstance(value, dict) else None

    def _skip_value_if_unread(self, here: int) -> None:
        if self._get_position() != here:
            return
        opening = self.peek_character()
        if opening not in ("{", "["):
            self.read_value()
        elif opening == "{":
            for _ in self.iter_keys():
                pass
        else:
            for _ in self.iter_items():
                pass

    def _expect_character(self, mark: str) -> None:
        if self.peek_character() != mark:
            raise self._make_syntax_error(f"{mark} was expected")
        self._at += 1

    def _has_next_element(self, closing: str) -> bool:
        mark = self.peek_character()
        if mark not in (",", closing):
            raise self._make_syntax_error(f", or {closing} was expected")
        self._at += 1
        return mark == ","

    def _get_position(self) -> int:
        self.peek_character()
        return self._consumed + self._at

    def _fill_buffer(self) -> bool:
        """Whether more could be read; the buffer doubles, so that a long value is not parsed too often."""
        if self._is_at_end:
            return False
        if len(self._text) - self._at > MAX_VALUE_CHARS:
            raise self._make_syntax_error(f"a value of more than {MAX_VALUE_CHARS:,} characters")
        read = self._stream.read(max(_READ_CHARS, len(self._text) - self._at))
        if not read:
            self._is_at_end = True
            return False
        self._consumed += self._at
        self._text = self._text[self._at :] + read
        self._at = 0
        return True

    def _make_syntax_error(self, reason: str, *, is_cut: bool = False) -> MalformedFile:
        place = self._consumed + self._at
        if is_cut or (self._is_at_end and self._at >= len(self._text)):
            return MalformedFile(self._uri, f"is cut short: its JSON ends at character {place:,}; export it again")
        return MalformedFile(self._uri, f"is not valid JSON: {reason} at character {place:,}; export it again")


@contextmanager
def open_json_scanner(file: ExportFile, *, lenient: bool = False) -> Iterator[JsonScanner]:
    """A scanner at the beginning of a stream; `lenient` ignores decoding errors, to detect what the stream is."""
    with file.open_text(lenient=lenient) as stream:
        yield JsonScanner(stream, uri=file.uri)


def json_starts_with(file: ExportFile, opening: str) -> bool:
    """Whether the JSON of a stream begins with this character."""
    with open_json_scanner(file, lenient=True) as scanner:
        return scanner.peek_character() == opening
