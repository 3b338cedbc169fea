"""A private event loop: asynchronous work for synchronous callers, also for those inside a loop of their own."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import wait
from contextlib import AbstractAsyncContextManager, aclosing
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
TICK = 0.2  # seconds; a wait without an end cannot be interrupted everywhere
GOODBYE = 1.0  # seconds that open connections have to close


class LoopThread:
    """A thread that runs an event loop and holds a resource open on it, until it is closed.

    Connections belong to the loop that opened them, so one loop serves all calls: from a plain thread, a notebook or
    a coroutine's thread pool alike.
    """

    def __init__(self, held: AbstractAsyncContextManager[object]) -> None:
        self._held = held
        self._pid = os.getpid()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="clew-llm-loop", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    @property
    def pid(self) -> int:
        """The process that the thread runs in: a fork takes this object along, but not the thread."""
        return self._pid

    def run(self, work: Coroutine[Any, Any, T], *, stopped: Callable[[], bool]) -> T:
        """What the coroutine returns or raises; an interrupt cancels it, and so does `stopped`."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed: the program ends
            work.close()
            raise
        try:
            while not wait([future], timeout=TICK).done:
                if stopped():
                    future.cancel()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncGenerator[T, None], *, stopped: Callable[[], bool]) -> Iterator[T]:
        """What the generator yields, as it comes; whoever goes away, and `stopped`, cancels it."""
        queue: SimpleQueue[list[T]] = SimpleQueue()  # an empty list is the end

        async def feed() -> None:
            # In one task and without waiting for the reader, so that a slow one does not hold the connection.
            async with aclosing(items):
                async for item in items:
                    queue.put([item])

        future = asyncio.run_coroutine_threadsafe(feed(), self._loop)
        future.add_done_callback(lambda _: queue.put([]))
        try:
            while True:
                try:
                    item = queue.get(timeout=TICK)
                except Empty:
                    if stopped():
                        future.cancel()
                    continue
                if not item:
                    break
                yield item[0]
            future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """Closes what is held and ends the thread; work under way is cancelled."""
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:  # garbage is collected in any thread
            self._thread.join(GOODBYE)

    def _serve(self) -> None:
        try:
            asyncio.run(self._hold())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _hold(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._held:
            self._ready.set()
            await self._stop.wait()
            # Before what they use is closed, or they take that for a broken connection and try again.
            under_way = asyncio.all_tasks() - {asyncio.current_task()}
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
