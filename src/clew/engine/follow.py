"""Goes on with a collection that was switched to another embedder while it was open."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from clew import drivers
from clew.core.errors import ModelSwitched
from clew.core.filter import EVERYTHING
from clew.core.protocols import Store

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened

P = ParamSpec("P")
T = TypeVar("T")
_reopening = threading.Lock()  # threads that share an engine reopen it once


def follow_model_switch(verb: "Callable[Concatenate[Engine, P], T]") -> "Callable[Concatenate[Engine, P], T]":
    """The verb, called again with the new embedder where the collection was switched to one meanwhile.

    An embedder that was given as an object cannot be made anew: there ModelSwitched is raised.
    """

    @wraps(verb)
    def call(engine: "Engine", *args: P.args, **kwargs: P.kwargs) -> T:
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
    """Opens the collection for the embedder of that name, unless another thread has; whether it is open for it."""
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
    """What is open, over another store with the embedder of `model`; within the same boundary as before."""
    if used.boundary == EVERYTHING:
        return used.with_store(store, model.embedder, model.embedder_config)
    whole = replace(used, store=used.store.whole, boundary=EVERYTHING).with_store(
        store, model.embedder, model.embedder_config
    )
    return replace(whole.within(used.boundary, is_limit=True), closes=used.closes, sessions=used.sessions)
