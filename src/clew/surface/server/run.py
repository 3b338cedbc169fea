"""Runs the server until it is told to stop: uvicorn around the application."""

import socket
from collections.abc import Callable

import uvicorn

from clew.core.errors import DriverFailed
from clew.surface.server.app import make_app
from clew.surface.server.protocol import make_protocol
from clew.surface.server.state import Server

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
