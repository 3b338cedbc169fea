"""The limits of reading one file, and the progress that a reader reports."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from clew.core.errors import SourceError
from clew.core.settings import DEFAULTS, IngestionConfig

PAGES_PER_LIMIT = 500  # of a step that covers many pages, in the time limit of one


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How long a file, or a page of it, may be read, in how much memory, and how many pages it may have."""

    seconds: float
    memory: int
    pages: int
    text: int  # characters

    @classmethod
    def of(cls, config: IngestionConfig) -> "ReadLimits":
        """Return the limits of the settings."""
        return cls(config.max_read_seconds, config.max_read_memory, config.max_pages, config.max_file_bytes)


DEFAULT_LIMITS = ReadLimits.of(DEFAULTS.ingestion)
OnPages = Callable[[int], None]  # called before a step with the number of pages that it covers
_limits: ContextVar[ReadLimits] = ContextVar("clew_read_limits", default=DEFAULT_LIMITS)
_on_pages: ContextVar[OnPages | None] = ContextVar("clew_on_pages", default=None)


@contextmanager
def read_within(limits: ReadLimits, on_pages: OnPages) -> Iterator[None]:
    """Give these limits to readers inside the block, and report their progress to `on_pages`."""
    before = _limits.set(limits), _on_pages.set(on_pages)
    try:
        yield
    finally:
        _limits.reset(before[0])
        _on_pages.reset(before[1])


def check_page_count(pages: int, *, uri: str) -> None:
    """Raise a SourceError for a file with more pages than the limit."""
    limit = _limits.get().pages
    if pages > limit:
        raise SourceError(uri, f"has {pages:,} pages, and the limit is {limit:,} (ingestion.max_pages)")


def start_pages(count: int = 1) -> None:
    """Report that so many pages are read next: the time limit is counted from here on."""
    on_pages = _on_pages.get()
    if on_pages is not None:
        on_pages(count)


def get_step_seconds(seconds: float, pages: int) -> float:
    """Return the time limit of a step that covers so many pages, by the limit of one."""
    return seconds * max(1.0, pages / PAGES_PER_LIMIT)
