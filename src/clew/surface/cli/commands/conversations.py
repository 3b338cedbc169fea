"""The commands on conversations: window, profile, style-prompt, links."""

from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.suggest import format_count
from clew.surface.cli import options as o
from clew.surface.cli import render
from clew.surface.cli.option_groups import Seen
from clew.surface.cli.program import open_engine

if TYPE_CHECKING:
    from clew.core import requests as q
    from clew.surface.cli.option_groups import Asked

Person = Annotated[str, typer.Argument(metavar="PERSON", help="Author of messages, by name.")]


def window(ctx: typer.Context, *, asked: "Asked[q.Window]", as_json: o.Json = False) -> None:
    """Print the messages for a prompt in a channel: whole threads within a token budget."""
    from clew.surface.verbs import call_verb

    with asked.open(ctx, warn=True) as (engine, request):
        found = call_verb(engine, request)
    if as_json:
        render.print_json(found)
        return
    if found.text:
        render.print_text(found.text)
    if found.messages:
        size = f"{format_count(len(found.messages), 'message')}, {format_count(found.total_tokens, 'token')}"
        counts = f"{size}, {len(found.dropped)} dropped"
        render.print_line((counts, "dim"), err=True)
    else:
        render.print_no_results(found.reason, err=True)


def profile(ctx: typer.Context, *, person: Person, seen: Seen, as_json: o.Json = False) -> None:
    """Show how a person writes: tone, vocabulary, length, phrases and habits."""
    from clew.surface.to_json import to_json

    with open_engine(ctx) as engine:
        found = engine.profile(person, where=seen.build_filter(engine))
    if as_json:
        render.print_json(found)
    else:
        habits = ", ".join(f"{name} {share:.0%}" for name, share in found.habits.items())
        lists = {"common_phrases": ", ".join(found.common_phrases), "emoji": " ".join(found.emoji), "habits": habits}
        render.print_pairs({**to_json(found), **lists})


def style_prompt(ctx: typer.Context, *, asked: "Asked[q.StylePrompt]", as_json: o.Json = False) -> None:
    """Print a system prompt with which a model answers a message as a person would."""
    from clew.surface.verbs import call_verb

    with asked.open(ctx, warn=True) as (engine, request):
        prompt = call_verb(engine, request)
    if as_json:
        render.print_json({"person": request.person, "message": request.message, "prompt": prompt})
    else:
        render.print_text(prompt)


def links(ctx: typer.Context, *, document: o.DocumentName, seen: Seen, as_json: o.Json = False) -> None:
    """List the documents that a document mentions, and the threads that mention it."""
    with open_engine(ctx) as engine:
        found = engine.links(document, where=seen.build_filter(engine))
    if as_json:
        render.print_json(found)
        return
    for relation, records in (("cites", found.cites), ("cited by", found.cited_by)):
        for record in records:
            render.print_line((f"{relation:<10}", "bold"), (record.uri, ""), (f"  {record.title}", "dim"))
    if not found.cites and not found.cited_by:
        render.print_no_results("the document mentions no other, and no thread mentions it")
