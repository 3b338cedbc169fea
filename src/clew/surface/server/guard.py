"""The guard: ASGI middleware before everything that is served, the mounted MCP server included.

It checks the host and origin of a request, authenticates its key, limits its rate and body, and counts and logs it
under an id. Every error leaves in the same JSON shape.
"""

import asyncio
import logging
import math
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from clew.core.errors import ClewError
from clew.core.settings import ServerConfig
from clew.surface.server.errors import (
    BadRequest,
    BodyTooLarge,
    BodyTooSlow,
    KeyInvalid,
    RateExceeded,
    RequestRejected,
    ServerBusy,
    error_to_json,
    format_error_body,
)
from clew.surface.server.hosts import HostRules
from clew.surface.server.keys import Access, authenticate
from clew.surface.server.observe import REQUEST_ID, set_attributes, start_span
from clew.surface.to_json import dump_json
from clew.surface.web import FILES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from clew.surface.server.state import Server

MAX_BUCKETS = 10_000
BURST = 2.0  # seconds' worth of requests that may come at once


class RateLimit:
    """The token buckets of the callers; used only in the thread of the event loop."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._capacity = max(1.0, rate * BURST)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and at what time

    def check(self, caller: str, now: float | None = None) -> None:
        """Take a token from the bucket of a caller; if it is empty, raise RateExceeded with the time to wait."""
        if not self._rate:
            return
        now = monotonic() if now is None else now
        left, at = self._buckets.pop(caller, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._rate)
        self._buckets[caller] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) / self._rate)
            raise RateExceeded(
                f"more than {self._rate:g} requests a second (server.rate); ask again in {wait} s",
                headers={"retry-after": str(wait)},
            )


MAX_JSON: Final = 4 * 1024 * 1024  # bytes of a body that is no upload
BODY_TIMEOUT: Final = 15.0  # seconds for the head of a request, and for a body, plus 1 s per kilobyte received
MIN_RATE: Final = 1024  # bytes a second that a body must bring after these seconds


class LimitedBody:
    """A request body within its limits; it keeps a rejection, since frameworks turn errors of `receive` into others."""

    def __init__(self, receive: "Receive", config: ServerConfig, *, is_upload: bool) -> None:
        self.rejection: RequestRejected | None = None
        self._receive = receive
        self._timeout = BODY_TIMEOUT
        self._limit = config.max_body if is_upload else min(MAX_JSON, config.max_body)
        self._setting = " (server.max_body)" if self._limit == config.max_body else ""
        self._size = 0
        self._started: float | None = None
        self._read_ahead: Message | None = None
        self._complete = asyncio.Event()
        self._gone = asyncio.Event()

    async def open(self, headers: Mapping[str, str]) -> None:
        """Check the content-length of a request; raise BodyTooLarge if it is beyond the limit."""
        length = headers.get("content-length")
        if length is not None:
            if not length.isascii() or not length.isdigit():
                raise BadRequest("content-length is not a number")
            if int(length) > self._limit:
                raise self._make_too_large()
        if "transfer-encoding" not in headers and int(length or 0) == 0:
            self._read_ahead = await self.receive()  # the body is empty, so `wait_gone` can begin

    async def wait_gone(self) -> None:
        """Wait until the client has disconnected or has its reply; this begins once the body is read."""
        await self._complete.wait()
        while not self._gone.is_set() and (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    async def receive(self) -> "Message":
        """Return the next message of the body; after the last one, wait for the disconnect."""
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
            text = f"the body did not arrive in time ({self._size} bytes did); send it faster"
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
            f"the body has more than {self._limit} bytes{self._setting}; send less at a time",
            headers={"connection": "close"},
        )


PART = 65_536  # bytes of a reply to send at a time; the next part waits until the client has read some
CLIENT_GONE = 499  # for the log: no client was left to get a status


class Reply:
    """The reply of the application with the guard's headers; a client that stops reading is dropped after a timeout."""

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
        """Pass on a message of the application; if the body was rejected, reply with that error instead."""
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
        """End the events of a reply with an error event."""
        event = f"event: error\ndata: {dump_json(error_to_json(error))}\n\n"
        await self.send({"type": "http.response.body", "body": event.encode()})

    async def send_error(self, error: BaseException) -> None:
        """Reply with an error, unless a reply has begun."""
        if self.status:
            return
        self.status, body = format_error_body(error, self._request_id)
        if isinstance(error, RequestRejected):
            self.headers |= error.headers
        await self._send_whole(body, "application/json")

    async def send_preflight(self) -> None:
        """Answer the CORS preflight of a browser."""
        self.status = 204
        self.headers |= {
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-allow-headers": "authorization, content-type, x-api-key, mcp-protocol-version",
            "access-control-max-age": "600",
        }
        await self._send_whole(b"", "")

    def abandon(self) -> None:
        """Record that the client was gone before the reply."""
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
    """Yield a message; if its body is long, in parts."""
    body = message.get("body", b"")
    last = max(0, (len(body) - 1) // PART * PART)
    for start in range(0, last, PART):
        yield {**message, "body": body[start : start + PART], "more_body": True}
    yield {**message, "body": body[last:]} if last else message


CHECK_SECONDS = 0.5  # between two checks of a stream's key


async def run_watched(
    call: Awaitable[None],
    body: LimitedBody,
    reply: Reply,
    *,
    check_key: Callable[[], Awaitable[object]] | None,
    is_closing: Callable[[], bool],
) -> None:
    """Run a call of the application; cancel it when its client disconnects.

    Work in a thread then ends at its next step. A stream ends with an error event if its key is revoked or expires, or
    if the server shuts down.
    """
    work = asyncio.ensure_future(call)
    gone = asyncio.create_task(body.wait_gone())
    try:
        while not work.done() and not reply.is_complete:
            await asyncio.wait({work, gone}, timeout=CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if work.done() or reply.is_complete:
                break
            if gone.done():
                reply.abandon()
                return
            if reply.is_stream and (ended := await _find_end(check_key, is_closing)):
                await _cancel(work)
                await reply.end_stream(ended)
                return
        await work
    finally:
        await _cancel(gone)
        await _cancel(work)


async def _find_end(
    check_key: Callable[[], Awaitable[object]] | None, is_closing: Callable[[], bool]
) -> RequestRejected | None:
    """Return the error that ends a stream now, or None."""
    if is_closing():
        return ServerBusy("the server is shutting down; ask again later")
    try:
        if check_key is not None:
            await check_key()
    except KeyInvalid as error:
        return error
    return None


async def _cancel(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait for it; its error is retrieved here, and raised elsewhere."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


log = logging.getLogger(__name__)
OPEN_PATHS: Final = frozenset(
    {"/health", "/ready", "/docs", "/docs/page.js", "/docs/page.css", "/openapi.json", *FILES}
)
UPLOAD_PATHS: Final = frozenset({"/v1/documents"})  # their bodies are files on the disk, not JSON
_REQUEST_ID = re.compile(r"[\w.-]{1,64}")


class Guard:
    """The middleware around the whole application."""

    def __init__(self, app: "ASGIApp", server: "Server") -> None:
        self._app = app
        self._server = server
        self._hosts = HostRules(server.config)
        self._rate = RateLimit(server.config.rate)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        token = REQUEST_ID.set(request_id)
        body = LimitedBody(receive, self._server.config, is_upload=scope["path"] in UPLOAD_PATHS)
        reply = Reply(send, body, request_id, timeout=self._server.config.timeout)
        self._server.metrics.in_progress.inc()
        with start_span("clew.request") as span:
            started = perf_counter()
            await self._answer(scope, headers, body, reply)
            fields = self._record(scope, reply, perf_counter() - started)
            set_attributes(span, {"clew.request_id": request_id, **fields})
        REQUEST_ID.reset(token)

    async def _answer(self, scope: "Scope", headers: dict[str, str], body: LimitedBody, reply: Reply) -> None:
        """Let a request through and send its error, if it has one."""
        try:
            await self._pass_on(scope, headers, body, reply)
        except RequestRejected as error:
            await reply.send_error(error)
        except (ConnectionError, TimeoutError):  # the client is gone, or reads nothing
            reply.abandon()
        except Exception as error:
            if not isinstance(error, ClewError):
                log.exception("a request failed")
            await reply.send_error(error)
        finally:
            self._server.metrics.in_progress.dec()

    async def _pass_on(self, scope: "Scope", headers: dict[str, str], body: LimitedBody, reply: Reply) -> None:
        self._hosts.check_host(headers.get("host", ""))
        origin = headers.get("origin")
        if origin is not None:
            reply.headers |= self._hosts.check_origin(origin, headers.get("host", ""))
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await reply.send_preflight()
                return
        is_open = scope["path"] in OPEN_PATHS
        if not is_open:
            scope.setdefault("state", {})["access"] = await self._admit(scope, headers)
        await body.open(headers)
        await run_watched(
            self._app(scope, body.receive, reply.send),
            body,
            reply,
            check_key=None if is_open else lambda: self._authenticate(scope, headers),
            is_closing=lambda: self._server.is_closing,
        )

    async def _admit(self, scope: "Scope", headers: dict[str, str]) -> Access:
        """Authenticate a request, check its rate, and return its rights."""
        try:
            access = await self._authenticate(scope, headers)
        except KeyInvalid:
            self._rate.check(_read_client(scope))
            raise
        self._rate.check(access.caller)
        return access

    async def _authenticate(self, scope: "Scope", headers: dict[str, str]) -> Access:
        def work() -> Access:
            return authenticate(
                self._server.keys,
                _read_token(headers),
                _read_client(scope),
                needs_key=not self._hosts.is_loopback,
                read_only=self._server.config.read_only,
            )

        return await to_thread.run_sync(work)  # the keys may be in a database far away

    def _record(self, scope: "Scope", reply: Reply, seconds: float) -> dict[str, object]:
        """Count a request and write it to the log; return its attributes for a span."""
        route = getattr(scope.get("route"), "path", "") or ("/mcp" if scope["path"].startswith("/mcp") else "other")
        access = scope.get("state", {}).get("access")
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self._server.metrics.observe(method, route, reply.status, seconds)
        fields = {
            "method": method,
            "route": route,  # not the path: it may name a document
            "status": reply.status,
            "ms": round(seconds * 1000, 1),
            "caller": access.caller if access else "",
        }
        log.info("request", extra={"fields": fields})
        names = {"http.request.method": method, "http.route": route, "http.response.status_code": reply.status}
        return {**names, "clew.caller": fields["caller"]}


_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


def _read_client(scope: "Scope") -> str:
    return str((scope.get("client") or ("unknown",))[0])


def _read_token(headers: dict[str, str]) -> str | None:
    """Read the key of a request: a bearer token, or the header x-api-key."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or None
