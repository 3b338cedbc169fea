"""The MCP server under /mcp: streamable HTTP, without sessions, each request with the rights of its key."""

from collections.abc import Callable
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ListToolsResult
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clew.core.errors import SettingsError
from clew.engine import Engine
from clew.engine.collections import check_collection_name
from clew.surface.mcp.server import WRITING, make_mcp_server
from clew.surface.server.keys import Access
from clew.surface.server.state import Server

T = TypeVar("T")


async def refuse_stream(_: Request) -> Response:
    """Reply 405 to GET: without sessions the server has nothing to stream."""
    raise HTTPException(405, headers={"allow": "POST"})


async def _hide_writing(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """List only the tools that the key of the caller may use."""
    result = await call_next(ctx)
    request: Any = ctx.request
    if ctx.method == "tools/list" and not request.state.access.can_write:
        listed = ListToolsResult.model_validate(result)
        return listed.model_copy(update={"tools": [each for each in listed.tools if each.name not in WRITING]})
    return result


def make_mcp_app(server: Server) -> tuple[MCPServer[Any], Starlette]:
    """Make the MCP server and its application. The guard before it checks hosts, origins, keys and bodies."""

    def read_access(context: Context) -> tuple[Access, str]:
        request = context.request_context.request
        if not isinstance(request, Request):
            raise SettingsError("this tool was not called over HTTP")
        access: Access = request.state.access
        name = request.query_params.get("collection")
        if name:
            check_collection_name(name)
        return access, access.choose_collection(name, server.start.collection)

    async def call(context: Context, verb: Callable[[Engine], T], *, write: bool = False) -> T:
        access, name = read_access(context)
        if write:
            access.check_write()
        return await server.answers.run(lambda: access.call(server.engines, name, verb, write=write, create=write))

    made = make_mcp_server(
        call,
        read_only=server.config.read_only,
        collection=lambda context: read_access(context)[1],
        middleware=[_hide_writing],
    )
    app = made.streamable_http_app(
        streamable_http_path="/mcp",
        stateless_http=True,
        json_response=True,
        max_request_body_size=server.config.max_body,
        # The guard has checked Host and Origin by the settings of the server; the SDK knows loopback names alone.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return made, app
