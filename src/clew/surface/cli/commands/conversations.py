"""The commands on conversations: window, profile, style-prompt, links."""

from typing import Annotated

import typer

from clew.core.plural import format_count
from clew.surface.cli import options as o
from clew.surface.cli.option_groups import CollectionFilterOptions, FilterOptions
from clew.surface.cli.program import open_engine

Channel = Annotated[str, typer.Argument(metavar="CHANNEL", help="Channel in which the prompt is asked.")]
Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="The prompt.")]
Person = Annotated[str, typer.Argument(metavar="PERSON", help="Author of messages, by name.")]
Answered = Annotated[str, typer.Argument(metavar="MESSAGE", help="The message to answer.")]
PromptTokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Token budget of the prompt.")]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Token budget of the window.")]
Related = Annotated[bool, typer.Option("--related", help="Also search up to three related channels.")]
MinSimilarity = Annotated[
    float | None,
    typer.Option("--min-similarity", "--min-score", metavar="X", help="Minimum cosine similarity of a message."),
]
Now = Annotated[
    str | None, typer.Option("--now", metavar="DATE", help="Compute message ages relative to this time (UTC).")
]


def window(
    ctx: typer.Context,
    *,
    channel: Channel,
    prompt: Prompt,
    tokens: Tokens = None,
    related: Related = False,
    min_similarity: MinSimilarity = None,
    now: Now = None,
    options: FilterOptions,
    as_json: o.Json = False,
) -> None:
    """Print the messages for a prompt in a channel: whole threads within a token budget."""
    from clew.surface.cli import render

    with open_engine(ctx) as engine:
        found = engine.window(
            channel,
            prompt,
            tokens=tokens,
            include_related_channels=related,
            min_similarity=min_similarity,
            where=options.build_filter(engine),
            now=o.parse_time_option("--now", now),
        )
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


def profile(ctx: typer.Context, *, person: Person, options: CollectionFilterOptions, as_json: o.Json = False) -> None:
    """Show how a person writes: tone, vocabulary, length, phrases and habits."""
    from clew.surface.cli import render
    from clew.surface.to_json import to_json

    with open_engine(ctx) as engine:
        found = engine.profile(person, where=options.build_filter(engine))
    if as_json:
        render.print_json(found)
    else:
        habits = ", ".join(f"{name} {share:.0%}" for name, share in found.habits.items())
        lists = {"common_phrases": ", ".join(found.common_phrases), "emoji": " ".join(found.emoji), "habits": habits}
        render.print_pairs({**to_json(found), **lists})


def style_prompt(
    ctx: typer.Context,
    *,
    person: Person,
    message: Answered,
    tokens: PromptTokens = None,
    now: Now = None,
    options: FilterOptions,
    as_json: o.Json = False,
) -> None:
    """Print the system prompt with which a model answers a message as a person would."""
    from clew.surface.cli import render

    with open_engine(ctx) as engine:
        prompt = engine.style_prompt(
            person,
            message,
            where=options.build_filter(engine),
            tokens=tokens,
            now=o.parse_time_option("--now", now),
        )
    if as_json:
        render.print_json({"person": person, "message": message, "prompt": prompt})
    else:
        render.print_text(prompt)


def links(ctx: typer.Context, *, document: o.DocumentName, options: FilterOptions, as_json: o.Json = False) -> None:
    """List the documents that a document mentions, and the threads that mention it."""
    from clew.surface.cli import render

    with open_engine(ctx) as engine:
        found = engine.links(document, where=options.build_filter(engine))
    if as_json:
        render.print_json(found)
        return
    for relation, records in (("cites", found.cites), ("cited by", found.cited_by)):
        for record in records:
            render.print_line((f"{relation:<10}", "bold"), (record.uri, ""), (f"  {record.title}", "dim"))
    if not found.cites and not found.cited_by:
        render.print_no_results("the document mentions no other, and no thread mentions it")
