"""An event loop in its own thread, to run coroutines for synchronous callers, even inside another loop."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import wait
from contextlib import AbstractAsyncContextManager, aclosing, closing, nullcontext
from queue import Empty, SimpleQueue
from typing import Any

from clew.core.parallel import POLL_SECONDS, T

CLOSE_SECONDS = 1.0  # for open connections to close


def run_coroutine(work: Coroutine[Any, Any, T], *, is_cancelled: Callable[[], bool] = lambda: False) -> T:
    """Run a coroutine in a new EventLoopThread and return its result; an interrupt or `is_cancelled` cancels it."""
    with closing(EventLoopThread()) as loop:
        return loop.run(work, is_cancelled=is_cancelled)


class EventLoopThread:
    """A thread that runs an event loop and keeps a resource open on it until `close`.

    Connections belong to the loop that opened them, so one loop serves the calls of all threads. Coroutines see the
    caller's context variables, such as the current trace.
    """

    def __init__(self, resource: AbstractAsyncContextManager[object] | None = None) -> None:
        self._resource = resource or nullcontext()
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run_loop, name="clew-event-loop", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    @property
    def pid(self) -> int:
        """The id of the process with the thread: after a fork the child has this object, but not the thread."""
        return self._pid

    def run(self, work: Coroutine[Any, Any, T], *, is_cancelled: Callable[[], bool] = lambda: False) -> T:
        """Run a coroutine in the loop and return its result; an interrupt or `is_cancelled` cancels it."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed: the program is ending
            work.close()
            raise
        try:
            while not wait([future], timeout=POLL_SECONDS).done:
                if is_cancelled():
                    future.cancel()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(
        self, items: AsyncGenerator[T, None], *, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[T]:
        """Yield the items of an async generator as they come; closing the iterator or `is_cancelled` cancels it."""
        queue: SimpleQueue[list[T]] = SimpleQueue()  # an empty list is the end

        async def feed() -> None:
            # In one task and without waiting for the reader, so that a slow reader does not block the connection.
            async with aclosing(items):
                async for item in items:
                    queue.put([item])

        future = asyncio.run_coroutine_threadsafe(feed(), self._loop)
        future.add_done_callback(lambda _: queue.put([]))
        try:
            while True:
                try:
                    item = queue.get(timeout=POLL_SECONDS)
                except Empty:
                    if is_cancelled():
                        future.cancel()
                    continue
                if not item:
                    break
                yield item[0]
            future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel running work, close the resource and end the thread."""
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:  # garbage collection may run in any thread
            self._thread.join(CLOSE_SECONDS)

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._hold_resource())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _hold_resource(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._resource:
            self._ready.set()
            await self._stop.wait()
            # Before the resource closes, or the tasks would see a broken connection and retry.
            running = asyncio.all_tasks() - {asyncio.current_task()}
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
