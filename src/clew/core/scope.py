"""The scope of a search: a store reads once for all of it what its calls share, such as the state of the collection.

Held in a context variable, so that no signature carries it. Outside a search there is none: all is read anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_current: ContextVar[dict[object, object] | None] = ContextVar("clew_search_scope", default=None)


@contextmanager
def search_scope() -> Iterator[None]:
    """One search, or one batch of them. Inside another scope it is part of that."""
    if _current.get() is not None:
        yield
        return
    token = _current.set({})
    try:
        yield
    finally:
        _current.reset(token)


def get_search_scope() -> dict[object, object] | None:
    """What was read for the search that runs, by who read it; None outside one."""
    return _current.get()
