"""Parses the queries in a language model's answer: one per line, without the markers around them."""

import json
import re
from collections.abc import Iterable

from clew.core.pattern import compile_pattern
from clew.core.text import tokenize_words

_THINKING = compile_pattern(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THINKING_TAIL = compile_pattern(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)  # opened by the prompt's template
_JSON = compile_pattern(r"\[\s*\".*\]|\{.*\}", re.DOTALL)
_BULLET = compile_pattern(r"[-*+•‣▪·–—]\s+")
_NUMBER = compile_pattern(r"\(?(\d{1,2})(?:\)\s*|[.:](?:\s+|(?=[^\W\d]{3})))")
_LABEL = compile_pattern(r"(?:search |alternative )?(?:query|variation|question)\s*\d*\s*:\s*", re.IGNORECASE)
_EMPHASIS = compile_pattern(r"(\*\*|__|\*|`)(.+)\1")
_DOUBLE = compile_pattern(r"[\"“”„«»]([^\"“”„«»]+)(?:[\"“”«»][.,;]?|\Z)")  # the closing one may be cut off
_SINGLE = compile_pattern(r"['‘’‚]((?:[^'‘’]|(?<=\w)['’](?=\w))+)['‘’][.,;]?")
_FILLERS = frozenset(
    {"yes", "yeah", "yep", "nope", "none", "okay", "sure", "done", "thanks", "hello", "null", "nothing"}
)
_MIN_WORD_LENGTH = 3  # of a query of a single word


def strip_thinking(answer: str) -> str:
    """The answer without the reasoning in `<think>` tags, closed or cut off."""
    return _THINKING_TAIL.sub("", _THINKING.sub("", answer))


def parse_query_lines(answer: str, *, max_words: int = 12) -> list[str]:
    """The queries of an answer in order, each once: no numbers, bullets, quotes, headings, fillers or prose.

    A number belongs to the query if it is greater than the line number ("2. Liga results" on the first line). A line of
    more than `max_words` words is prose. A single word must be one to search for. A JSON list of texts is read as such.
    """
    lines = _parse_json_list(answer) or [line.strip() for line in answer.splitlines() if line.strip()]
    queries = [_strip_markers(line, number) for number, line in enumerate(lines, 1)]
    return dedupe_queries(query for query in queries if _is_searchable(query, max_words))


def _parse_json_list(answer: str) -> list[str]:
    """The texts of a JSON list in an answer, or of the one list in its object; none where there is no such list."""
    found = _JSON.search(answer)
    try:
        value = json.loads(found[0]) if found else None
    except ValueError:
        return []
    if isinstance(value, dict):
        value = next((each for each in value.values() if isinstance(each, list)), None)
    return [each.strip() for each in value if isinstance(each, str)] if isinstance(value, list) else []


def dedupe_queries(queries: Iterable[str]) -> list[str]:
    """Each query once, in its first position and spelling; blank ones are dropped."""
    kept: dict[str, str] = {}
    for query in queries:
        if query.strip():
            kept.setdefault(normalise_query(query), query)
    return list(kept.values())


def normalise_query(query: str) -> str:
    """The query without differences of case, space and punctuation, as a key for comparison."""
    return " ".join(tokenize_words(query)) or " ".join(query.casefold().split())


def _strip_markers(line: str, line_number: int) -> str:
    """The line without bullet, number, label, emphasis and quotes."""
    line = _strip_wrapping(line)
    line = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
    number = _NUMBER.match(line)
    if number and int(number[1]) <= line_number:
        line = line[number.end() :]
    line = _strip_wrapping(line)
    label = _LABEL.match(line)
    return " ".join((_strip_wrapping(line[label.end() :]) if label else line).split())


def _strip_wrapping(line: str) -> str:
    """The line without emphasis and quotes around the whole of it."""
    for mark in (_EMPHASIS, _DOUBLE, _SINGLE):
        found = mark.fullmatch(line.strip())
        line = found[found.lastindex or 0] if found else line
    return line.strip()


def _is_searchable(line: str, max_words: int) -> bool:
    """Whether the line can be a search query."""
    found = tokenize_words(line)
    if not found or line.endswith((":", "：")) or line.startswith("```") or len(line.split()) > max_words:
        return False
    return len(found) > 1 or (len(line) >= _MIN_WORD_LENGTH and found[0] not in _FILLERS)
