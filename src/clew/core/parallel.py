"""Threads for blocking work: parallel calls and prefetching. Context variables such as the trace carry over."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread, current_thread
from typing import TypeVar

from clew.core.errors import SettingsError

T = TypeVar("T")
POLL_SECONDS = 0.2  # a wait without a timeout cannot be interrupted on every platform
_cancellations: ContextVar[tuple[Event, ...]] = ContextVar("clew_cancellations", default=())


def run_parallel(calls: Sequence[Callable[[], T]], *, max_concurrent: int = 8, abandon: bool = False) -> list[T]:
    """Run the calls in at most `max_concurrent` threads; return their results in order.

    An exception or an interrupt cancels the rest: no further call is started, and the exception is raised once the
    running calls have ended. With `abandon` it is raised at once (a hanging request may take a minute); the running
    calls can check `is_cancelled`.
    """
    if max_concurrent < 1:
        raise SettingsError(f"max_concurrent is {max_concurrent}; it must be at least 1")
    if len(calls) < 2:
        return [call() for call in calls]
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    cancelled = Event()
    lock = Lock()
    positions = iter(range(len(calls)))

    def work() -> None:
        _cancellations.set((*_cancellations.get(), cancelled))
        while True:
            with lock:
                position = None if cancelled.is_set() else next(positions, None)
            if position is None:
                return
            try:
                results[position] = copy_context().run(calls[position])
            except BaseException as error:
                errors[position] = error
                cancelled.set()

    # Not a ThreadPoolExecutor: at exit the interpreter would wait for its threads, even for a hanging request.
    threads = [
        Thread(target=copy_context().run, args=(work,), name=f"clew-worker-{n}", daemon=True)
        for n in range(min(max_concurrent, len(calls)))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not (abandon and cancelled.is_set()):
                thread.join(POLL_SECONDS)
    except BaseException:
        cancelled.set()
        for thread in threads:
            if not abandon and thread.ident is not None:
                thread.join()
        raise
    if errors:
        raise errors[min(errors)]
    return [results[position] for position in range(len(calls))]


def run_as_completed(calls: Sequence[Callable[[], T]], *, max_concurrent: int = 8) -> Iterator[T]:
    """Run the calls in at most `max_concurrent` threads; yield each result once it is ready.

    An exception cancels the rest and is raised after the earlier results. Closing the iterator, as an interrupt does,
    starts no further call and waits for none.
    """
    if max_concurrent < 1:
        raise SettingsError(f"max_concurrent is {max_concurrent}; it must be at least 1")
    results: Queue[tuple[T] | BaseException | None] = Queue()
    cancelled = Event()
    lock = Lock()
    remaining = iter(calls)

    def work() -> None:
        _cancellations.set((*_cancellations.get(), cancelled))
        try:
            while True:
                with lock:
                    call = None if cancelled.is_set() else next(remaining, None)
                if call is None:
                    break
                results.put((copy_context().run(call),))
        except BaseException as error:
            cancelled.set()
            results.put(error)
        finally:
            results.put(None)

    running = min(max_concurrent, len(calls))
    for number in range(running):
        Thread(target=copy_context().run, args=(work,), name=f"clew-worker-{number}", daemon=True).start()
    try:
        while running:
            try:
                result = results.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            if result is None:
                running -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result[0]
    finally:
        cancelled.set()


@contextmanager
def cancelled_by(event: Event) -> Iterator[None]:
    """Make `is_cancelled` true for code in the block once the event is set."""
    token = _cancellations.set((*_cancellations.get(), event))
    try:
        yield
    finally:
        _cancellations.reset(token)


def is_cancelled() -> bool:
    """Return whether the `run_parallel` or stream that runs this code was cancelled, so that it should stop."""
    return any(event.is_set() for event in _cancellations.get())


def prefetch(
    items: Iterable[T],
    *,
    max_ahead: int,
    on_idle: Callable[[], None] | None = None,
    idle_seconds: float = 1.0,
    unused: list[T] | None = None,
) -> Generator[T, None, None]:
    """Yield the same items in the same order, while another thread produces up to `max_ahead` of them in advance.

    Exceptions of the thread are raised here. Closing the iterator, as an interrupt does, ends the thread, which can
    check `is_cancelled`, and appends items that were not consumed to `unused`. `on_idle` is called, in the caller's
    thread, after every `idle_seconds` without an item.
    """
    waiting: Queue[tuple[T] | BaseException | None] = Queue(max_ahead)
    closed = Event()
    refused: list[T] = []

    def offer(item: tuple[T] | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        _cancellations.set((*_cancellations.get(), closed))
        try:
            for item in items:
                if not offer((item,)):
                    refused.append(item)
                    return
            offer(None)
        except BaseException as error:
            offer(error)
        finally:
            if isinstance(items, Generator):
                items.close()

    thread = Thread(target=copy_context().run, args=(work,), name="clew-ahead", daemon=True)
    thread.start()
    waited = 0.0
    try:
        while True:
            try:
                item = waiting.get(timeout=POLL_SECONDS)
            except Empty:
                waited += POLL_SECONDS
                if waited >= idle_seconds and on_idle:
                    on_idle()
                    waited = 0.0
                continue
            waited = 0.0
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        closed.set()
        if thread is not current_thread():  # garbage collection may close an iterator in any thread
            thread.join()
        while unused is not None and not waiting.empty():
            left = waiting.get_nowait()
            unused += left if isinstance(left, tuple) else ()
        if unused is not None:
            unused += refused
