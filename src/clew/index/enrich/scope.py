"""Beside `enrich`, for code: the definitions that a place stands in, told by indentation alone, in any language.

A chunk from the middle of a method says neither the method's name nor the class's. They stand above it, on the nearest
lines that are indented less, where a reader would look for them. Only those lines matter: an edit elsewhere changes
nothing.
"""

import re

from clew.index.read.text.code import code

_LABEL = 120  # characters of a definition's line
_WORD = re.compile(r"[^\W\d]")
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|;|@|\"\"\"|''')")
_CONTROL = re.compile(  # encloses, but names nothing
    r"(?:if|elif|else|for|foreach|while|loop|do|switch|match|case|default|try|except|catch|finally|with|using|unsafe"
    r"|return|yield|await|begin|synchronized)\b"
)
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*:")  # stands at the margin of its class
_GOES_ON = re.compile(r"[)\]}>.,:+\-*/|&=?{(\[]|where\b")  # a line that belongs to the one above
_OTHERS = re.compile(r"(?:inline\s+)?(?:package|namespace|module|mod|use|using|import|from)\b|.*;$", re.IGNORECASE)


def enclosing(text: str, start: int) -> tuple[str, ...]:
    """The first lines of the definitions around a place in code, from the outermost to the nearest."""
    line_start = text.rfind("\n", 0, start) + 1
    margin = _margin(text, line_start)
    found: list[str] = []
    end = line_start - 1
    while margin > 0 and end > 0:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].expandtabs(4)
        end = begin - 1
        words = line.strip()
        if not words or _width(line) >= margin or _COMMENT.match(words):
            continue
        if _GOES_ON.match(words) or _ACCESS.match(words) or words.endswith((";", ",")):
            continue
        margin = _width(line)
        if _WORD.search(words) and not _CONTROL.match(words) and not _is_statement(words):
            found.append(words.rstrip("{:( \t")[:_LABEL])
    return tuple(reversed(found))


def first_definition(text: str) -> str:
    """The first line of what a file of code defines first, a name for one that has none; empty if it defines nothing.

    What is only declared or used is passed over, and so is a package: they belong to other files too.
    """
    labels = (section.label for section in code(text, uri="", name="").sections)
    return next((label for label in labels if label and not _OTHERS.match(label)), "")


def _is_statement(words: str) -> bool:
    """Whether a line begins a call or an assignment that goes on below, and so defines nothing."""
    return words.endswith("=") or (" " not in words.partition("(")[0] and not words.endswith(("{", ":")))


def _margin(text: str, start: int) -> int:
    """How far the first line of code from a place on is indented; a comment belongs to what follows it."""
    first = -1
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].expandtabs(4)
        if line.strip():
            if not _COMMENT.match(line) and not _ACCESS.match(line) and _WORD.search(line):
                return _width(line)
            first = _width(line) if first < 0 else first
        start = end + 1
    return max(first, 0)


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())
