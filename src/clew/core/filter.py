"""Filters: which part of a collection may be seen."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from clew.core.errors import SettingsError

MAX_DEPTH = 50  # of filters in filters
Meta = Mapping[str, Any]  # from the source or the caller: scalars and lists of scalars


def _check_datetime(name: str, value: object) -> None:
    if value is not None and not isinstance(value, datetime):
        raise TypeError(f"Filter({name}=…) takes a datetime, not {value!r}")


def _copy_value(value: Any) -> Any:
    """A value of meta that nobody can change."""
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
    """Which chunks may be seen, by any verb: all conditions must hold, each by any of its values.

    None admits all, an empty set nothing. A channel may be written with its sign, `#ops`. `since` is inclusive, `until`
    exclusive; a chunk without a time is outside every time range. `access` are labels: what has none of its own is seen
    by anybody with at least one. `meta` is compared as text with that of the chunk, or else of its document; a list
    matches if any of its members does.

    `a | b` admits what either admits, `a & b` what both do: `any_of` and `all_of` are their sides; `any_of` without a
    side admits nothing. What a filter is made of is copied: a later change to it changes no filter.
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
            if isinstance(value, str):  # set("page") would be its letters
                raise TypeError(f"Filter({name}=…) takes a set of names, not the single text {value!r}")
            if value is not None:
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
        # A chain of many is flat: `any_of` alone is nothing but its sides.
        sides = (
            each.any_of if each.any_of and each == Filter(any_of=each.any_of) else (each,) for each in (self, other)
        )
        return Filter(any_of=tuple(chain.from_iterable(sides)))

    def __and__(self, other: "Filter") -> "Filter":
        if not isinstance(other, Filter):
            return NotImplemented
        if other is self or other == EVERYTHING:
            return self
        if other == self and repr(other) == repr(self):  # 1 and True are equal, and other values of meta
            return self
        if self == EVERYTHING:
            return other
        sides = (
            each.all_of if each.all_of and each == Filter(all_of=each.all_of) else (each,) for each in (self, other)
        )
        return Filter(all_of=tuple(chain.from_iterable(sides)))


EVERYTHING = Filter()
