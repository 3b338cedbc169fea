"""The queries in a language model's answer: one a line, without what models put around them."""

import re
from collections.abc import Iterable

from clew.core.text import words

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_OPENED_BEFORE = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)  # by the prompt's template
_BULLET = re.compile(r"[-*+•‣▪·–—]\s+")
_NUMBER = re.compile(r"\(?(\d{1,2})(?:\)\s*|[.:](?:\s+|(?=[^\W\d]{3})))")
_LABEL = re.compile(r"(?:search |alternative )?(?:query|variation|question)\s*\d*\s*:\s*", re.IGNORECASE)
_EMPHASIS = re.compile(r"(\*\*|__|\*|`)(.+)\1")
_DOUBLE = re.compile(r"[\"“”„«»]([^\"“”„«»]+)(?:[\"“”«»][.,;]?|\Z)")  # the closing one may be cut off
_SINGLE = re.compile(r"['‘’‚]((?:[^'‘’]|(?<=\w)['’](?=\w))+)['‘’][.,;]?")
_FILLERS = frozenset(
    {"yes", "yeah", "yep", "nope", "none", "okay", "sure", "done", "thanks", "hello", "null", "nothing"}
)
_SHORTEST = 3  # letters of a single word


def without_thinking(answer: str) -> str:
    """The answer without what a model thinks aloud in `<think>` tags, closed or cut off."""
    return _OPENED_BEFORE.sub("", _THOUGHT.sub("", answer))


def query_lines(answer: str, *, longest: int = 12) -> list[str]:
    """The queries of an answer in order, bare and each once: no numbers, bullets, quotes, headings, fillers or prose.

    A number is a line's own if it is greater than the line's place ("2. Liga results" on the first line). A line of
    more than `longest` words is prose. A single word must be a word that one could search for.
    """
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    bare = [_bare(line, place) for place, line in enumerate(lines, 1)]
    return distinct(line for line in bare if _usable(line, longest))


def distinct(queries: Iterable[str]) -> list[str]:
    """Each query once, where and as it was said first; none that is only a space."""
    kept: dict[str, str] = {}
    for query in queries:
        if query.strip():
            kept.setdefault(same(query), query)
    return list(kept.values())


def same(query: str) -> str:
    """What two queries have in common that differ only in case, space and punctuation."""
    return " ".join(words(query)) or " ".join(query.casefold().split())


def _bare(line: str, place: int) -> str:
    """The line without the marks that models put around it."""
    line = _unwrapped(line)
    line = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
    number = _NUMBER.match(line)
    if number and int(number[1]) <= place:
        line = line[number.end() :]
    line = _unwrapped(line)
    label = _LABEL.match(line)
    return " ".join((_unwrapped(line[label.end() :]) if label else line).split())


def _unwrapped(line: str) -> str:
    """The line without emphasis and quotes around the whole of it."""
    for mark in (_EMPHASIS, _DOUBLE, _SINGLE):
        found = mark.fullmatch(line.strip())
        line = found[found.lastindex or 0] if found else line
    return line.strip()


def _usable(line: str, longest: int) -> bool:
    """Whether one could search for the line."""
    spoken = words(line)
    if not spoken or line.endswith((":", "：")) or line.startswith("```") or len(line.split()) > longest:
        return False
    return len(spoken) > 1 or (len(line) >= _SHORTEST and spoken[0] not in _FILLERS)
