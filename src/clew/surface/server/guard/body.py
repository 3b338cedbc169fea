"""The body of a request: not larger than the limit, and not slower than a kilobyte a second."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from clew.core.settings import ServerConfig
from clew.surface.server.errors import BadRequest, BodyTooLarge, BodyTooSlow, RequestRejected

if TYPE_CHECKING:
    from starlette.types import Message, Receive

MIN_RATE: Final = 1024  # bytes a second that a body must bring, once its first seconds are over


class LimitedBody:
    """Receives a body within its limits. A rejection is kept: frameworks turn an error of `receive` into another."""

    def __init__(self, receive: "Receive", config: ServerConfig) -> None:
        self.rejection: RequestRejected | None = None
        self._receive = receive
        self._config = config
        self._size = 0
        self._started: float | None = None
        self._is_complete = False

    def check_length(self, header: str | None) -> None:
        """Raises BodyTooLarge if the length that a request states is beyond the limit."""
        if header is None:
            return
        if not header.isascii() or not header.isdigit():
            raise BadRequest("content-length is not a number")
        if int(header) > self._config.max_body:
            raise self._make_too_large()

    async def receive(self) -> "Message":
        """The next part of the body; later, that the client is gone."""
        if self._is_complete:
            return await self._receive()
        self._started = monotonic() if self._started is None else self._started
        deadline = self._started + self._config.body_timeout + self._size / MIN_RATE
        try:
            async with asyncio.timeout(deadline - monotonic()):
                message = await self._receive()
        except TimeoutError:
            text = f"the body did not arrive in time ({self._size} bytes did); send it faster (server.body_timeout)"
            self.rejection = BodyTooSlow(text, headers={"connection": "close"})
            raise self.rejection from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._size > self._config.max_body:
                self.rejection = self._make_too_large()
                raise self.rejection
        else:
            self._is_complete = True
        return message

    def _make_too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body has more than {self._config.max_body} bytes (server.max_body); send less at a time",
            headers={"connection": "close"},
        )
