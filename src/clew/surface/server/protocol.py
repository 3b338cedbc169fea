"""HTTP connections: so many at a time, each with a time limit for the head of its next request."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from clew.surface.server.errors import ServerBusy, format_error_body


def make_protocol(*, max_connections: int, head_timeout: float) -> type[asyncio.Protocol]:
    """The class of connections with these limits, as uvicorn takes it.

    Uvicorn closes a connection that is silent after a reply; it waits for ever for one that never sends a whole head.
    """

    class LimitedProtocol(H11Protocol):
        """A connection within its limits."""

        head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > max_connections:
                transport.write(_format_refusal())
                transport.close()
                return
            self._time_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._time_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._time_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _time_head(self) -> None:
            """Starts the clock where a head is awaited, and stops it where one is there."""
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                self._stop_timer()
            elif self.head_timer is None:
                self.head_timer = self.loop.call_later(head_timeout, self.transport.close)

        def _stop_timer(self) -> None:
            if self.head_timer is not None:
                self.head_timer.cancel()
                self.head_timer = None

    return LimitedProtocol


def _format_refusal() -> bytes:
    """The reply to a connection too many."""
    error = ServerBusy("too many connections are open (server.max_connections); try again later")
    status, body = format_error_body(error, "")
    head = f"HTTP/1.1 {status} Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\nretry-after: 1\r\nconnection: close\r\n\r\n".encode() + body
