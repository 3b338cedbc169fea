"""Filters: the visible part of a collection, also as JSON for a request or the scope of a key."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from clew.core.errors import SettingsError

MAX_DEPTH = 50  # nesting of filters
Meta = Mapping[str, Any]  # from the source or the caller: scalars and lists of scalars


def _check_datetime(name: str, value: object) -> None:
    if value is not None and not isinstance(value, datetime):
        raise TypeError(f"Filter({name}=…) takes a datetime, not {value!r}")


def _copy_value(value: Any) -> Any:
    """Copy a value of meta to an immutable one."""
    if isinstance(value, list | tuple):
        return tuple(map(_copy_value, value))
    return frozenset(map(_copy_value, value)) if isinstance(value, Set) else value


def _check_sides(name: str, sides: object) -> tuple["Filter", ...]:
    if not isinstance(sides, list | tuple) or not all(isinstance(each, Filter) for each in sides):
        raise TypeError(f"Filter({name}=…) takes a tuple of filters, not {sides!r}")
    return tuple(sides)


def _check_depth(where: "Filter") -> None:
    level = {id(where): where}
    for _ in range(MAX_DEPTH):
        level = {id(side): side for each in level.values() for side in (*(each.any_of or ()), *each.all_of)}
        if not level:
            return
    raise SettingsError(f"a Filter has filters in filters more than {MAX_DEPTH} deep; put them side by side in one")


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on chunks, for any verb: all fields must match, each by any of its values.

    None admits everything, an empty set nothing. A channel may be written with its sign, `#ops`. `since` is inclusive,
    `until` exclusive; a chunk without a time is outside every time range. `access` are labels: a chunk without labels
    is visible to anybody with at least one. `meta` is compared as text with the chunk's meta, or else its document's; a
    list matches if any of its members does.

    `a | b` admits chunks that either filter admits, `a & b` those that both admit. `any_of` and `all_of` hold the
    operands; an empty `any_of` admits nothing. Arguments are copied, so later changes to them do not change a filter.
    """

    documents: Set[str] | None = None
    kinds: Set[str] | None = None
    channels: Set[str] | None = None
    authors: Set[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    meta: Meta = field(default_factory=dict)
    access: Set[str] | None = None
    any_of: tuple["Filter", ...] | None = None
    all_of: tuple["Filter", ...] = ()

    def __post_init__(self) -> None:
        for name in ("documents", "kinds", "channels", "authors", "access"):
            value = getattr(self, name)
            if value is not None:
                if isinstance(value, str) or not isinstance(value, Iterable):  # set("page") would be a set of letters
                    raise TypeError(f"Filter({name}=…) takes a set of names, not {value!r}")
                object.__setattr__(self, name, frozenset(value))
        for name in ("since", "until"):
            _check_datetime(name, getattr(self, name))
        if not isinstance(self.meta, Mapping):
            raise TypeError(f"Filter(meta=…) takes a mapping of names to values, not {self.meta!r}")
        object.__setattr__(self, "meta", {key: _copy_value(value) for key, value in dict(self.meta).items()})
        for name in ("any_of", "all_of"):
            sides = getattr(self, name)
            if sides is not None:
                object.__setattr__(self, name, _check_sides(name, sides))
        _check_depth(self)

    def __or__(self, other: "Filter") -> "Filter":
        if not isinstance(other, Filter):
            return NotImplemented
        if EVERYTHING in (self, other):
            return EVERYTHING
        # Flatten a chain: a filter with only an `any_of` equals its sides.
        sides = (
            each.any_of if each.any_of and each == Filter(any_of=each.any_of) else (each,) for each in (self, other)
        )
        return Filter(any_of=tuple(chain.from_iterable(sides)))

    def __and__(self, other: "Filter") -> "Filter":
        if not isinstance(other, Filter):
            return NotImplemented
        if other is self or other == EVERYTHING:
            return self
        if other == self and repr(other) == repr(self):  # repr: 1 == True, but they differ as values of meta
            return self
        if self == EVERYTHING:
            return other
        sides = (
            each.all_of if each.all_of and each == Filter(all_of=each.all_of) else (each,) for each in (self, other)
        )
        return Filter(all_of=tuple(chain.from_iterable(sides)))


EVERYTHING = Filter()


SETS: Final = ("documents", "kinds", "channels", "authors", "access")
TIMES: Final = ("since", "until")
_NAMES: Final = frozenset({*SETS, *TIMES, "meta", "any_of", "all_of"})
MAX_NESTED: Final = 4  # nesting of filters in JSON


def filter_to_json(where: Filter) -> dict[str, Any]:
    """Return the fields of a filter that are set, by name."""
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
    """Parse a Filter from a JSON object; EVERYTHING for None, SettingsError if it is invalid."""
    if given is None:
        return EVERYTHING
    if depth > MAX_NESTED:
        raise SettingsError(f"where has filters in filters more than {MAX_NESTED} deep; write it flatter")
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
    """Parse an ISO 8601 time to UTC; a time without a zone is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is {text!r}; it must be a date or time such as 2025-05-31T14:00:00Z") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:  # within hours of year 1 or 9999
        return (datetime.min if time.year == 1 else datetime.max).replace(tzinfo=UTC)


def _parse_set(name: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise SettingsError(f"{name} is {value!r}; it must be a list of names")
    return frozenset(value)
