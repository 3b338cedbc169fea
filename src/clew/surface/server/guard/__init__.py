"""The guard: ASGI middleware before everything that is served, the mounted MCP server included.

Every request passes it: its host and origin are checked, its key gives it its rights, its rate and its body have their
limits, and it is counted and logged under an id. An error, whoever raises it, leaves in the one JSON shape.
"""

import logging
import re
import secrets
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from clew.core.errors import ClewError
from clew.surface.server.access import Access, authenticate
from clew.surface.server.errors import KeyInvalid, RequestRejected
from clew.surface.server.guard.body import LimitedBody
from clew.surface.server.guard.hosts import HostRules
from clew.surface.server.guard.rate import RateLimit
from clew.surface.server.guard.reply import Reply
from clew.surface.server.guard.watch import run_watched
from clew.surface.server.otel import set_attributes, start_span
from clew.surface.web import FILES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from clew.surface.server.state import Server

log = logging.getLogger(__name__)
REQUEST_ID: ContextVar[str] = ContextVar("clew_request_id", default="")
OPEN_PATHS: Final = frozenset(
    {"/health", "/ready", "/docs", "/docs/page.js", "/docs/page.css", "/openapi.json", *FILES}
)
UPLOAD_PATHS: Final = frozenset({"/v1/documents"})  # what they take is a file on the disk, and no JSON
_REQUEST_ID = re.compile(r"[\w.-]{1,64}")


class Guard:
    """Wraps the whole application."""

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
        headers = _read_headers(scope)
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
        """Lets a request through and sends its error, if it has one."""
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
        """The rights of a request, if its caller has not sent too many."""
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
        """Counts a request and writes it to the log; its attributes for a span."""
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


def _read_headers(scope: "Scope") -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _read_token(headers: dict[str, str]) -> str | None:
    """The key of a request: a bearer token, or the header x-api-key."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or None
