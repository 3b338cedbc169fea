"""Independent calls at once, in threads, with the trace carried over."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def gather(calls: Sequence[Callable[[], T]], *, workers: int = 8) -> list[T]:
    """The results in the order of the calls; the first failure is raised once all have ended."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(workers, len(calls))) as pool:
        futures = [pool.submit(copy_context().run, call) for call in calls]
    return [future.result() for future in futures]
