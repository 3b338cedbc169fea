"""The lines of a text that are shown with a result, and the query's words in them."""

import re
import textwrap

from clew.core.text import extract_terms

_WORD = re.compile(r"\w+(?:[.'’-]\w+)*")


def make_snippet(text: str, query_terms: frozenset[str], *, width: int) -> list[str]:
    """Up to two lines of the text, from where the query's words are densest."""
    flat = " ".join(text.split())
    width = max(20, width)
    room = 2 * width - 10
    if len(flat) > room:
        places = [match.start() for match in _WORD.finditer(flat) if _matches_query(match[0], query_terms)] or [0]
        first = max(places, key=lambda at: (sum(at <= other < at + room - 40 for other in places), -at))
        begin = max(0, min(first - 30, len(flat) - room))
        begin = flat.find(" ", begin) + 1 if begin else 0
        flat = ("… " if begin else "") + flat[begin:]
    return textwrap.wrap(flat, width, max_lines=2, placeholder=" …")


def highlight_terms(line: str, query_terms: frozenset[str]) -> list[tuple[str, str]]:
    """The line in parts, each with its rich style: the query's words stand out."""
    parts: list[tuple[str, str]] = []
    at = 0
    for match in _WORD.finditer(line):
        if _matches_query(match[0], query_terms):
            parts += [(line[at : match.start()], ""), (match[0], "bold yellow")]
            at = match.end()
    return [*parts, (line[at:], "")]


def _matches_query(word: str, query_terms: frozenset[str]) -> bool:
    return not query_terms.isdisjoint(extract_terms(word))
