"""Verbs as methods: imported on first use, plain arguments checked, retried when the collection switched embedders."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast, get_args

from clew import drivers
from clew.core.errors import ModelSwitched, SettingsError
from clew.core.filter import EVERYTHING
from clew.drivers.store.store import Store

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened


class LazyModule:
    """A placeholder for a module of verbs in a class body: `module.verb` is imported on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, verb: str) -> "LazyVerb":
        return LazyVerb(self._name, verb)


class LazyVerb:
    """A descriptor that imports a verb on first access and replaces itself in the class by the wrapped function."""

    def __init__(self, module: str, function: str) -> None:
        self._module, self._function = module, function

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        function = follow_model_switch(getattr(import_module(self._module), self._function))
        setattr(self._owner, self._name, function)
        bound: Callable[..., Any] = function.__get__(instance, owner)
        return bound


P = ParamSpec("P")
T = TypeVar("T")
_reopening = threading.Lock()  # threads that share an engine reopen it once
_PLAIN: Final[Mapping[Any, str]] = {
    str: "a text",
    Path: "a path",
    bool: "True or False",
    datetime: "a datetime",
    NoneType: "None",
}


def list_plain_types(verb: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """List the parameters of a verb that take plain values only, each with its types; verbs check the others."""
    found = {}
    for name, each in signature(verb).parameters.items():
        kinds = get_args(each.annotation) if isinstance(each.annotation, UnionType) else (each.annotation,)
        if each.kind is not Parameter.VAR_POSITIONAL and all(kind in _PLAIN for kind in kinds):
            found[name] = kinds
    return found


def check_arguments(arguments: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise SettingsError for an argument of another type: callers without a type checker pass anything."""
    for name, value in arguments.items():
        if name in types and not isinstance(value, types[name]):
            wanted = " or ".join(_PLAIN[kind] for kind in types[name])
            hint = "; give a text, and the conversation before it as history=" if name == "question" else ""
            raise SettingsError(f"{name} is {value!r:.80}; it must be {wanted}{hint}")


def follow_model_switch(verb: "Callable[Concatenate[Engine, P], T]") -> "Callable[Concatenate[Engine, P], T]":
    """Wrap a verb to check its plain arguments, and to retry once if the collection switched to another embedder.

    An embedder given as an object cannot be replaced; then raise ModelSwitched.
    """

    types, parameters = list_plain_types(verb), signature(verb).parameters.values()
    names = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD][1:]

    @wraps(verb)
    def call(engine: "Engine", *args: P.args, **kwargs: P.kwargs) -> T:
        check_arguments({**dict(zip(names, args, strict=False)), **kwargs}, types)
        used = engine.opened
        try:
            return verb(engine, *args, **kwargs)
        except ModelSwitched as error:
            with _reopening:
                if not _reopen(engine, used, error.embedder):
                    raise
        return verb(engine, *args, **kwargs)

    return cast("Callable[Concatenate[Engine, P], T]", call)


def _reopen(engine: "Engine", used: "Opened", name: str) -> bool:
    """Reopen the collection with the embedder of that name, unless another thread did; return whether it is open."""
    if engine.opened is not used:
        return True
    whole = engine.whole
    if whole is not None:
        has_old = whole.opened.store.whole is used.store.whole
        if has_old and not _reopen(whole, whole.opened, name):
            return False
        now = whole.opened
        engine.opened = _move(used, now.store.whole, now)
        return True
    if used.embedder_config is None:
        return False
    config = replace(used.embedder_config, name=name)
    embedder = drivers.make_embedder(config)
    store = used.store.whole.with_model_in_use(embedder)
    engine.opened = _move(used, store, replace(used, embedder=embedder, embedder_config=config))
    return True


def _move(used: "Opened", store: Store, model: "Opened") -> "Opened":
    """Return a copy over another store with the embedder of `model`, within the same boundary."""
    if used.boundary == EVERYTHING:
        return used.with_store(store, model.embedder, model.embedder_config)
    whole = replace(used, store=used.store.whole, boundary=EVERYTHING).with_store(
        store, model.embedder, model.embedder_config
    )
    return replace(whole.within(used.boundary, is_limit=True), closes=used.closes, sessions=used.sessions)
