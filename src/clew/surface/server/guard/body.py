"""The body of a request: not larger than the limit, and not slower than a kilobyte a second."""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final

from clew.core.settings import ServerConfig
from clew.surface.server.errors import BadRequest, BodyTooLarge, BodyTooSlow, RequestRejected

if TYPE_CHECKING:
    from starlette.types import Message, Receive

MIN_RATE: Final = 1024  # bytes a second that a body must bring, once its first seconds are over


class LimitedBody:
    """Receives a body within its limits. A rejection is kept: frameworks turn an error of `receive` into another."""

    def __init__(self, receive: "Receive", config: ServerConfig, *, is_upload: bool) -> None:
        self.rejection: RequestRejected | None = None
        self._receive = receive
        self._timeout = config.body_timeout
        self._limit = config.max_body if is_upload else min(config.max_json, config.max_body)
        self._setting = "max_body" if self._limit == config.max_body else "max_json"
        self._size = 0
        self._started: float | None = None
        self._read_ahead: Message | None = None
        self._complete = asyncio.Event()
        self._gone = asyncio.Event()

    async def open(self, headers: Mapping[str, str]) -> None:
        """Checks the length that a request states: BodyTooLarge if it is beyond the limit."""
        length = headers.get("content-length")
        if length is not None:
            if not length.isascii() or not length.isdigit():
                raise BadRequest("content-length is not a number")
            if int(length) > self._limit:
                raise self._make_too_large()
        if "transfer-encoding" not in headers and int(length or 0) == 0:
            self._read_ahead = await self.receive()  # it is there: whoever waits for the client to go can begin

    async def wait_gone(self) -> None:
        """Returns when the client has gone, or has its reply; the body must be read by then."""
        await self._complete.wait()
        while not self._gone.is_set() and (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    async def receive(self) -> "Message":
        """The next part of the body; later, that the client is gone."""
        if self._read_ahead is not None:
            message, self._read_ahead = self._read_ahead, None
            return message
        if self._complete.is_set():
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._started = monotonic() if self._started is None else self._started
        deadline = self._started + self._timeout + self._size / MIN_RATE
        try:
            async with asyncio.timeout(deadline - monotonic()):
                message = await self._receive()
        except TimeoutError:
            text = f"the body did not arrive in time ({self._size} bytes did); send it faster (server.body_timeout)"
            self.rejection = BodyTooSlow(text, headers={"connection": "close"})
            raise self.rejection from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if not message.get("more_body", False):
                self._complete.set()
            if self._size > self._limit:
                self.rejection = self._make_too_large()
                raise self.rejection
        else:
            self._gone.set()
            self._complete.set()
        return message

    def _make_too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body has more than {self._limit} bytes (server.{self._setting}); send less at a time",
            headers={"connection": "close"},
        )
