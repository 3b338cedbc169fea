"""Verbs whose modules are imported when they are first asked for: a search needs nothing of what reads files."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from clew.engine.follow import follow_model_switch


class LazyModule:
    """Stands for a module of verbs in the body of a class: `module.verb` becomes the function when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, verb: str) -> "LazyVerb":
        return LazyVerb(self._name, verb)


class LazyVerb:
    """A function of a module as a method that follows the collection to another embedder; it is put in its place."""

    def __init__(self, module: str, function: str) -> None:
        self._module, self._function = module, function

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        function = follow_model_switch(getattr(import_module(self._module), self._function))
        setattr(self._owner, self._name, function)
        bound: Callable[..., Any] = function.__get__(instance, owner)
        return bound
