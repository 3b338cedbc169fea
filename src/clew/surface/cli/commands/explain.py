"""The commands that say why: explain, why_not, and whether past citations still stand."""

from pathlib import Path
from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import FALLEN
from clew.surface.cli.program import opened
from clew.surface.cli.search_options import Wanted, searching

Answers = Annotated[
    Path, typer.Argument(metavar="FILE", help="What `context --json` or `ask --json` printed, one or more objects.")
]
Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A document, chunk or message that was not found, by id, uri or path.")
]


@searching
def explain(
    ctx: typer.Context,
    *,
    query: o.Question,
    wanted: Wanted,
    as_json: o.Json = False,
) -> None:
    """Show how a search comes to its hits: stages, counts, times and scores."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx, wanted.flags()) as engine:
        where = wanted.where(engine)
        explanation = engine.explain(query, k=wanted.k, strategy=wanted.strategy, where=where)
    if as_json:
        render.put_json(shapes.explanation(explanation))
    else:
        render.put((str(explanation), ""))


@searching
def why_not(
    ctx: typer.Context,
    *,
    query: o.Question,
    target: Target,
    tokens: o.Tokens = None,
    wanted: Wanted,
    as_json: o.Json = False,
) -> None:
    """Say which stage lost something that was not found, and the smallest setting that brings it back.

    With --tokens it is asked of the context of so many tokens, else of the search.
    """
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx, wanted.flags()) as engine:
        where = wanted.where(engine)
        found = engine.why_not(query, target, k=wanted.k, tokens=tokens, strategy=wanted.strategy, where=where)
    if as_json:
        render.put_json(shapes.why_not(found))
    else:
        render.put_text(str(found))


def check(ctx: typer.Context, *, file: Answers, as_json: o.Json = False) -> None:
    """List which past answers no longer stand, because what they cite has moved, changed or gone; then exit with 8."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import citation_file as cited
    from clew.surface.cli import render

    answers = cited.answers(file)
    with opened(ctx) as engine:
        checked = [(name, engine.check(citations)) for name, citations in answers]
    if as_json:
        render.put_json(shapes.checks(checked))
    else:
        render.put_checks(checked)
    if any(one.standing != "stands" for _, citations in checked for one in citations):
        raise typer.Exit(FALLEN)
