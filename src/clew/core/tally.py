"""Counts what a piece of work asked of language models, also where others ask the same models at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from clew.core.protocols import Usage


class UsageMeter:
    """What was taken of models while it counted; it may count again, and what counts inside it counts here too."""

    def __init__(self) -> None:
        self._usage = Usage()
        self._lock = Lock()

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return self._usage

    @contextmanager
    def counting(self) -> Iterator["UsageMeter"]:
        """Counts what is taken until it ends, in threads and tasks that are started meanwhile too."""
        token = _open.set((*_open.get(), self))
        try:
            yield self
        finally:
            _open.reset(token)

    def add(self, usage: Usage) -> None:
        """Adds to the sum."""
        with self._lock:
            self._usage += usage


_open: ContextVar[tuple[UsageMeter, ...]] = ContextVar("tallies", default=())


def record_usage(usage: Usage) -> None:
    """Says what a call took; every driver says it once a call, on behalf of whoever asked."""
    for tally in _open.get():
        tally.add(usage)
