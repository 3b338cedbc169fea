"""The limits of reading a file, and the progress that a reader reports."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from clew.core.errors import SourceError
from clew.core.settings import DEFAULTS, IngestionConfig

PAGES_PER_LIMIT = 500  # pages of a step that share the time limit of one page


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of reading one file."""

    seconds: float  # for the file, or for each step such as a page
    memory: int  # bytes
    pages: int
    text: int  # characters

    @classmethod
    def of(cls, config: IngestionConfig) -> "ReadLimits":
        """Return the limits of the settings."""
        return cls(config.max_read_seconds, config.max_read_memory, config.max_pages, config.max_file_bytes)


DEFAULT_LIMITS = ReadLimits.of(DEFAULTS.ingestion)
OnPages = Callable[[int], None]  # called before a step with its number of pages
_limits: ContextVar[ReadLimits] = ContextVar("clew_read_limits", default=DEFAULT_LIMITS)
_on_pages: ContextVar[OnPages | None] = ContextVar("clew_on_pages", default=None)


@contextmanager
def read_within(limits: ReadLimits, on_pages: OnPages) -> Iterator[None]:
    """Apply these limits to readers inside the block, and report their progress to `on_pages`."""
    before = _limits.set(limits), _on_pages.set(on_pages)
    try:
        yield
    finally:
        _limits.reset(before[0])
        _on_pages.reset(before[1])


def check_page_count(pages: int, *, uri: str) -> None:
    """Raise SourceError for a file with more pages than the limit."""
    limit = _limits.get().pages
    if pages > limit:
        raise SourceError(uri, f"has {pages:,} pages, and the limit is {limit:,} (ingestion.max_pages)")


def start_pages(count: int = 1) -> None:
    """Report that a step of this many pages begins; this restarts the time limit."""
    on_pages = _on_pages.get()
    if on_pages is not None:
        on_pages(count)


def get_step_seconds(seconds: float, pages: int) -> float:
    """Return the time limit of a step of this many pages."""
    return seconds * max(1.0, pages / PAGES_PER_LIMIT)
