"""The commands that search: search and context."""

from typing import TYPE_CHECKING, Any

import typer

from clew.surface.cli import options as o
from clew.surface.cli.option_groups import report_notes, warn_of_unknown_names

if TYPE_CHECKING:
    from clew.core import requests as q
    from clew.surface.cli.option_groups import Asked


def search(ctx: typer.Context, *, asked: "Asked[q.Search]", as_json: o.Json = False) -> None:
    """Find the most relevant chunks.

    The number beside each is its relevance: the chance, from 0 to 1, that it answers.
    """
    from clew.core.trace import record
    from clew.surface.cli import render
    from clew.surface.verbs import call_verb

    with asked.open(ctx) as (engine, request):
        with record("search") as trace:
            hits = call_verb(engine, request)
        report_notes(trace)
        reason, languages = "", engine.opened.store.language_counts().keys()
        if hits:
            warn_of_unknown_names(engine, request.where)
        else:
            from clew.surface.search_reply import explain_empty_result

            reason = explain_empty_result(engine, request)
    if as_json:
        from clew.surface.to_json import search_to_json

        render.print_json(search_to_json(hits, reason=reason, trace=trace))
    elif hits:
        said: Any = request.query  # messages, where it is a conversation
        text = said if isinstance(said, str) else "\n".join(each.text for each in said)
        render.print_hits(hits, text, languages=languages)
    else:
        render.print_no_results(reason)


def context(ctx: typer.Context, *, asked: "Asked[q.Context]", as_json: o.Json = False) -> None:
    """Print the context for a prompt: cited passages within a token budget."""
    from clew.core.trace import record
    from clew.surface.cli import render
    from clew.surface.to_json import context_to_json
    from clew.surface.verbs import call_verb

    with asked.open(ctx) as (engine, request):
        with record("context") as trace:
            found = call_verb(engine, request)
        report_notes(trace)
    if as_json:
        render.print_json(context_to_json(found, trace=trace))
    else:
        render.print_context(found)
