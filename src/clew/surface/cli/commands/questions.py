"""The commands that answer a question: search and context. Each calls one verb and prints what comes back."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

import typer

from clew.surface.cli import options as o
from clew.surface.cli.program import opened
from clew.surface.cli.search_options import Wanted, searching

if TYPE_CHECKING:
    from clew.core.types import Filter
    from clew.engine import Engine


@searching
def search(
    ctx: typer.Context,
    *,
    query: o.Question,
    wanted: Wanted,
    as_json: o.Json = False,
) -> None:
    """Find the chunks that answer a question best."""
    from clew.core.trace import record
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx, wanted.flags()) as engine:
        where = wanted.where(engine)
        with record("search") as trace:
            hits = engine.search(query, k=wanted.k, strategy=wanted.strategy, where=where)
        records = engine.records(hits)
        reason = "" if hits else _why_nothing(engine, where)
    if as_json:
        render.put_json(shapes.search(hits, records, reason=reason, traced=trace))
    elif hits:
        render.put_hits(hits, records, query)
    else:
        render.put_nothing(reason)


@searching
def context(
    ctx: typer.Context,
    *,
    query: o.Question,
    tokens: o.Tokens = None,
    how: o.Render = None,
    wanted: Wanted,
    as_json: o.Json = False,
) -> None:
    """Print what a prompt should hold to answer a question, within a budget of tokens."""
    from clew.core.trace import record
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx, wanted.flags()) as engine:
        where = wanted.where(engine)
        with record("context") as trace:
            found = engine.context(query, tokens=tokens, k=wanted.k, strategy=wanted.strategy, where=where, render=how)
    if as_json:
        render.put_json(shapes.context(found, traced=trace))
    else:
        render.put_context(found)


def _why_nothing(engine: "Engine", where: "Filter") -> str:
    """Why a search found nothing, in words that say what to do next."""
    from clew.core.types import EVERYTHING

    if not engine.status().chunks:
        return "the collection is empty; `clew add` fills it"
    if unknown := sorted(where.channels - set(channels := engine.channels())):
        near = get_close_matches(unknown[0], channels, n=3, cutoff=0.5) or channels[:3]
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        return f"there is no channel {unknown[0]!r}{hint}"
    if where != EVERYTHING:
        return "nothing that the filters admit matches"
    return "nothing in the collection matches"
