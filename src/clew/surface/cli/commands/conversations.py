"""The commands on conversations: window, profile, links. Each calls one verb and prints what comes back."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from clew.surface.cli import options as o
from clew.surface.cli.program import opened

if TYPE_CHECKING:
    from clew.core.window import ContextMessage, ContextWindow

Channel = Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel that the prompt is asked in.")]
Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="What is asked there, in words.")]
Person = Annotated[str, typer.Argument(metavar="PERSON", help="Someone who writes messages, by their name there.")]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="The most tokens of the window.")]
Related = Annotated[bool, typer.Option("--related", help="Also look in up to three related channels.")]
MinScore = Annotated[
    float | None, typer.Option("--min-score", metavar="X", help="The least cosine of a message that counts.")
]
Now = Annotated[
    str | None, typer.Option("--now", metavar="DATE", help="Count ages from this time (UTC), not from now.")
]


def window(
    ctx: typer.Context,
    *,
    channel: Channel,
    prompt: Prompt,
    tokens: Tokens = None,
    related: Related = False,
    min_score: MinScore = None,
    now: Now = None,
    as_json: o.Json = False,
) -> None:
    """Print the messages that a prompt in a channel should hold, thread by thread, within a budget of tokens."""
    from clew.surface.cli import render

    with opened(ctx) as engine:
        found = engine.context_window(
            channel,
            prompt,
            max_tokens=tokens,
            include_related_channels=related,
            min_score=min_score,
            now=o.time_of("--now", now),
        )
    if as_json:
        render.put_json(window_shape(found))
        return
    if found.text:
        render.put_text(found.text)
    said = f"{len(found.messages)} messages, {found.total_tokens} tokens, {len(found.dropped)} dropped"
    render.put((said if found.messages else f"nothing found: {found.reason}", "dim"), err=True)


def profile(ctx: typer.Context, *, person: Person, as_json: o.Json = False) -> None:
    """Show how a person writes: tone, vocabulary, length, phrases and habits."""
    from clew.surface.cli import render

    with opened(ctx) as engine:
        found = engine.profile(person)
    shape = {
        "person": found.person,
        "tone": found.tone,
        "vocabulary_level": found.vocabulary_level,
        "message_length": found.message_length,
        "common_phrases": found.common_phrases,
        "emoji": found.emoji,
        "habits": found.habits,
        "messages": found.messages,
        "confidence": found.confidence,
        "made_by": found.made_by,
    }
    if as_json:
        render.put_json(shape)
    else:
        habits = ", ".join(f"{name} {share:.0%}" for name, share in found.habits.items())
        lists = {"common_phrases": ", ".join(found.common_phrases), "emoji": " ".join(found.emoji), "habits": habits}
        render.put_pairs({**shape, **lists})


def links(ctx: typer.Context, *, document: o.Name, as_json: o.Json = False) -> None:
    """List the documents that a document names, and the threads whose messages name it."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx) as engine:
        found = engine.links(document)
    if as_json:
        render.put_json(
            {
                "cites": [shapes.record(each) for each in found.cites],
                "cited_by": [shapes.record(each) for each in found.cited_by],
            }
        )
        return
    for said, records in (("cites", found.cites), ("cited by", found.cited_by)):
        for each in records:
            render.put((f"{said:<10}", "bold"), (each.uri, ""), (f"  {each.title}", "dim"))
    if not found.cites and not found.cited_by:
        render.put_nothing("the document names no other, and no thread names it")


def window_shape(of: "ContextWindow") -> dict[str, Any]:
    """A window as JSON."""
    return {
        "text": of.text,
        "total_tokens": of.total_tokens,
        "channels": of.channels,
        "messages": [_message(each) for each in of.messages],
        "threads": [
            {
                "id": each.id,
                "title": each.title,
                "channel": each.channel,
                "score": each.score,
                "whole": each.whole,
                "messages": [message.id for message in each.messages],
            }
            for each in of.threads
        ],
        "dropped": [{**_message(each.message), "reason": each.reason, "tokens": each.tokens} for each in of.dropped],
        "reason": of.reason,
    }


def _message(of: "ContextMessage") -> dict[str, Any]:
    return {
        "id": of.id,
        "thread": of.thread,
        "channel": of.message.channel,
        "author": of.message.author,
        "at": of.message.at,
        "text": of.text,
        "parent": of.parent.id if of.parent else None,
        "found": of.found,
        "score": of.score,
        "original_score": of.original_score,
        "similarity": of.similarity,
        "time_score": of.time_score,
        "channel_score": of.channel_score,
        "thread_score": of.thread_score,
        "flow_score": of.flow_score,
        "completeness_score": of.completeness_score,
    }
