"""Scopes of code, for contexts: the definitions that enclose a position, found by indentation alone, in any language.

A chunk from the middle of a method contains neither the method's name nor the class's. They are above it, on the
nearest lines that are indented less. Only those lines matter: an edit elsewhere changes nothing.
"""

import re

from clew.index.read.text.code import read_code

_MAX_LABEL_CHARS = 120  # characters of a definition's line
_MAX_LINES = 2_000  # looked at from one chunk: each chunk of a file that is one block would walk over all of it
_WORD = re.compile(r"[^\W\d]")
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|;|@|\"\"\"|''')")
_CONTROL = re.compile(  # opens a block, but names nothing
    r"(?:if|elif|else|for|foreach|while|loop|do|switch|match|case|default|try|except|catch|finally|with|using|unsafe"
    r"|return|yield|await|begin|synchronized)\b"
)
_ACCESS_LABEL = re.compile(r"\s*(?:public|private|protected)\s*:")  # is indented like its class, not like a member
_CONTINUATION = re.compile(r"[)\]}>.,:+\-*/|&=?{(\[]|where\b")  # a line that continues the one above
_SHARED_NAMES = re.compile(
    r"(?:inline\s+)?(?:package|namespace|module|mod|use|using|import|from)\b|.*;$", re.IGNORECASE
)


def find_enclosing_definitions(text: str, start: int) -> tuple[str, ...]:
    """The first lines of the definitions that enclose a position in code, from the outermost to the nearest."""
    line_start = text.rfind("\n", 0, start) + 1
    margin = _find_code_indent(text, line_start)
    found: list[str] = []
    end = line_start - 1
    for _ in range(_MAX_LINES):
        if margin <= 0 or end <= 0:
            break
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].expandtabs(4)
        end = begin - 1
        words = line.strip()
        if not words or _count_indent(line) >= margin or _COMMENT.match(words):
            continue
        if _CONTINUATION.match(words) or _ACCESS_LABEL.match(words) or words.endswith((";", ",")):
            continue
        margin = _count_indent(line)
        if _WORD.search(words) and not _CONTROL.match(words) and not _is_continued_statement(words):
            found.append(words.rstrip("{:( \t")[:_MAX_LABEL_CHARS])
    return tuple(reversed(found))


def find_first_definition(text: str) -> str:
    """The first line of the first definition in a file of code, as a title for it; empty if it defines nothing.

    Declarations, imports and packages are skipped: other files have them too.
    """
    labels = (section.label for section in read_code(text, uri="", name="").sections)
    return next((label for label in labels if label and not _SHARED_NAMES.match(label)), "")


def _is_continued_statement(words: str) -> bool:
    """Whether a line starts a call or an assignment that continues below, and so defines nothing."""
    return words.endswith("=") or (" " not in words.partition("(")[0] and not words.endswith(("{", ":")))


def _find_code_indent(text: str, start: int) -> int:
    """The indentation of the first line of code from a position on; a comment belongs to what follows it."""
    first = -1
    for _ in range(_MAX_LINES):
        if start >= len(text):
            break
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].expandtabs(4)
        if line.strip():
            if not _COMMENT.match(line) and not _ACCESS_LABEL.match(line) and _WORD.search(line):
                return _count_indent(line)
            first = _count_indent(line) if first < 0 else first
        start = end + 1
    return max(first, 0)


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
