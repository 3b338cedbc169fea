"""The reply to a request: its headers, its status for the log, and the errors that replace it."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.surface.server.errors import RequestRejected, error_to_json, format_error_body
from clew.surface.to_json import dump_json

if TYPE_CHECKING:
    from starlette.types import Message, Send

    from clew.surface.server.guard.body import LimitedBody

PART = 65_536  # bytes of a reply that are handed over at a time: the next ones when the client has read some
CLIENT_GONE = 499  # for the log: nobody was there to get a status


class Reply:
    """Sends what the application replies, with our headers; a client that reads nothing is given up in time."""

    def __init__(self, send: "Send", body: "LimitedBody", request_id: str, *, timeout: float) -> None:
        self.headers: dict[str, str] = {"x-request-id": request_id, "x-content-type-options": "nosniff"}
        self.status = 0
        self.is_stream = False  # whether it is sent as events
        self.is_complete = False
        self._send = send
        self._body = body
        self._request_id = request_id
        self._timeout = timeout
        self._is_replaced = False

    async def send(self, message: "Message") -> None:
        """Passes on a message of the application; once a body was rejected, that is the reply."""
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            if self._body.rejection is not None and not self.status:
                await self.send_error(self._body.rejection)
                return
            self.status = message["status"]
            given = dict(message.get("headers", ()))
            self.is_stream = given.get(b"content-type", b"").startswith(b"text/event-stream")
            message = {**message, "headers": [*message.get("headers", ()), *self._encode_headers()]}
        for part in _split(message):
            async with asyncio.timeout(self._timeout):
                await self._send(part)
        self.is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end_stream(self, error: RequestRejected) -> None:
        """Ends the events of a reply with one that says why."""
        event = f"event: error\ndata: {dump_json(error_to_json(error))}\n\n"
        await self.send({"type": "http.response.body", "body": event.encode()})

    async def send_error(self, error: BaseException) -> None:
        """Replies with an error, unless a reply has begun."""
        if self.status:
            return
        self.status, body = format_error_body(error, self._request_id)
        if isinstance(error, RequestRejected):
            self.headers |= error.headers
        await self._send_whole(body, "application/json")

    async def send_preflight(self) -> None:
        """Tells a browser what a page of another origin may send."""
        self.status = 204
        self.headers |= {
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-allow-headers": "authorization, content-type, x-api-key, mcp-protocol-version",
            "access-control-max-age": "600",
        }
        await self._send_whole(b"", "")

    def abandon(self) -> None:
        """Records that the client was gone before the reply."""
        self.status = self.status or CLIENT_GONE

    async def _send_whole(self, body: bytes, media_type: str) -> None:
        self._is_replaced = True
        own = [(b"content-length", str(len(body)).encode())] if media_type else []
        own += [(b"content-type", media_type.encode())] if media_type else []
        headers = [*own, *self._encode_headers()]
        await self._send({"type": "http.response.start", "status": self.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def _encode_headers(self) -> list[tuple[bytes, bytes]]:
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]


def _split(message: "Message") -> Iterator["Message"]:
    """The message in parts, where it has a long body."""
    body = message.get("body", b"")
    last = max(0, (len(body) - 1) // PART * PART)
    for start in range(0, last, PART):
        yield {**message, "body": body[start : start + PART], "more_body": True}
    yield {**message, "body": body[last:]} if last else message
