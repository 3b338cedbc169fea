"""The commands that search: search and context."""

from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.option_groups import SearchOptions
from clew.surface.cli.program import open_engine

Render = Annotated[
    str | None, typer.Option("--render", metavar="NAME", help="Format of the context: numbered, knowledge_base, …")
]


def search(ctx: typer.Context, *, query: o.QueryText, options: SearchOptions, as_json: o.Json = False) -> None:
    """Find the most relevant chunks."""
    from clew.core.trace import record
    from clew.query.why.no_hits import explain_no_hits
    from clew.surface.cli import render
    from clew.surface.to_json import search_to_json

    with open_engine(ctx, options.to_setting_overrides()) as engine:
        where = options.build_filter(engine)
        with record("search") as trace:
            hits = engine.search(query, k=options.k, strategy=options.strategy, where=where)
        reason = "" if hits else explain_no_hits(engine.status(), where, engine.channels)
    if as_json:
        render.print_json(search_to_json(hits, reason=reason, trace=trace))
    elif hits:
        render.print_hits(hits, query)
    else:
        render.print_no_results(reason)


def context(
    ctx: typer.Context,
    *,
    query: o.QueryText,
    tokens: o.Tokens = None,
    renderer: Render = None,
    options: SearchOptions,
    as_json: o.Json = False,
) -> None:
    """Print the context for a prompt: cited passages within a token budget."""
    from clew.core.trace import record
    from clew.surface.cli import render
    from clew.surface.to_json import context_to_json

    with open_engine(ctx, options.to_setting_overrides()) as engine:
        where = options.build_filter(engine)
        with record("context") as trace:
            found = engine.context(
                query, tokens=tokens, k=options.k, strategy=options.strategy, where=where, render=renderer
            )
    if as_json:
        render.print_json(context_to_json(found, trace=trace))
    else:
        render.print_context(found)
