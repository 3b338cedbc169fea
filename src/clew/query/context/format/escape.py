"""Escapes retrieved text, so that no line of it passes for one of the format's, and no tag in it for the wrapper's.

A line that looks like a reserved one gets a backslash before it, and one with backslashes gets one more, so that
`unescape` restores the text and nothing else changes. A tag gets its backslash after the `<`.
"""

import re
from functools import lru_cache

LINE_END = "(?=[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]|\\Z)"  # whatever may be read as the end of a line
_BLANK = "[^\\S\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]|[\u200b-\u200f\u2060\ufeff]"  # invisible characters before a line


class ReservedLines:
    """The lines that a format reserves, as patterns that match at the start of a line, ignoring case."""

    def __init__(self, *patterns: str, marks: str = "", cache_size: int = 512) -> None:
        pattern = f"(?=(?:{'|'.join(patterns)}))"
        self._marks = marks  # characters of which a reserved line has at least one; empty: not known
        self._reserved = re.compile(rf"((?:{_BLANK})*)(\\*){pattern}", re.IGNORECASE)
        self._escaped = re.compile(rf"((?:{_BLANK})*)\\(\\*){pattern}", re.IGNORECASE)
        self.escape = lru_cache(maxsize=cache_size)(self._escape)  # a text is rendered several times until it fits

    def _escape(self, text: str) -> str:
        """The text with reserved lines escaped."""
        if self._marks and not any(mark in text for mark in self._marks):
            return text
        return "".join(
            f"{found[1]}\\{line[found.end(1) :]}" if (found := self._reserved.match(line)) else line
            for line in text.splitlines(keepends=True)
        )

    def unescape(self, text: str) -> str:
        """The text before it was escaped."""
        return "".join(
            f"{found[1]}{line[found.end(1) + 1 :]}" if (found := self._escaped.match(line)) else line
            for line in text.splitlines(keepends=True)
        )


def escape_tag(text: str, tag: str) -> str:
    """The text with that tag escaped, opening or closing, in any case or spacing."""
    return _compile_tag_pattern(tag)[0].sub(r"\1\\\2", text) if tag.casefold() in text.casefold() else text


def unescape_tag(text: str, tag: str) -> str:
    """The text before the tag was escaped."""
    return _compile_tag_pattern(tag)[1].sub(r"\1\2", text)


def to_one_line(text: object) -> str:
    """A name with all white space collapsed, so that it cannot begin another line."""
    return " ".join(str(text).split())


@lru_cache(maxsize=16)
def _compile_tag_pattern(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    space = r"[\s\u200b-\u200f\u2060\ufeff]*"
    pattern = rf"(?={space}/?{space}{re.escape(tag)})"
    ours = rf"([<\uff1c\ufe64]{space})"
    return (
        re.compile(rf"{ours}(\\*){pattern}", re.IGNORECASE),
        re.compile(rf"{ours}\\(\\*){pattern}", re.IGNORECASE),
    )
