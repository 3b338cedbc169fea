"""Front matter: YAML metadata at the start of a page, between two lines of three dashes."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import takewhile
from typing import Any

import yaml

from clew.core.time import parse_iso_or_none

_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:(.*?)\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ACCESS = re.compile(r"^\s*[\"']?access[\"']?\s*:", re.IGNORECASE | re.MULTILINE)
# A possible line of front matter: blank, a comment, `key:`, an item, indented, or the end of a list.
_YAML_LINE = re.compile(r"[ \t]*(?:\#.*)?|[\w\"'][\w \"'-]{0,60}:(?:[ \t].*)?|-[ \t].*|[ \t].*|[\]}],?[ \t]*")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_MAX_CHARS = 100_000  # longer front matter is a page that begins with a horizontal rule
_MAX_VALUES = 10_000  # YAML aliases can expand a short text without limit


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The parsed front matter of a page, the body after it, and the error if it could not be parsed."""

    values: Mapping[str, Any]
    body: str
    error: str = ""
    at: datetime | None = None  # when the page was last changed
    lines: int = 0  # of the front matter
    labels_lost: bool = False  # whether it has a line `access` whose labels could not be parsed
    access: frozenset[str] | None = None  # the labels of those who may see the page; None without `access`


def parse_front_matter(text: str) -> FrontMatter:
    """Split a page into front matter and body. Front matter that cannot be parsed stays in the body.

    After blank lines it only counts if it has `access`: otherwise the dashes are horizontal rules.
    """
    start = 0 if text.startswith("---") else _BLANK_LINES.match(text).end()  # type: ignore[union-attr]  # it may be empty
    match = _FRONT_MATTER.match(text, start) if text.startswith("---", start) else None
    if match is None or match.end() > _MAX_CHARS:
        if _begins_with_labels(text, start):
            return FrontMatter({}, text, "front matter has no line --- at its end", labels_lost=True)
        return FrontMatter({}, text)
    if start and not _ACCESS.search(match[1] or ""):
        return FrontMatter({}, text)
    try:
        values = yaml.safe_load(match[1] or "")
        if values is not None and not isinstance(values, dict):  # text between two horizontal rules
            return FrontMatter({}, text)
        safe = to_json_meta(values or {})
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, RecursionError) as error:
        reason = getattr(error, "problem", None) or str(error) or type(error).__name__
        return FrontMatter({}, text, f"front matter is not YAML: {reason}", labels_lost=bool(_ACCESS.search(match[1])))
    try:
        access = _parse_labels(safe)
    except ValueError as error:
        return FrontMatter({}, text, str(error), labels_lost=True)
    lines = text.count("\n", 0, match.end())
    return FrontMatter(safe, text[match.end() :], at=parse_updated_time(safe), lines=lines, access=access)


def _begins_with_labels(text: str, start: int) -> bool:
    """Return whether a page begins like front matter with a line `access`, even if it has no end."""
    opening, *lines = text[start : start + _MAX_CHARS].split("\n")
    if opening.rstrip() != "---":
        return False
    inside = takewhile(_YAML_LINE.fullmatch, lines)
    return any(_ACCESS.match(line) for line in inside)


def _parse_labels(values: Mapping[str, Any]) -> frozenset[str] | None:
    """Parse the labels of `access`, a list or a text with commas; None without it, ValueError for anything else.

    An empty list means that nobody may see the page.
    """
    key = next((each for each in values if each.strip().lower() == "access"), None)
    if key is None:
        return None
    given = values[key]
    labels = [given] if isinstance(given, bool | int | float) else given.split(",") if isinstance(given, str) else given
    if not isinstance(labels, list) or any(isinstance(each, dict | list) or each is None for each in labels):
        raise ValueError("front matter has no labels there")
    names = [str(label).strip() for label in labels]
    if labels and not any(names):
        raise ValueError("front matter has no labels there")
    return frozenset(name for name in names if name)


def to_json_meta(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Convert the values to JSON values under string keys; raise ValueError if there are too many."""
    budget = [_MAX_VALUES]
    return {str(key): to_json_value(value, budget) for key, value in values.items()}


def to_json_value(value: Any, budget: list[int]) -> Any:
    """Convert a value to a JSON value: dates to ISO 8601, anything unknown to its str(). Counts down the budget."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError(f"it holds more than {_MAX_VALUES:,} values")
    if isinstance(value, dict):
        return {str(key): to_json_value(item, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item, budget) for item in value]
    if isinstance(value, set):
        return sorted(str(item) for item in value)
    if isinstance(value, date):  # includes datetime
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def parse_updated_time(values: Mapping[str, Any]) -> datetime | None:
    """Parse the time of a page in UTC: `updated`, else `date`."""
    for key in ("updated", "date"):
        value = values.get(key)
        if not isinstance(value, str):
            continue
        at = parse_iso_or_none(value)
        try:
            if at:
                return at.astimezone(UTC)
        except OverflowError:  # the first or last day of the calendar
            continue
    return None
