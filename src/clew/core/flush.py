"""The end of a long write: the indexes are brought up to date, whether it came to its end or failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic

from clew.core.errors import ClewError
from clew.core.report import OnProgress, Progress

STAGE = "building the index"
UNIT = "seconds"
INTERVAL = 1.0  # seconds between two reports, and before the first


@contextmanager
def flush_after(flush: Callable[[], None], on_progress: OnProgress | None = None) -> Iterator[None]:
    """Flushes a store after the block; the error of the block is raised even if the flush fails too.

    A large index takes minutes: progress is the seconds that have passed.
    """
    try:
        yield
    except BaseException:
        with suppress(ClewError):
            flush()
        raise
    with _report_seconds(on_progress):
        flush()


@contextmanager
def _report_seconds(on_progress: OnProgress | None) -> Iterator[None]:
    """Reports how long the block has taken, from a thread, until it ends or a report raises."""
    if on_progress is None:
        yield
        return
    is_done, started, spent = Event(), monotonic(), 0

    def report() -> None:
        nonlocal spent
        with suppress(Exception):
            while not is_done.wait(INTERVAL):
                spent = round(monotonic() - started)
                on_progress(Progress(STAGE, spent, None, UNIT))

    thread = Thread(target=report, name="clew progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
    if spent:
        on_progress(Progress(STAGE, spent, spent, UNIT))
