"""The running of the server until it is stopped: uvicorn around the application, with limits for each connection."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any, Final

import h11
import uvicorn
from anyio import to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from clew.core.errors import ClewError, DriverFailed, DriverMissing
from clew.surface.advice import describe_problems
from clew.surface.mcp import MCP_HINT, is_mcp_installed
from clew.surface.server import guard
from clew.surface.server.call import refuse_unknown_parameters
from clew.surface.server.errors import RequestRejected, ServerBusy, format_error_body, make_error_json
from clew.surface.server.guard import MIN_RATE, OPEN_PATHS, Guard
from clew.surface.server.hosts import is_loopback
from clew.surface.server.keys import reading_keys
from clew.surface.server.observe import REQUEST_ID
from clew.surface.server.routes import ask, documents, evaluations, jobs, messages, openai, operations, search
from clew.surface.server.state import Server
from clew.surface.to_json import dump_json
from clew.surface.web import routes as web

MAX_CONNECTIONS: Final = 800  # at a time: a process may usually have 1024 files open
UNSENT: Final = 65_536  # bytes of a reply that the kernel buffers beyond what the client has room for


def make_protocol(*, max_connections: int, timeout: float) -> type[asyncio.Protocol]:
    """Make the connection class with these limits, as uvicorn takes it.

    Uvicorn closes a connection that is idle after a reply. It waits forever for a client that never sends a whole head,
    or the rest of a body that was answered early, and for one that does not read its reply.
    """

    class LimitedProtocol(H11Protocol):
        """A connection within its limits."""

        head_timer: asyncio.TimerHandle | None = None
        reply_timer: asyncio.TimerHandle | None = None
        unread: int | None = None  # bytes of a stalled reply left at the last check; None: not stalled

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
            """Start the timer while the next head is awaited; stop it otherwise."""
            if not self._awaits_head() or self.transport.is_closing():
                self._stop_timer()
            elif self.head_timer is None:
                self.head_timer = self.loop.call_later(timeout, self.transport.close)

        def _awaits_head(self) -> bool:
            """Return whether no request is in progress; the rest of a body that has its reply does not count."""
            is_answered = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE
            return self.conn.their_state is h11.IDLE or is_answered

        def _check_reply(self) -> None:
            """Abort a connection, even a closing one, whose client reads less than a kilobyte a second."""
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
    """Let the kernel buffer little of a reply: this shows how fast the client reads, and saves memory."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if connection is not None and option is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, UNSENT)


def _format_refusal() -> bytes:
    """Format the reply to a connection beyond the limit."""
    error = ServerBusy("too many connections are open; try again later")
    status, body = format_error_body(error, "")
    head = f"HTTP/1.1 {status} Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\nretry-after: 1\r\nconnection: close\r\n\r\n".encode() + body


GRACE_SECONDS = 20  # for running requests, when the server is told to stop


def make_uvicorn(server: Server, on_start: Callable[[str], None] | None = None) -> uvicorn.Server:
    """Make the uvicorn server over ours; `on_start` gets the address once it listens."""
    config = uvicorn.Config(
        make_app(server),
        host=server.config.host,
        port=server.config.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=make_protocol(max_connections=MAX_CONNECTIONS, timeout=guard.BODY_TIMEOUT),
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=65_536,
    )
    return _Announcing(config, server, on_start)


class _Announcing(uvicorn.Server):
    """A uvicorn server that reports its address once it listens, and ends the streams first on shutdown."""

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
    """Find the port that a server listens on."""
    sockets = [each for server in running.servers for each in server.sockets]
    return int(sockets[0].getsockname()[1]) if sockets else running.config.port


def format_address(host: str, port: int) -> str:
    """Format the address as a URL."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(server: Server, on_start: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; raise DriverFailed if it cannot listen on the address."""
    running = make_uvicorn(server, on_start)
    try:
        running.run()
    except SystemExit as error:  # uvicorn exits this way if it cannot listen
        server.close()
        place = f"{server.config.host}:{server.config.port}"
        raise DriverFailed(
            f"the server cannot listen on {place}; another program has the port (server.port), or it is no address of "
            "this machine (server.host)"
        ) from error
    except KeyboardInterrupt:  # uvicorn has shut down, and passes the signal on
        return


ROUTERS = tuple(each.router for each in (search, ask, documents, messages, jobs, evaluations, openai, operations))
ABOUT = """Finds the right context for a language model in documents and conversations, and shows where it came from.

Send a key as `Authorization: Bearer KEY`; on loopback none is needed until one was made. Every error has one shape."""


def make_app(server: Server) -> ASGIApp:
    """Make the ASGI application over a server, guarded."""
    mcp_routes, mcp_sessions = _make_mcp(server)
    app = FastAPI(
        title="Clew",
        version=version("clew"),
        description=ABOUT,
        lifespan=_make_lifespan(server, mcp_sessions),
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.server = server
    describe = app.openapi
    app.openapi = lambda: _add_security(lift_descriptions(describe()), server)  # type: ignore[method-assign]
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(refuse_unknown_parameters)])
    app.include_router(web.router)  # outside the schema, so its parameters are checked by its functions alone
    app.router.routes.extend(mcp_routes)
    app.add_exception_handler(ClewError, _reply_error)
    app.add_exception_handler(RequestValidationError, _reply_invalid)
    app.add_exception_handler(HTTPException, _reply_http_error)
    app.add_exception_handler(Exception, _reply_error)
    return Guard(app, server)


