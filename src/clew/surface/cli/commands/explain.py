"""The commands that account for results: explain, why-not, and the check of past citations."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import CITATIONS_INVALID
from clew.surface.cli.option_groups import (
    CollectionFilterOptions,
    QueryOptions,
    SearchOptions,
    expand_option_groups,
    warn_of_unknown_names,
)
from clew.surface.cli.program import open_engine

AnswerFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Saved output of `ask --json` or `context --json`, one or more objects; - reads standard input.",
    ),
]
Target = Annotated[str | None, typer.Argument(metavar="TARGET", help="Document, chunk or message, by id, URI or path.")]


def explain(ctx: typer.Context, *, asked: QueryOptions, options: SearchOptions, as_json: o.Json = False) -> None:
    """Show the stages of a search with counts and times, and every number of each result."""
    from clew.surface.cli import render

    loaded = asked.load(ctx)
    with open_engine(ctx, options.to_setting_overrides()) as engine:
        where = options.build_filter(engine)
        warn_of_unknown_names(engine, where)
        explanation = engine.explain(
            loaded.query, k=options.k, strategy=options.strategy, where=where, history=loaded.history
        )
    if as_json:
        render.print_json(explanation)
    else:
        render.print_line((str(explanation), ""))


def why_not(
    ctx: typer.Context,
    *,
    asked: QueryOptions,
    target: Target = None,
    tokens: o.Tokens = None,
    options: SearchOptions,
    as_json: o.Json = False,
) -> None:
    """Show which stage lost a missing result, and the smallest setting change that finds it.

    With --tokens it examines the context of that many tokens, otherwise the search results. With --conversation the
    query may be left out.
    """
    from clew.surface.cli import render

    if target is None and asked.conversation is not None:  # without a question, the only argument is the target
        asked, target = replace(asked, query=None), asked.query
    loaded = asked.load(ctx)
    if target is None:
        ctx.fail("Missing argument 'TARGET'.")
    with open_engine(ctx, options.to_setting_overrides()) as engine:
        where = options.build_filter(engine)
        reason = engine.why_not(
            loaded.query,
            target,
            k=options.k,
            tokens=tokens,
            strategy=options.strategy,
            where=where,
            history=loaded.history,
        )
    if as_json:
        render.print_json(reason)
    else:
        render.print_text(str(reason))


def check(ctx: typer.Context, *, file: AnswerFile, options: CollectionFilterOptions, as_json: o.Json = False) -> None:
    """List citations that moved, changed or are gone in the collection; exit with 8 if there are any."""
    from clew.surface.cli import render
    from clew.surface.cli.citation_file import load_citations
    from clew.surface.to_json import citation_checks_to_json

    answers = load_citations(file)
    with open_engine(ctx) as engine:
        where = options.build_filter(engine)
        checks = [(question, engine.check(citations, where=where)) for question, citations in answers]
    if as_json:
        render.print_json(citation_checks_to_json(checks))
    else:
        render.print_citation_checks(checks)
    if any(check.standing != "stands" for _, checked in checks for check in checked):
        raise typer.Exit(CITATIONS_INVALID)


citations_app = typer.Typer(add_completion=False)
citations_app.command("check")(expand_option_groups(check))


@citations_app.callback()
def citations() -> None:
    """Check the citations of saved answers."""
