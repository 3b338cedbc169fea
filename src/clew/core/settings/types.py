"""Values of settings: types, checks, parsing, and their names in messages."""

import math
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from clew.core.errors import SettingsError

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "none"}


class InvalidValue(Exception):
    """A value of the wrong type."""


def check_value_type(value: Any, value_type: Any) -> Any:
    """Return the value, or raise InvalidValue for another type: 5 is a valid float, "5" and true are not numbers."""
    if get_origin(value_type) is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in get_args(value_type)):
            raise InvalidValue
        return value
    if get_origin(value_type) in (Union, UnionType):
        for member in get_args(value_type):
            try:
                return check_value_type(value, member)
            except InvalidValue:
                continue
        raise InvalidValue
    if get_origin(value_type) is tuple:
        if not isinstance(value, (list, tuple)):
            raise InvalidValue
        return tuple(check_value_type(member, get_args(value_type)[0]) for member in value)
    if value_type is float and type(value) is int:
        return float(value)
    if type(value) is not value_type or (value_type is float and not math.isfinite(value)):
        raise InvalidValue
    return value


def parse_text_as_type(text: str, value_type: Any) -> Any:
    """Convert a text to the type; return it unchanged if that fails, so that `check_value_type` rejects it."""
    if get_origin(value_type) in (Union, UnionType):
        lists = [member for member in get_args(value_type) if get_origin(member) is tuple]
        if lists:  # an empty text is an empty list, not None: for access labels that is nothing, not everything
            return parse_text_as_type(text, lists[0])
        if NoneType in get_args(value_type) and text.strip().lower() in ("", "none"):
            return None
        parsed = [parse_text_as_type(text, member) for member in get_args(value_type) if member is not NoneType]
        return next((value for value in parsed if not isinstance(value, str)), text)
    if get_origin(value_type) is tuple:
        return [parse_text_as_type(part.strip(), get_args(value_type)[0]) for part in text.split(",") if part.strip()]
    if value_type is bool:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(text.strip().lower(), text)
    if value_type in (int, float):
        try:
            return value_type(text)
        except ValueError:
            return text
    return text


def describe_type(value_type: Any) -> str:
    """Describe the type in words: "a whole number", "one of ann, exact"."""
    if get_origin(value_type) is Literal:
        return f"one of {', '.join(map(str, get_args(value_type)))}"
    if get_origin(value_type) in (Union, UnionType):
        return " or ".join(describe_type(member) for member in get_args(value_type) if member is not NoneType)
    if get_origin(value_type) is tuple:
        return f"a list, each {describe_type(get_args(value_type)[0])}"
    return _WORDS.get(value_type, str(value_type))


def check_table(table: str, config: Any, limits: Mapping[float | tuple[float, float], str]) -> None:
    """Raise SettingsError for a value of a table that is not one of its choices, or outside its limits.

    limits: Names of settings, separated by spaces, by minimum or by (minimum, maximum). None passes if the type has it.
    """
    types = {each.name: each.type for each in fields(config)}
    for name, kind in types.items():
        if get_origin(kind) is Literal:
            check_choice(f"{table}.{name}", getattr(config, name), get_args(kind))
    for limit, names in limits.items():
        for name in names.split():
            value = getattr(config, name)
            if value is None and NoneType in get_args(types[name]):
                continue
            if isinstance(limit, tuple):
                check_range(f"{table}.{name}", value, *limit)
            else:
                check_min(f"{table}.{name}", value, limit)


def check_min(name: str, value: object, minimum: float) -> None:
    """Raise SettingsError if the value is below the minimum or not a number."""
    if not isinstance(value, int | float):
        raise SettingsError(f"{name} is {value!r}; it must be a number of at least {minimum}")
    if not value >= minimum:
        raise SettingsError(f"{name} is {value!r}; it must be at least {minimum}")


def check_range(name: str, value: object, minimum: float, maximum: float) -> None:
    """Raise SettingsError if the value is outside the range or not a number."""
    if not (isinstance(value, int | float) and minimum <= value <= maximum):
        raise SettingsError(f"{name} is {value!r}; it must be between {minimum} and {maximum}")


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise SettingsError if the value is not an allowed one."""
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it may be {', '.join(allowed)}")
