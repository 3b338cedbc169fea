"""The end of a long write: the indexes are brought up to date, whether it came to its end or failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from clew.core.errors import ClewError


@contextmanager
def flush_after(flush: Callable[[], None]) -> Iterator[None]:
    """Flushes a store after the block; the error of the block is raised even if the flush fails too."""
    try:
        yield
    except BaseException:
        with suppress(ClewError):
            flush()
        raise
    flush()
