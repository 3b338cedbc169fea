"""Room for so many requests at once, whichever thread and event loop they come from."""

import asyncio
import threading
from types import TracebackType

from clew.core.errors import SettingsError

TICK = 0.01  # seconds between two looks; requests take far longer


class Room:
    """An asynchronous context that at most so many are inside of. Unlike asyncio's it serves any number of loops."""

    def __init__(self, most: int) -> None:
        if most < 1:
            raise SettingsError(f"llm.max_concurrent is {most}; it must be at least 1")
        self.most = most
        self._places = threading.Semaphore(most)

    async def __aenter__(self) -> None:
        while not self._places.acquire(blocking=False):
            await asyncio.sleep(TICK)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._places.release()
