"""Runs the server until it is told to stop: uvicorn around the application, with limits for each connection."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from clew.core.errors import DriverFailed
from clew.surface.server.app import make_app
from clew.surface.server.errors import ServerBusy, format_error_body
from clew.surface.server.guard import MIN_RATE
from clew.surface.server.state import Server

UNSENT: Final = 65_536  # bytes of a reply that the system takes ahead of what the client has room for


def make_protocol(*, max_connections: int, timeout: float) -> type[asyncio.Protocol]:
    """The class of connections with these limits, as uvicorn takes it.

    Uvicorn closes a connection that is silent after a reply. It waits for ever for one that never sends a whole
    head, or the rest of a body that was answered early, and for one that does not read what was sent.
    """

    class LimitedProtocol(H11Protocol):
        """A connection within its limits."""

        head_timer: asyncio.TimerHandle | None = None
        reply_timer: asyncio.TimerHandle | None = None
        unread: int | None = None  # bytes of a stuck reply at the last look, where nothing was added since

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            _keep_unsent_small(transport.get_extra_info("socket"))
            self.reply_timer = self.loop.call_later(timeout, self._check_reply)
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

        def resume_writing(self) -> None:
            self.unread = None
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            if self.reply_timer is not None:
                self.reply_timer.cancel()
            super().connection_lost(exc)

        def _time_head(self) -> None:
            """Starts the clock where the next head is awaited, and stops it where one is there."""
            if not self._awaits_head() or self.transport.is_closing():
                self._stop_timer()
            elif self.head_timer is None:
                self.head_timer = self.loop.call_later(timeout, self.transport.close)

        def _awaits_head(self) -> bool:
            """Whether no request is under way; what still comes of a body that has its reply is no request."""
            is_answered = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE
            return self.conn.their_state is h11.IDLE or is_answered

        def _check_reply(self) -> None:
            """Cuts a connection whose client reads less than a kilobyte a second, also one that is closing."""
            self.reply_timer = self.loop.call_later(timeout, self._check_reply)
            left = self.transport.get_write_buffer_size()
            if not left or not (self.flow.write_paused or self.transport.is_closing()):
                self.unread = None
            elif self.unread is None or left <= self.unread - MIN_RATE * timeout:
                self.unread = left
            else:
                self.transport.abort()

        def _stop_timer(self) -> None:
            if self.head_timer is not None:
                self.head_timer.cancel()
                self.head_timer = None

    return LimitedProtocol


def _keep_unsent_small(connection: socket.socket | None) -> None:
    """Lets the system take little of a reply ahead: then it is seen how fast the client reads, and memory is free."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if connection is not None and option is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, UNSENT)


def _format_refusal() -> bytes:
    """The reply to a connection too many."""
    error = ServerBusy("too many connections are open (server.max_connections); try again later")
    status, body = format_error_body(error, "")
    head = f"HTTP/1.1 {status} Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\nretry-after: 1\r\nconnection: close\r\n\r\n".encode() + body


GRACE_SECONDS = 20  # for running requests, when the server is told to stop


def make_uvicorn(server: Server, on_start: Callable[[str], None] | None = None) -> uvicorn.Server:
    """The uvicorn server over ours; `on_start` gets the address once it listens."""
    config = uvicorn.Config(
        make_app(server),
        host=server.config.host,
        port=server.config.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=make_protocol(max_connections=server.config.max_connections, timeout=server.config.body_timeout),
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=65_536,
    )
    return _Announcing(config, server, on_start)


class _Announcing(uvicorn.Server):
    """A uvicorn server that says when it listens, and where; told to stop, it ends the streams first."""

    def __init__(self, config: uvicorn.Config, server: Server, on_start: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._server = server
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._on_start is not None:
            self._on_start(format_address(self.config.host, find_port(self)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._server.is_closing = True
        await super().shutdown(sockets)


def find_port(running: uvicorn.Server) -> int:
    """The port that a server listens on."""
    sockets = [each for server in running.servers for each in server.sockets]
    return int(sockets[0].getsockname()[1]) if sockets else running.config.port


def format_address(host: str, port: int) -> str:
    """The address as a URL."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(server: Server, on_start: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM; DriverFailed if the address cannot be had."""
    running = make_uvicorn(server, on_start)
    try:
        running.run()
    except SystemExit as error:  # uvicorn ends so where it cannot listen
        server.close()
        place = f"{server.config.host}:{server.config.port}"
        raise DriverFailed(
            f"the server cannot listen on {place}; another program has the port (server.port), or it is no address of "
            "this machine (server.host)"
        ) from error
    except KeyboardInterrupt:  # uvicorn has stopped in good order, and passes the signal on
        return
