"""The commands that answer a question: search and context. Each calls one verb and prints what comes back."""

from typing import TYPE_CHECKING, Any

import typer

from clew.surface import options as o
from clew.surface.program import opened

if TYPE_CHECKING:
    from clew.core.types import Filter
    from clew.engine import Engine


def search(
    ctx: typer.Context,
    *,
    query: o.Question,
    k: o.K = None,
    strategy: o.Strategy = None,
    mode: o.Mode = None,
    depth: o.Depth = None,
    min_similarity: o.MinSimilarity = None,
    kind: o.Kinds = None,
    document: o.Documents = None,
    channel: o.Channels = None,
    author: o.Authors = None,
    since: o.Since = None,
    until: o.Until = None,
    meta: o.Metas = None,
    as_json: o.Json = False,
) -> None:
    """Find the chunks that answer a question best."""
    from clew.core.trace import record
    from clew.surface import render, shapes

    asked = o.Wanted(kind, document, channel, author, since, until, meta)
    with opened(ctx, flags(mode, depth, min_similarity)) as engine:
        where = asked.where(lambda name: engine.read(name).id)
        with record("search") as trace:
            hits = engine.search(query, k=k, strategy=strategy, where=where)
        records = engine.records(hits)
        reason = "" if hits else _why_nothing(engine, where)
    if as_json:
        render.put_json(shapes.search(hits, records, reason=reason, traced=trace))
    elif hits:
        render.put_hits(hits, records, query)
    else:
        render.put_nothing(reason)


def context(
    ctx: typer.Context,
    *,
    query: o.Question,
    tokens: o.Tokens = None,
    how: o.Render = None,
    k: o.K = None,
    strategy: o.Strategy = None,
    mode: o.Mode = None,
    depth: o.Depth = None,
    min_similarity: o.MinSimilarity = None,
    kind: o.Kinds = None,
    document: o.Documents = None,
    channel: o.Channels = None,
    author: o.Authors = None,
    since: o.Since = None,
    until: o.Until = None,
    meta: o.Metas = None,
    as_json: o.Json = False,
) -> None:
    """Print what a prompt should hold to answer a question, within a budget of tokens."""
    from clew.core.trace import record
    from clew.surface import render, shapes

    asked = o.Wanted(kind, document, channel, author, since, until, meta)
    with opened(ctx, flags(mode, depth, min_similarity)) as engine:
        where = asked.where(lambda name: engine.read(name).id)
        with record("context") as trace:
            found = engine.context(query, tokens=tokens, k=k, strategy=strategy, where=where, render=how)
    if as_json:
        render.put_json(shapes.context(found, traced=trace))
    else:
        render.put_context(found)


def flags(mode: str | None, depth: int | None, min_similarity: float | None) -> dict[str, Any]:
    """The settings that the options of a search stand for."""
    return {"search.mode": mode, "search.depth": depth, "search.min_similarity": min_similarity}


def _why_nothing(engine: "Engine", where: "Filter") -> str:
    """Why a search found nothing, in words that say what to do next."""
    from clew.core.types import EVERYTHING

    if not engine.status().chunks:
        return "the collection is empty; `clew add` fills it"
    if where != EVERYTHING:
        return "nothing that the filters admit matches"
    return "nothing in the collection matches"
