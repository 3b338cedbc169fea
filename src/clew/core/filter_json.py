"""A Filter as JSON, as a request or the scope of a key has it, and back."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from clew.core.errors import SettingsError
from clew.core.filter import EVERYTHING, Filter

SETS: Final = ("documents", "kinds", "channels", "authors", "access")
TIMES: Final = ("since", "until")
_NAMES: Final = frozenset({*SETS, *TIMES, "meta", "any_of", "all_of"})
MAX_DEPTH: Final = 4  # filters in filters


def filter_to_json(where: Filter) -> dict[str, Any]:
    """The conditions that a filter has, by name."""
    made: dict[str, Any] = {name: sorted(value) for name in SETS if (value := getattr(where, name)) is not None}
    made |= {name: value.isoformat() for name in TIMES if (value := getattr(where, name)) is not None}
    if where.meta:
        made["meta"] = {
            key: list(value) if isinstance(value, tuple | frozenset) else value for key, value in where.meta.items()
        }
    if where.any_of is not None:
        made["any_of"] = [filter_to_json(side) for side in where.any_of]
    if where.all_of:
        made["all_of"] = [filter_to_json(side) for side in where.all_of]
    return made


def parse_filter(given: Mapping[str, Any] | None, *, depth: int = 0) -> Filter:
    """The Filter of a JSON object, EVERYTHING for none; SettingsError if it is not one."""
    if given is None:
        return EVERYTHING
    if depth > MAX_DEPTH:
        raise SettingsError(f"where has filters in filters more than {MAX_DEPTH} deep; write it flatter")
    if not isinstance(given, Mapping):
        raise SettingsError('where is not an object; give one such as {"channels": ["ops"]}')
    if unknown := set(given) - _NAMES:
        raise SettingsError(f"where has {sorted(unknown)[0]!r}, which is no condition; {', '.join(sorted(_NAMES))} are")
    values: dict[str, Any] = {name: _parse_set(name, given[name]) for name in SETS if given.get(name) is not None}
    values |= {name: parse_time(name, given[name]) for name in TIMES if given.get(name) is not None}
    for name in ("any_of", "all_of"):
        if given.get(name) is not None:
            values[name] = tuple(parse_filter(side, depth=depth + 1) for side in given[name])
    return Filter(**values, meta=given.get("meta") or {})


def parse_time(name: str, text: Any) -> datetime:
    """The time of an ISO text; one without a zone is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is {text!r}; it must be a date or time such as 2025-05-31T14:00:00Z") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:  # within hours of the first or the last year that there is
        return (datetime.min if time.year == 1 else datetime.max).replace(tzinfo=UTC)


def _parse_set(name: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise SettingsError(f"{name} is {value!r}; it must be a list of names")
    return frozenset(value)