def _make_mcp(server: Server) -> tuple[Sequence[BaseRoute], AbstractAsyncContextManager[None]]:
    """Make the routes of /mcp and their context; without the MCP package, a route that reports this."""
    if not is_mcp_installed():
        return [Route("/mcp", _refuse_mcp, methods=["GET", "POST", "DELETE"])], nullcontext()
    from clew.surface.server.mcp_mount import make_mcp_app, refuse_stream

    mcp, app = make_mcp_app(server)
    return [Route("/mcp", refuse_stream, methods=["GET"]), *app.routes], mcp.session_manager.run()


async def _refuse_mcp(_: Request) -> Response:
    raise DriverMissing(f"this server has no MCP; {MCP_HINT}")


def _make_lifespan(server: Server, mcp_sessions: AbstractAsyncContextManager[None]) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(to_thread.run_sync, server.close)
            await to_thread.run_sync(server.resume)
            await stack.enter_async_context(mcp_sessions)
            yield

    return lifespan


def lift_descriptions(schema: Any) -> Any:
    """Give each nullable field of the schema the description of its other type."""
    if isinstance(schema, list):
        return [lift_descriptions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: lift_descriptions(each) for name, each in schema.items()}
    sides = made.get("anyOf")
    if isinstance(sides, list) and "description" not in made:
        told = [each["description"] for each in sides if isinstance(each, dict) and "description" in each]
        if len(told) == 1:
            made["description"] = told[0]
    return made


def _add_security(described: dict[str, Any], server: Server) -> dict[str, Any]:
    """Add the key to each operation of the OpenAPI schema, if keys are needed."""
    with reading_keys():
        if is_loopback(server.config.host) and not server.keys.exists():
            return described
    paths = {
        path: {
            method: operation if path in OPEN_PATHS else {**operation, "security": [{"key": []}]}
            for method, operation in methods.items()
        }
        for path, methods in described["paths"].items()
    }
    schemes = {"key": {"type": "http", "scheme": "bearer", "description": "A key of `clew keys add`."}}
    return {**described, "paths": paths, "components": {**described["components"], "securitySchemes": schemes}}


async def _reply_error(_: Request, error: Exception) -> Response:
    status, body = format_error_body(error, REQUEST_ID.get())
    headers = error.headers if isinstance(error, RequestRejected) else None
    return Response(body, status, headers, media_type="application/json")


async def _reply_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _make_reply(422, "InvalidRequest", describe_invalid(request.headers.get("content-type", ""), error.errors()))


def describe_invalid(content_type: str, problems: Sequence[Mapping[str, Any]]) -> str:
    """Describe what is wrong with a request, by the names of its fields."""
    first = problems[0]
    if first["type"] == "json_invalid":
        place = f"{first['ctx']['error']} at character {first['loc'][-1]}"
        return f"the body is not valid JSON ({place}); quote names and texts with double quotes"
    if tuple(first["loc"][:1]) == ("body",) and "json" not in content_type and "form-data" not in content_type:
        given = f"has the content-type {content_type!r}" if content_type else "has no content-type"
        return f"the body {given}; send JSON with `content-type: application/json`, and files as multipart/form-data"
    if first["type"] == "too_long" and tuple(first["loc"]) == ("body", "files"):
        sent, limit = first["ctx"]["actual_length"], first["ctx"]["max_length"]
        return f"the request has {sent:,} files; send at most {limit} at once, and the rest in further requests"
    named = [{**each, "loc": each["loc"][1:]} for each in problems]  # without `body`, `query` or `path`
    return f"{describe_problems(named)}; see /docs for what a request may say"


async def _reply_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405 and "allow" not in headers:  # the router names the methods of one route only
        place = getattr(request.scope.get("route"), "path_format", "")
        methods = _list_methods(request.url.path) or _list_methods(place)
        headers = {"allow": ", ".join(methods)} if methods else headers
    names = {404: "NotFound", 405: "MethodNotAllowed"}
    message = {404: "there is no such path; /docs lists them", 405: "not a method of this path; /docs lists them"}
    name = names.get(error.status_code, "InvalidRequest")
    text = message.get(error.status_code, str(error.detail))
    return _make_reply(error.status_code, name, text, headers)


def _list_methods(path: str) -> list[str]:
    """List the methods of a path, over all its routes."""
    routes = (each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute))
    same = (each for each in routes if each.path_format == path and each.include_in_schema)
    return sorted(method for each in same for method in each.methods or ())


def _make_reply(status: int, name: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body = make_error_json(name, message)
    body["error"]["request_id"] = REQUEST_ID.get()
    return Response(dump_json(body).encode("utf-8", "replace"), status, headers, media_type="application/json")
