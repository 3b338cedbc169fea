"""The application: the routes and the MCP server behind the guard."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any

from anyio import to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from clew.core.errors import ClewError, DriverMissing
from clew.surface.advice import describe_problems
from clew.surface.mcp import MCP_HINT, is_mcp_installed
from clew.surface.server.access import reading_keys
from clew.surface.server.call import refuse_unknown_parameters
from clew.surface.server.errors import RequestRejected, format_error_body, make_error_json
from clew.surface.server.guard import OPEN_PATHS, Guard, is_loopback
from clew.surface.server.observe import REQUEST_ID
from clew.surface.server.routes import ask, documents, evaluations, jobs, messages, openai, operations, search
from clew.surface.server.state import Server
from clew.surface.to_json import dump_json
from clew.surface.web import routes as web

ROUTERS = tuple(each.router for each in (search, ask, documents, messages, jobs, evaluations, openai, operations))
ABOUT = """Finds the right context for a language model in documents and conversations, and shows where it came from.

Send a key as `Authorization: Bearer KEY`; on loopback none is needed until one was made. Every error has one shape."""


def make_app(server: Server) -> ASGIApp:
    """The ASGI application over a server, guarded."""
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
    app.add_exception_handler(ClewError, _reply_clew_error)
    app.add_exception_handler(RequestValidationError, _reply_invalid)
    app.add_exception_handler(HTTPException, _reply_http_error)
    app.add_exception_handler(Exception, _reply_unexpected)
    return Guard(app, server)


def _make_mcp(server: Server) -> tuple[Sequence[BaseRoute], AbstractAsyncContextManager[None]]:
    """Make the routes of /mcp and the context that they run in; without its package, a route that says so."""
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
    """The schema, where a field that may be null has the description of what it is otherwise."""
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
    """The OpenAPI schema with the key that each operation needs, where keys are needed."""
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


async def _reply_clew_error(_: Request, error: Exception) -> Response:
    status, body = format_error_body(error, REQUEST_ID.get())
    headers = error.headers if isinstance(error, RequestRejected) else None
    return Response(body, status, headers, media_type="application/json")


async def _reply_unexpected(_: Request, error: Exception) -> Response:
    status, body = format_error_body(error, REQUEST_ID.get())
    return Response(body, status, media_type="application/json")


async def _reply_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _make_reply(422, "InvalidRequest", describe_invalid(request.headers.get("content-type", ""), error.errors()))


def describe_invalid(content_type: str, problems: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a request, by the names of its fields."""
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
    if error.status_code == 405 and "allow" not in headers:  # the router names those of one route of a path alone
        place = getattr(request.scope.get("route"), "path_format", "")
        methods = _list_methods(request.url.path) or _list_methods(place)
        headers = {"allow": ", ".join(methods)} if methods else headers
    names = {404: "NotFound", 405: "MethodNotAllowed"}
    message = {404: "there is no such path; /docs lists them", 405: "not a method of this path; /docs lists them"}
    name = names.get(error.status_code, "InvalidRequest")
    text = message.get(error.status_code, str(error.detail))
    return _make_reply(error.status_code, name, text, headers)


def _list_methods(path: str) -> list[str]:
    """The methods of a path, over all its routes."""
    routes = (each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute))
    same = (each for each in routes if each.path_format == path and each.include_in_schema)
    return sorted(method for each in same for method in each.methods or ())


def _make_reply(status: int, name: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body = make_error_json(name, message)
    body["error"]["request_id"] = REQUEST_ID.get()
    return Response(dump_json(body).encode("utf-8", "replace"), status, headers, media_type="application/json")
