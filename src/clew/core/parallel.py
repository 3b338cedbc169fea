"""Work at the same time, in threads, with the trace carried over."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


def run_parallel(calls: Sequence[Callable[[], T]], *, workers: int = 8) -> list[T]:
    """The results in the order of the calls; the first failure is raised once all have ended."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(workers, len(calls))) as pool:
        futures = [pool.submit(copy_context().run, call) for call in calls]
    return [future.result() for future in futures]


def prefetch(items: Iterable[T], *, most: int) -> Iterator[T]:
    """The same items in the same order, made in another thread up to `most` before they are asked for.

    What goes wrong there is raised here. Closing the iterator, as an interrupt does, ends the thread.
    """
    waiting: Queue[tuple[T] | BaseException | None] = Queue(most)
    closed = Event()

    def offer(item: tuple[T] | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not offer((item,)):
                    return
            offer(None)
        except BaseException as error:
            offer(error)

    thread = Thread(target=copy_context().run, args=(work,), name="clew-ahead", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = waiting.get(timeout=0.5)  # a wait without end could not be interrupted everywhere
            except Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        closed.set()
        thread.join()
