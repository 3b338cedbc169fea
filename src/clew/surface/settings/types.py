"""The kinds of value that a setting may be: what fits, how it is written as text, how it is told in words."""

import math
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "none"}


class Wrong(Exception):
    """A value that is not of the kind."""


def fitted(value: Any, kind: Any) -> Any:
    """The value as that kind, where nothing is guessed: a whole number is a number, but "5" and true are not."""
    if get_origin(kind) is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in get_args(kind)):
            raise Wrong
        return value
    if get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            try:
                return fitted(value, member)
            except Wrong:
                continue
        raise Wrong
    if get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise Wrong
        return tuple(fitted(member, get_args(kind)[0]) for member in value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise Wrong
    return value


def parsed(text: str, kind: Any) -> Any:
    """What the text says as that kind, or the text itself where it says no such thing."""
    if get_origin(kind) in (Union, UnionType):
        if NoneType in get_args(kind) and text.strip().lower() in ("", "none"):
            return None
        said = [parsed(text, member) for member in get_args(kind) if member is not NoneType]
        return next((value for value in said if not isinstance(value, str)), text)
    if get_origin(kind) is tuple:
        return [parsed(part.strip(), get_args(kind)[0]) for part in text.split(",") if part.strip()]
    if kind is bool:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(text.strip().lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def described(kind: Any) -> str:
    """The kind in words: "a whole number", "one of ann, exact"."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(described(member) for member in get_args(kind) if member is not NoneType)
    if get_origin(kind) is tuple:
        return f"a list, each {described(get_args(kind)[0])}"
    return _WORDS.get(kind, str(kind))
