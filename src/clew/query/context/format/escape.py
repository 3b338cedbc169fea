"""Escaping of retrieved text, so that no line passes for a line of the format, and no tag for the wrapper's tag.

A line that looks reserved gets a backslash before it, and a line with backslashes gets one more, so that `unescape`
restores the text and nothing else changes. A tag gets its backslash after the `<`. Texts are compared by their look
(`fold_look`): without marks and invisible characters, with plain signs for all their variants. In a reserved word or a
tag, letters of another script stand for any letter.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from clew.core.patterns import compile_pattern
from clew.core.unicode import fold_look

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # whatever may be read as the end of a line
LINE_END = f"(?=[{_LINE_ENDS}]|\\Z)"
_SPACE = f"[^\\S{_LINE_ENDS}]"  # white space within a line
_WORD = compile_pattern(r"[^\W\d_]+")
_MIXED = compile_pattern(r"[a-zA-Z][^\W\d_\x00-\x7f]|[^\W\d_\x00-\x7f][a-zA-Z]")  # in a word of two scripts
_OTHER = r"[^\x00-\x7f\s]"  # a letter or sign that is not plain


class ReservedLines:
    """The lines that a format reserves, as patterns that match at the start of a line, ignoring case."""

    def __init__(self, *patterns: str, marks: str = "", cache_size: int = 512) -> None:
        pattern = f"(?=(?:{'|'.join(patterns)}))"
        self._words = tuple(dict.fromkeys(re.findall("[a-z]{3,}", pattern.lower())))
        self._marks = marks  # characters of which a reserved line has at least one; empty: not known
        self._reserved = compile_pattern(rf"(?:{_SPACE})*\\*{pattern}", re.IGNORECASE)
        self._escaped = compile_pattern(rf"(?:{_SPACE})*\\\\*{pattern}", re.IGNORECASE)
        self.escape = lru_cache(maxsize=cache_size)(self._escape)  # a text is rendered several times until it fits

    def _escape(self, text: str) -> str:
        """Return the text with reserved lines escaped."""
        if self._marks and not any(map(fold_look(text).__contains__, self._marks)):
            return text
        return "".join(
            f"{line[: (at := _find_first_visible(line))]}\\{line[at:]}" if self._reserved.match(look) else line
            for line, look in self._split_lines(text)
        )

    def unescape(self, text: str) -> str:
        """Return the text before it was escaped."""
        return "".join(
            f"{line[: (at := _find_first_visible(line))]}{line[at + 1 :]}" if self._escaped.match(look) else line
            for line, look in self._split_lines(text)
        )

    def _split_lines(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the lines of a text with their ends, each with its look (`fold_look`)."""
        for line in text.splitlines(keepends=True):
            look = fold_look(line)
            is_mixed = not look.isascii() and _MIXED.search(look)
            yield line, _WORD.sub(self._respell, look) if is_mixed else look

    def _respell(self, found: re.Match[str]) -> str:
        """Return the reserved word that a word of two scripts looks like, or the word itself."""
        word = found[0]
        if word.isascii():
            return word
        return next((known for known in self._words if _looks_like(word.lower(), known)), word)


def escape_tag(text: str, tag: str) -> str:
    """Return the text with that tag escaped, opening or closing, however it is written."""
    places = [0, *_find_tags(text, tag, after=""), None]
    return "\\".join(text[start:end] for start, end in pairwise(places))


def unescape_tag(text: str, tag: str) -> str:
    """Return the text before the tag was escaped."""
    places = [-1, *_find_tags(text, tag, after=r"\\"), len(text)]
    return "".join(text[start + 1 : end] for start, end in pairwise(places))


def drop_blank_lines(text: str) -> str:
    """Return the text without its blank lines."""
    return "\n".join(filter(str.strip, text.splitlines()))


def to_one_line(text: object) -> str:
    """Return a name with all white space collapsed, so that it cannot begin another line."""
    return " ".join(str(text).split())


def _find_first_visible(line: str) -> int:
    """Find the position of the first visible character of a line, or of its end."""
    return next((at for at, char in enumerate(line) if char in _LINE_ENDS or fold_look(char).strip()), len(line))


def _looks_like(word: str, known: str) -> bool:
    """Return whether a word is a known one except for letters or signs that are not plain, at most half of them."""
    same = sum(a == b for a, b in zip(word, known, strict=False))
    other = sum(not a.isascii() for a in word)
    return len(word) == len(known) == same + other and same >= other


def _find_tags(text: str, tag: str, *, after: str) -> list[int]:
    """Find the position after the `<` of each such tag; `after` is a pattern of the text there."""
    look = fold_look(text)
    if "<" not in look:
        return []
    found = [
        match.end(1)
        for match in _compile_tag_pattern(tag, after).finditer(look)
        if _looks_like(match[2].lower(), tag.lower())
    ]
    if not found or look == text:
        return found
    places = [at for at, char in enumerate(text) for _ in fold_look(char)]
    return [places[at] for at in found]


@lru_cache(maxsize=32)
def _compile_tag_pattern(tag: str, after: str) -> re.Pattern[str]:
    name = "".join(f"(?:{re.escape(char)}|{_OTHER})" for char in tag)
    return compile_pattern(rf"(<\s*+){after}\\*+(?=\s*+(?:/|{_OTHER})?\s*+({name}))", re.IGNORECASE)
