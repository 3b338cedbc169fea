"""JSON of any size, read a value at a time: what an export is made of.

The caller walks: `fields` of an object and `items` of an array stop before each value, which is then taken whole by
`value`, walked into, or, if it is left alone, passed over. No more is held than one value.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from clew.index.chat.tree import NotSpelled, Part

MAX_VALUE = 64_000_000  # characters of one value: a message is seldom larger than a few thousand
_STEP = 1 << 16
_TAIL = 4  # characters of a number that are no number by themselves, as .e+, and one more
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_DECODER = json.JSONDecoder(strict=False)


class Scanner:
    """A place in a JSON text, which moves on as values are taken."""

    def __init__(self, file: TextIO, *, uri: str) -> None:
        self._file = file
        self._uri = uri
        self._text = ""
        self._at = 0
        self._before = 0  # characters that were let go
        self._ended = False

    def peek(self) -> str:
        """The character that the next value begins with; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """The value that stands here, whole."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip())
                    raise self._broken(error.msg, is_cut=is_cut) from error
                continue
            except ValueError as error:  # a number of thousands of digits
                raise self._broken(str(error)) from error
            # A number may go on behind the end of the buffer: 2 and 2.5e+7 begin alike.
            if len(self._text) - end >= _TAIL or not isinstance(value, int | float) or not self._more():
                self._at = end
                return value

    def fields(self) -> Iterator[str]:
        """The keys of the object that begins here, each with its value next."""
        self._expect("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                raise self._broken("a key was expected")
            key = self.value()
            self._expect(":")
            here = self._place()
            yield key
            self._pass_over(here)
            if not self._goes_on("}"):
                return

    def items(self) -> Iterator[None]:
        """One turn for each value of the array that begins here."""
        self._expect("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            here = self._place()
            yield
            self._pass_over(here)
            if not self._goes_on("]"):
                return

    def rows(self) -> Iterator[dict[str, Any] | None]:
        """The objects of the array that begins here; None for each value that is none."""
        for _ in self.items():
            value = self.value()
            yield value if isinstance(value, dict) else None

    def _pass_over(self, here: int) -> None:
        if self._place() != here:
            return
        opening = self.peek()
        if opening not in ("{", "["):
            self.value()
        elif opening == "{":
            for _ in self.fields():
                pass
        else:
            for _ in self.items():
                pass

    def _expect(self, mark: str) -> None:
        if self.peek() != mark:
            raise self._broken(f"{mark} was expected")
        self._at += 1

    def _goes_on(self, closing: str) -> bool:
        mark = self.peek()
        if mark not in (",", closing):
            raise self._broken(f", or {closing} was expected")
        self._at += 1
        return mark == ","

    def _place(self) -> int:
        self.peek()
        return self._before + self._at

    def _more(self) -> bool:
        """Whether more was read; as much again as is held, so that a long value is not tried too often."""
        if self._ended:
            return False
        if len(self._text) - self._at > MAX_VALUE:
            raise self._broken(f"a value of more than {MAX_VALUE:,} characters")
        read = self._file.read(max(_STEP, len(self._text) - self._at))
        if not read:
            self._ended = True
            return False
        self._before += self._at
        self._text = self._text[self._at :] + read
        self._at = 0
        return True

    def _broken(self, reason: str, *, is_cut: bool = False) -> NotSpelled:
        place = self._before + self._at
        if is_cut or (self._ended and self._at >= len(self._text)):
            return NotSpelled(self._uri, f"is cut short: its JSON ends at character {place:,}; export it again")
        return NotSpelled(self._uri, f"is not JSON that can be read: {reason} at character {place:,}; export it again")


@contextmanager
def scanned(part: Part, *, at_sight: bool = False) -> Iterator[Scanner]:
    """A scanner at the beginning of a part, to read it or only to see what it is."""
    with part.text(at_sight=at_sight) as file:
        yield Scanner(file, uri=part.uri)


def is_json(part: Part, opening: str) -> bool:
    """Whether a part begins as an object or an array does."""
    with scanned(part, at_sight=True) as scanner:
        return scanner.peek() == opening
