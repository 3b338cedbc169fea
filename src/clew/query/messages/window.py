"""Context windows over messages: what `Engine.window` does after the search.

score the messages → take the hits in order, each with its reply chain, while they fit → complete their threads with
what room is left, the best first → text, the best thread first, each thread by time.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from clew.core.filter import Filter
from clew.core.plural import format_count
from clew.core.settings import Settings
from clew.core.suggest import format_names, format_suggestion
from clew.core.thread import THREAD_KIND
from clew.core.trace import step
from clew.core.types import Hit
from clew.core.window import ContextWindow, DroppedMessage
from clew.query.context.budget import BUDGET, Count
from clew.query.context.floor import find_relevance_floor
from clew.query.messages.render import render_threads
from clew.query.messages.selection import Selection
from clew.query.messages.similar import ReadThread, Search, score_messages

BELOW_MINIMUM = "below the minimum"  # the reason of a message that is not near enough, nor in a thread with one that is
_MENTION = re.compile(r"(?<![\w&#])#([\w-]+)")


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """The parameters of a context window."""

    channel: str
    prompt: str
    max_tokens: int
    include_related: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class WindowSources:
    """The data a window is built from: search by filter, threads by id, and the channels."""

    search: Search
    read: ReadThread
    has_channel: Callable[[str], bool]
    list_channels: Callable[[], Sequence[str]]


def build_window(request: WindowRequest, sources: WindowSources, *, settings: Settings, count: Count) -> ContextWindow:
    """The window for a prompt in a channel: the messages that fit the budget, and the dropped ones with reasons."""
    config = settings.scoring
    hits = sources.search(_make_channel_filter({request.channel}))
    channels = {request.channel}
    if request.include_related and config.related_channels:
        channels |= set(find_related_channels(request, hits, sources, max_channels=config.related_channels))
        hits = sources.search(_make_channel_filter(channels)) if len(channels) > 1 else hits
    with step("score") as trace:
        found = score_messages(
            hits,
            read=sources.read,
            channel=request.channel,
            now=request.now,
            config=config,
            min_relevance=find_relevance_floor(hits, settings.context),
        )
        trace.set_output(found.messages)
    with step("select") as trace:
        selection = Selection(found, request.max_tokens, count, config)
        selection.take_hits()
        selection.complete_threads()
        threads = selection.list_threads()
        trace.set_output(threads)
    text = render_threads(threads, authors=config.authors)
    reasons = [(each, BUDGET) for each in found.messages if not selection.is_taken(each)]
    reasons += [(each, BELOW_MINIMUM) for each in found.below]
    dropped = [DroppedMessage(each, reason, selection.count_message_tokens(each.message)) for each, reason in reasons]
    messages = tuple(each for thread in threads for each in thread.messages)
    return ContextWindow(
        messages=messages,
        total_tokens=count(text) if text else 0,
        channels=frozenset(channels),
        text=text,
        threads=tuple(threads),
        dropped=tuple(dropped),
        reason="" if messages else _explain_empty_window(request, sources, dropped),
    )


def find_related_channels(
    request: WindowRequest, hits: Sequence[Hit], sources: WindowSources, *, max_channels: int
) -> list[str]:
    """The other channels to search: those the prompt mentions as #name, then those the hits mention, then those whose
    messages are most similar, the best first."""
    texts = [request.prompt, *(hit.chunk.text for hit in hits)]
    mentioned = [name for text in texts for name in _MENTION.findall(text)]
    chosen: list[str] = []
    for name in dict.fromkeys(mentioned):
        if len(chosen) < max_channels and name != request.channel and sources.has_channel(name):
            chosen.append(name)
    if len(chosen) < max_channels:
        others = set(sources.list_channels()) - {request.channel, *chosen}
        found = sources.search(_make_channel_filter(others)) if others else []
        chosen += dict.fromkeys(str(hit.chunk.meta["channel"]) for hit in found)
    return chosen[:max_channels]


def _make_channel_filter(channels: Iterable[str]) -> Filter:
    return Filter(channels=frozenset(channels), kinds=frozenset({THREAD_KIND}))


def _explain_empty_window(request: WindowRequest, sources: WindowSources, dropped: Sequence[DroppedMessage]) -> str:
    if any(each.reason == BUDGET for each in dropped):
        return f"no message fits {format_count(request.max_tokens, 'token')}"
    if dropped:
        best = max(each.message.relevance for each in dropped)
        return f"no message is relevant enough: the best of {len(dropped)} has a relevance of {best:.2f}"
    if not sources.has_channel(request.channel):
        known = format_names(sources.list_channels())
        others = f"there are {known}" if known else "the collection has no messages yet; add a chat export"
        hint = format_suggestion(request.channel, sources.list_channels(), cutoff=0.5) or others
        return f"channel {request.channel!r} has no messages; {hint}"
    return "no message matches"
