"""The lines of a text that are shown with a result, and the query's words in them."""

import re
import textwrap
from collections.abc import Iterator
from itertools import chain

from clew.core.analyse import DEFAULT, analyse_query, analyse_text
from clew.core.patterns import compile_pattern
from clew.core.text import UNSPACED_RUN
from clew.core.types import Span
from clew.core.unicode import WORD, widen_to_whole_letters

_WORD = compile_pattern(rf"{WORD}(?:[.'’-]{WORD})*")


def extract_query_terms(query: str, language: str) -> frozenset[str]:
    """The terms of a query, to find its words in a text of a language."""
    return frozenset(chain.from_iterable(analyse_query(query, [language])))


def make_snippet(text: str, query_terms: frozenset[str], *, width: int, language: str = DEFAULT) -> list[str]:
    """Up to two lines of the text, from where the query's words are densest."""
    flat = " ".join(text.split())
    width = max(20, width)
    room = 2 * width - 10
    if len(flat) > room:
        places = [start for start, _ in _find_spans(flat, query_terms, language)] or [0]
        first = max(places, key=lambda at: (sum(at <= other < at + room - 40 for other in places), -at))
        begin = max(0, min(first - 30, len(flat) - room))
        if begin:
            space = flat.find(" ", begin, max(first, begin) + 1)
            begin = space + 1 if space >= 0 else widen_to_whole_letters(flat, begin, begin)[0]
        flat = ("… " if begin else "") + flat[begin:]
    return textwrap.wrap(flat, width, max_lines=2, placeholder=" …")


def highlight_terms(line: str, query_terms: frozenset[str], *, language: str = DEFAULT) -> list[tuple[str, str]]:
    """The line in parts, each with its rich style: the query's words stand out."""
    parts: list[tuple[str, str]] = []
    at = 0
    for start, end in _find_spans(line, query_terms, language):
        parts += [(line[at:start], ""), (line[start:end], "bold yellow")]
        at = end
    return [*parts, (line[at:], "")]


def _find_spans(line: str, query_terms: frozenset[str], language: str) -> Iterator[Span]:
    """The words of a line that have terms of the query; of what is written without spaces, the terms themselves."""
    for word in _WORD.finditer(line):
        if not _has_terms(word[0], query_terms, language):
            continue
        if not UNSPACED_RUN.search(word[0]):
            yield word.span()
            continue
        places = {
            place
            for term in query_terms
            for found in re.finditer(f"(?={re.escape(term)})", word[0])
            for place in range(found.start(), found.start() + len(term))
        }
        last = word.start()
        for place in sorted(places):
            start, end = widen_to_whole_letters(line, word.start() + place, word.start() + place + 1)
            if start >= last:
                while end - word.start() in places:
                    end += 1
                start, last = widen_to_whole_letters(line, start, end)
                yield start, last


def _has_terms(word: str, query_terms: frozenset[str], language: str) -> bool:
    return not query_terms.isdisjoint(analyse_text(word, language))
