"""Checks of the objects given to `Engine.open`: a half-built driver fails there, with what it lacks."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from clew.core.errors import SettingsError
from clew.core.protocols import Embedder

T = TypeVar("T")


def check_implements(given: T, protocol: type[Any], what: str) -> T:
    """The object, or SettingsError with the protocol members that it lacks or that cannot be called."""
    members = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    missing = [
        f"{name}()" if callable(member) else name
        for name, member in members.items()
        if not hasattr(given, name) or (callable(member) and not callable(getattr(given, name)))
    ]
    if missing:
        kind = given.__name__ if isinstance(given, type) else type(given).__name__
        raise SettingsError(
            f"{kind} cannot be the {what}: it lacks {', '.join(missing)} (see clew.{protocol.__name__})"
        )
    if isinstance(given, type):
        raise SettingsError(f"the {what} is the class {given.__name__}; give an instance, {given.__name__}(…)")
    return given


def check_embedder(given: Embedder) -> None:
    """Raises SettingsError for an embedder that lacks a member, or whose name or dim a collection cannot store."""
    check_implements(given, Embedder, "embedder")
    name: object = given.name
    dim: object = given.dim
    if not isinstance(name, str) or not name:
        raise SettingsError(f"the name of the embedder is {name!r}; it must be a text that is not empty")
    if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
        raise SettingsError(f"the dim of the embedder {name} is {dim!r}; it must be a whole number of at least 1")


def check_callable(given: T, what: str, call: str) -> T:
    """Returns the object, or raises SettingsError if it is not a function; `call` shows how it will be called."""
    if not callable(given):
        raise SettingsError(f"the {what} has the type {type(given).__name__}; give a function: {call}")
    return given


def check_function_table(given: Mapping[str, Callable[..., Any]] | None, what: str, call: str) -> None:
    """Raises SettingsError for an entry of a table that is not a function, or whose name is not a text."""
    for name, function in (given or {}).items():
        if not isinstance(name, str):
            raise SettingsError(f"a {what} is named {name!r}; its name must be a text")
        check_callable(function, f"{what} {name!r}", call)
