"""Threads for the calls of the engine, which block: so many at a time, so many waiting, each with a time limit."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from clew.core.parallel import cancelled_by
from clew.surface.server.errors import ServerBusy, TimeExceeded
from clew.surface.server.observe import start_span
from clew.surface.server.places import Places

T = TypeVar("T")


class CallPool:
    """Runs blocking calls in threads, first come first served."""

    def __init__(self, name: str, max_concurrent: int, *, max_waiting: int, timeout: float, places: Places) -> None:
        self._places = places
        self._threads = ThreadPoolExecutor(max_concurrent, thread_name_prefix=f"clew-{name}")
        self._limit = max_concurrent + max_waiting
        self._timeout = timeout
        self._calls: set[threading.Event] = set()  # one for each call that is there, set when nobody waits for it
        self._closed = False

    @property
    def pending(self) -> int:
        """The calls that run or wait."""
        return len(self._calls)

    async def run(self, call: Callable[[], T]) -> T:
        """The result of a call; ServerBusy where too many wait, TimeExceeded where it takes too long.

        A call that nobody waits for any more is told so: a request to a model ends, other work at its next step.
        """
        if self._closed:
            raise ServerBusy("the server is shutting down; ask again", headers={"retry-after": "5"})
        if len(self._calls) >= self._limit:
            raise ServerBusy("too many requests are waiting; ask again later", headers={"retry-after": "1"})
        cancelled = threading.Event()
        self._calls.add(cancelled)

        def work() -> T:
            if cancelled.is_set():
                raise TimeExceeded("nobody waits for this any more")
            with cancelled_by(cancelled), start_span("clew.call"), self._places.hidden():
                return call()

        future = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, work)
        future.add_done_callback(lambda _: self._calls.discard(cancelled))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(future)
        except TimeoutError:
            future.add_done_callback(_forget)
            raise TimeExceeded(
                f"not done within {self._timeout:g} seconds (server.timeout); ask for less, or raise the limit"
            ) from None
        finally:
            if not future.done():
                future.add_done_callback(_forget)
                cancelled.set()

    def close(self) -> None:
        """Takes no further call and ends those that run, at their next step."""
        self._closed = True
        for each in tuple(self._calls):
            each.set()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _forget(future: "asyncio.Future[Any]") -> None:
    """Takes the error of a call that nobody waits for, so that it is not reported as lost."""
    if not future.cancelled():
        future.exception()
