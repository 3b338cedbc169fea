"""The command that serves tools to an assistant on this machine: mcp."""

from typing import Annotated

import typer

from clew.core.errors import DriverMissing
from clew.surface.cli import options as o
from clew.surface.cli.program import open_engine, resolve_invocation

ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes the collection.")]


def mcp(
    ctx: typer.Context,
    *,
    read_only: ReadOnly = False,
    as_json: o.Json = False,  # noqa: ARG001 (what it prints is JSON; with the option its errors are, too)
) -> None:
    """Serve the collection to an assistant as an MCP server, over standard input and output."""
    try:
        from clew.surface.mcp.server import make_local_server
    except ModuleNotFoundError as error:
        raise DriverMissing(f"an MCP server needs {error.name}; pip install 'clew[mcp]'") from error

    start = resolve_invocation(ctx)
    with open_engine(ctx) as engine:  # a wrong path is told, not made
        make_local_server(engine, collection=start.collection, read_only=read_only).run("stdio")
