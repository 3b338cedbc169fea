"""The lines of a text that are shown with a result, and the query's words in them."""

import re
import textwrap
from itertools import chain

from clew.core.analyse import DEFAULT, analyse_query, analyse_text

_WORD = re.compile(r"\w+(?:[.'’-]\w+)*")


def extract_query_terms(query: str, language: str) -> frozenset[str]:
    """The terms of a query, to find its words in a text of a language."""
    return frozenset(chain.from_iterable(analyse_query(query, [language])))


def make_snippet(text: str, query_terms: frozenset[str], *, width: int, language: str = DEFAULT) -> list[str]:
    """Up to two lines of the text, from where the query's words are densest."""
    flat = " ".join(text.split())
    width = max(20, width)
    room = 2 * width - 10
    if len(flat) > room:
        places = [match.start() for match in _WORD.finditer(flat) if _has_terms(match[0], query_terms, language)] or [0]
        first = max(places, key=lambda at: (sum(at <= other < at + room - 40 for other in places), -at))
        begin = max(0, min(first - 30, len(flat) - room))
        begin = flat.find(" ", begin) + 1 if begin else 0
        flat = ("… " if begin else "") + flat[begin:]
    return textwrap.wrap(flat, width, max_lines=2, placeholder=" …")


def highlight_terms(line: str, query_terms: frozenset[str], *, language: str = DEFAULT) -> list[tuple[str, str]]:
    """The line in parts, each with its rich style: the query's words stand out."""
    parts: list[tuple[str, str]] = []
    at = 0
    for match in _WORD.finditer(line):
        if _has_terms(match[0], query_terms, language):
            parts += [(line[at : match.start()], ""), (match[0], "bold yellow")]
            at = match.end()
    return [*parts, (line[at:], "")]


def _has_terms(word: str, query_terms: frozenset[str], language: str) -> bool:
    return not query_terms.isdisjoint(analyse_text(word, language))
