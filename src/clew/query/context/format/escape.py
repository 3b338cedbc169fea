"""Escapes retrieved text, so that no line of it passes for one of the format's, and no tag in it for the wrapper's.

A line that looks like a reserved one gets a backslash before it, and one with backslashes gets one more, so that
`unescape` restores the text and nothing else changes. A tag gets its backslash after the `<`. What a line looks like
is decided without the characters in it that show nothing, and with spaces, hyphens and colons of all kinds as one.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from clew.core.attribution import fold_marks
from clew.core.pattern import compile_pattern
from clew.core.unicode import INVISIBLE, drop_invisible

LINE_END = "(?=[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]|\\Z)"  # whatever may be read as the end of a line
_SPACE = "[^\\S\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]"  # white space within a line
_BLANK = compile_pattern(f"(?:{_SPACE}|[{INVISIBLE}])*")  # what may stand unseen before a line
TAG_OPENERS = "<\uff1c\ufe64"


class ReservedLines:
    """The lines that a format reserves, as patterns that match at the start of a line, ignoring case."""

    def __init__(self, *patterns: str, marks: str = "", cache_size: int = 512) -> None:
        pattern = f"(?=(?:{'|'.join(patterns)}))"
        self._marks = marks  # characters of which a reserved line has at least one; empty: not known
        self._reserved = compile_pattern(rf"(?:{_SPACE})*\\*{pattern}", re.IGNORECASE)
        self._escaped = compile_pattern(rf"(?:{_SPACE})*\\\\*{pattern}", re.IGNORECASE)
        self.escape = lru_cache(maxsize=cache_size)(self._escape)  # a text is rendered several times until it fits

    def _escape(self, text: str) -> str:
        """The text with reserved lines escaped."""
        if self._marks and not any(map(fold_marks(text).__contains__, self._marks)):
            return text
        return "".join(
            f"{line[: (at := _find_first_visible(line))]}\\{line[at:]}" if self._reserved.match(visible) else line
            for line, visible in _split_lines(text)
        )

    def unescape(self, text: str) -> str:
        """The text before it was escaped."""
        return "".join(
            f"{line[: (at := _find_first_visible(line))]}{line[at + 1 :]}" if self._escaped.match(visible) else line
            for line, visible in _split_lines(text)
        )


def escape_tag(text: str, tag: str) -> str:
    """The text with that tag escaped, opening or closing, in any case or spacing, with invisible characters or not."""
    return _compile_tag_pattern(tag)[0].sub(r"\1\\\2", text) if any(sign in text for sign in TAG_OPENERS) else text


def unescape_tag(text: str, tag: str) -> str:
    """The text before the tag was escaped."""
    return _compile_tag_pattern(tag)[1].sub(r"\1\2", text)


def drop_blank_lines(text: str) -> str:
    """The text without its blank lines."""
    return "\n".join(filter(str.strip, text.splitlines()))


def to_one_line(text: object) -> str:
    """A name with all white space collapsed, so that it cannot begin another line."""
    return " ".join(str(text).split())


def _split_lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text with their ends, each beside what it looks like."""
    for line in text.splitlines(keepends=True):
        yield line, fold_marks(drop_invisible(line))


def _find_first_visible(line: str) -> int:
    """Where the first character of a line stands that can be seen."""
    blank = _BLANK.match(line)
    return blank.end() if blank else 0


@lru_cache(maxsize=16)
def _compile_tag_pattern(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    space = rf"[\s{INVISIBLE}]*"
    name = f"[{INVISIBLE}]*".join(map(re.escape, tag))
    pattern = rf"(?={space}/?{space}{name})"
    ours = rf"([{TAG_OPENERS}]{space})"
    return (
        compile_pattern(rf"{ours}(\\*){pattern}", re.IGNORECASE),
        compile_pattern(rf"{ours}\\(\\*){pattern}", re.IGNORECASE),
    )
