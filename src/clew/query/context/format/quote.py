"""Retrieved text is quoted: no line of it can be taken for one of ours, and no tag in it for the wrapper's.

A line that looks like ours gets a backslash before what makes it look so, and one that already has some gets one more:
so it shows, nothing else changes, and taking one away (`unquoted`) gives the text back. A tag gets its backslash after
the `<`.
"""

import re
from functools import lru_cache

ENDS = "(?=[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]|\\Z)"  # whatever a reader may take for the end of a line
_BLANK = "[^\\S\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]|[\u200b-\u200f\u2060\ufeff]"  # what a line may hide behind


class Lines:
    """Lines that are ours: a pattern each, found at the start of a line in any case."""

    def __init__(self, *patterns: str, marks: str = "", keep: int = 512) -> None:
        look = f"(?=(?:{'|'.join(patterns)}))"
        self._marks = marks  # characters of which a line of ours has at least one; empty: not known
        self._ours = re.compile(rf"((?:{_BLANK})*)(\\*){look}", re.IGNORECASE)
        self._quoted = re.compile(rf"((?:{_BLANK})*)\\(\\*){look}", re.IGNORECASE)
        self.quoted = lru_cache(maxsize=keep)(self._quote)  # a text is written several times until it fits

    def _quote(self, text: str) -> str:
        """The text without a line of ours."""
        if self._marks and not any(mark in text for mark in self._marks):
            return text
        return "".join(
            f"{found[1]}\\{line[found.end(1) :]}" if (found := self._ours.match(line)) else line
            for line in text.splitlines(keepends=True)
        )

    def unquoted(self, text: str) -> str:
        """What was quoted."""
        return "".join(
            f"{found[1]}{line[found.end(1) + 1 :]}" if (found := self._quoted.match(line)) else line
            for line in text.splitlines(keepends=True)
        )


def tag_quoted(text: str, tag: str) -> str:
    """The text without that tag, open or closed, in any case or spacing."""
    return _tags(tag)[0].sub(r"\1\\\2", text) if tag.casefold() in text.casefold() else text


def tag_unquoted(text: str, tag: str) -> str:
    """What was quoted."""
    return _tags(tag)[1].sub(r"\1\2", text)


def one_line(text: object) -> str:
    """A name on a line of ours, which cannot begin another."""
    return " ".join(str(text).split())


@lru_cache(maxsize=16)
def _tags(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    space = r"[\s\u200b-\u200f\u2060\ufeff]*"
    look = rf"(?={space}/?{space}{re.escape(tag)})"
    ours = rf"([<\uff1c\ufe64]{space})"
    return (
        re.compile(rf"{ours}(\\*){look}", re.IGNORECASE),
        re.compile(rf"{ours}\\(\\*){look}", re.IGNORECASE),
    )
