"""A limit on concurrent requests, shared by threads and event loops."""

import asyncio
import threading
from types import TracebackType

from clew.core.errors import SettingsError

POLL_SECONDS = 0.01  # requests take far longer


class ConcurrencyLimit:
    """A semaphore for `async with` that, unlike asyncio's, works across event loops."""

    def __init__(self, max_concurrent: int) -> None:
        if max_concurrent < 1:
            raise SettingsError(f"llm.max_concurrent is {max_concurrent}; it must be at least 1")
        self.max_concurrent = max_concurrent
        self._semaphore = threading.Semaphore(max_concurrent)

    async def __aenter__(self) -> None:
        while not self._semaphore.acquire(blocking=False):
            await asyncio.sleep(POLL_SECONDS)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._semaphore.release()
