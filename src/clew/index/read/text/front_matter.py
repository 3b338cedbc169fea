"""Front matter: what the first lines of a page say of it, between two lines of three dashes."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import yaml

_FRONT = re.compile(r"---[ \t]*\n(?:(.*?)\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_LIMIT = 100_000  # characters; beyond it is a page that begins with a rule
_VALUES = 10_000  # aliases make a short text unfold without end


@dataclass(frozen=True, slots=True)
class Front:
    """What the front matter says, the text that follows it, and what was wrong with it."""

    values: Mapping[str, Any]
    body: str
    error: str = ""
    at: datetime | None = None


def front(text: str) -> Front:
    """The front matter of a page and the rest of it; one that cannot be read stays part of the text."""
    match = _FRONT.match(text) if text.startswith("---") else None
    if match is None or match.end() > _LIMIT:
        return Front({}, text)
    try:
        values = yaml.safe_load(match[1] or "")
        if values is not None and not isinstance(values, dict):  # two rules with words between them
            return Front({}, text)
        safe = safe_meta(values or {})
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, RecursionError) as error:
        reason = getattr(error, "problem", None) or str(error) or type(error).__name__
        return Front({}, text, f"front matter is not YAML: {reason}")
    return Front(safe, text[match.end() :], at=_at(safe))


def safe_meta(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The values under names, in what JSON knows; ValueError where there are too many."""
    budget = [_VALUES]
    return {str(key): json_safe(value, budget) for key, value in values.items()}


def json_safe(value: Any, budget: list[int]) -> Any:
    """The value in what JSON knows: times as ISO text, whatever else as its text."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError(f"it holds more than {_VALUES:,} values")
    if isinstance(value, dict):
        return {str(key): json_safe(item, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item, budget) for item in value]
    if isinstance(value, set):
        return sorted(str(item) for item in value)
    if isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _at(values: Mapping[str, Any]) -> datetime | None:
    """When the page was last changed, else when it was written: the first that is a time, in UTC."""
    for key in ("updated", "date"):
        value = values.get(key)
        if not isinstance(value, str):
            continue
        try:
            at = datetime.fromisoformat(value.strip())
        except ValueError:
            continue
        if at.tzinfo is None:  # a day begins at midnight, a time without a zone is taken as UTC
            return at.replace(tzinfo=UTC)
        try:
            return at.astimezone(UTC)
        except OverflowError:  # the first or last day of the calendar
            continue
    return None
