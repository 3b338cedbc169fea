"""Reading ahead: while a document is chunked, the next is read, mostly in another process."""

from collections.abc import Callable, Generator, Sequence
from functools import partial

from clew.core.parallel import prefetch
from clew.core.types import Document

Read = Callable[[], Document]
MAX_AHEAD = 1  # documents read before they are needed: one may be large


def read_ahead(reads: Sequence[Read]) -> Generator[Read, None, None]:
    """A call for each of the calls, in order, which returns or raises at once what that did in another thread."""
    if len(reads) < 2:
        return (read for read in reads)
    return prefetch((_run(read) for read in reads), max_ahead=MAX_AHEAD)


def _run(read: Read) -> Read:
    try:
        document = read()
    except Exception as error:
        return partial(_raise, error)
    return lambda: document


def _raise(error: Exception) -> Document:
    raise error
