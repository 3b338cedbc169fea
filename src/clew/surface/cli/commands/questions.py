"""The commands that search: search and context."""

from typing import Annotated, Literal

import typer

from clew.surface.cli import options as o
from clew.surface.cli.option_groups import QueryOptions, SearchOptions, report_notes, warn_of_unknown_names
from clew.surface.cli.program import open_engine

Render = Annotated[
    str | None, typer.Option("--render", metavar="NAME", help="Format of the context: numbered, knowledge_base, …")
]


GroupBy = Annotated[
    Literal["document"] | None,
    typer.Option("--group-by", help="Show each document once, by its best chunk: -k counts documents."),
]


def search(
    ctx: typer.Context,
    *,
    asked: QueryOptions,
    group_by: GroupBy = None,
    options: SearchOptions,
    as_json: o.Json = False,
) -> None:
    """Find the most relevant chunks.

    The number beside each is its relevance: the chance, from 0 to 1, that it answers.
    """
    from clew.core.trace import record
    from clew.surface.cli import render

    loaded = asked.load(ctx)
    with open_engine(ctx, options.to_setting_overrides()) as engine:
        where = options.build_filter(engine)
        with record("search") as trace:
            hits = engine.search(
                loaded.query,
                k=options.k,
                strategy=options.strategy,
                where=where,
                history=loaded.history,
                group_by=group_by,
            )
        report_notes(trace)
        reason, languages = "", engine.opened.store.language_counts().keys()
        if hits:
            warn_of_unknown_names(engine, where)
        else:
            from clew.surface.search_reply import explain_empty_result

            reason = explain_empty_result(
                engine, loaded.query, strategy=options.strategy, where=where, history=loaded.history
            )
    if as_json:
        from clew.surface.to_json import search_to_json

        render.print_json(search_to_json(hits, reason=reason, trace=trace))
    elif hits:
        render.print_hits(hits, loaded.text, languages=languages)
    else:
        render.print_no_results(reason)


def context(
    ctx: typer.Context,
    *,
    asked: QueryOptions,
    tokens: o.Tokens = None,
    renderer: Render = None,
    options: SearchOptions,
    as_json: o.Json = False,
) -> None:
    """Print the context for a prompt: cited passages within a token budget."""
    from clew.core.trace import record
    from clew.surface.cli import render
    from clew.surface.to_json import context_to_json

    loaded = asked.load(ctx)
    with open_engine(ctx, options.to_setting_overrides()) as engine:
        where = options.build_filter(engine)
        with record("context") as trace:
            found = engine.context(
                loaded.query,
                tokens=tokens,
                k=options.k,
                strategy=options.strategy,
                where=where,
                history=loaded.history,
                render=renderer,
            )
        report_notes(trace)
    if as_json:
        render.print_json(context_to_json(found, trace=trace))
    else:
        render.print_context(found)
