"""Makes the MCP server: the tools with instructions, for a caller on this machine or one over HTTP."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from mcp.server import MCPServer
from mcp.server.context import ServerMiddleware
from mcp.server.mcpserver import Context

from clew.engine import Engine
from clew.surface.mcp.tools import CallEngine, make_tools

T = TypeVar("T")
MAX_CONCURRENT = 4
INSTRUCTIONS = (
    "Clew finds passages in a collection of documents and conversations and says where they come from. Use `search` "
    "and `fetch` to look, `context` for passages to answer from, `ask` for an answer whose citations are checked."
)


def make_mcp_server(
    call: CallEngine,
    *,
    read_only: bool,
    collection: Callable[[Context], str],
    middleware: Sequence[ServerMiddleware[Any]] = (),
) -> MCPServer[Any]:
    """Make the MCP server over the engines that `call` opens; `middleware` is called around every request."""
    return MCPServer(
        "clew",
        instructions=INSTRUCTIONS,
        version=version("clew"),
        tools=make_tools(call, read_only=read_only, collection=collection),
        log_level="WARNING",
        middleware=middleware,
    )


def make_local_server(engine: Engine, *, collection: str, read_only: bool) -> MCPServer[Any]:
    """Make the MCP server over one open engine, for whoever started it."""
    limiter = CapacityLimiter(MAX_CONCURRENT)

    async def call(_: Context, verb: Callable[[Engine], T], *, write: bool = False) -> T:  # noqa: ARG001
        return await to_thread.run_sync(lambda: verb(engine), limiter=limiter)

    return make_mcp_server(call, read_only=read_only, collection=lambda _: collection)
