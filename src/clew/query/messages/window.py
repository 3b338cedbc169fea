"""Context windows over messages: what `Engine.window` does after the search.

score the messages → take the hits in order, each with its reply chain, while they fit → complete their threads with
what room is left, the best first → text, the best thread first, each thread by time.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from clew.core.attribution import GUESSED_REPLY
from clew.core.filter import Filter
from clew.core.settings import ScoringConfig, Settings
from clew.core.suggest import format_suggestion
from clew.core.thread import THREAD_KIND
from clew.core.trace import step
from clew.core.types import Hit, Message
from clew.core.window import ContextMessage, ContextWindow, DroppedMessage, WindowThread
from clew.query.context.budget import BUDGET, Count
from clew.query.context.floor import find_relevance_floor
from clew.query.context.format.renderers import NEXT_LINE
from clew.query.messages.render import THREAD_SEPARATOR, cut_middle, format_message, render_threads
from clew.query.messages.similar import (
    OpenThread,
    Read,
    ScoredMessages,
    Search,
    as_context_message,
    group_by_thread,
    score_messages,
)

BELOW_MINIMUM = "below the minimum"  # the reason of a message that is not near enough, nor in a thread with one that is
_SLACK = 3  # tokens that a message may take less within the text than by itself with its separator
_PARENT_SHARE = 0.25  # of the budget, for the beginning and end of a message that is too long to be shown whole
_MIN_CUT_CHARS = 40  # less of a message tells nothing
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
    """The data a window is built from: search by filter, documents by id, and the channels."""

    search: Search
    read: Read
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
        selection = _Selection(found, request.max_tokens, count, config)
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


class _Selection:
    """The messages selected so far by thread, and the tokens that remain."""

    def __init__(self, found: ScoredMessages, tokens: int, count: Count, config: ScoringConfig) -> None:
        self._found = found
        self._hits = {each.id: each for each in found.messages}
        self._taken: dict[str, set[int]] = {}
        self._budget = tokens
        self._chain_budget = int(config.chain_share * tokens)  # for a chain of guessed replies
        self._remaining = tokens
        self._is_exact = True  # whether the remaining tokens were counted on the whole text, not message by message
        self._count = count
        self._authors = config.authors
        self._separator_tokens = max(map(count, (f"{NEXT_LINE}{GUESSED_REPLY} ", THREAD_SEPARATOR)))
        self._token_counts: dict[str, int] = {}
        self._without_parent: list[tuple[OpenThread, int]] = []  # hits for whose parent there was no room
        self._cuts: dict[str, str] = {}  # what is left of the messages that were cut, by id

    def take_hits(self) -> None:
        """Takes the hits in their order, each with its reply chain; a hit that does not fit even alone is passed over.

        A chain of explicit replies comes whole where it fits, else as much of it, nearest first, as does; of a parent
        that does not fit, the beginning and end. A chain of guessed replies ends at its share of the budget. A hit kept
        only for its thread comes only if the thread does.
        """
        for hit in self._found.messages:
            if hit.id not in self._found.near and hit.thread not in self._taken:
                continue
            thread = self._found.threads[hit.thread]
            self._take_with_chain(thread, thread.places[hit.id])
        for thread, place in self._without_parent:
            self._take_parent_cut(thread, place)

    def complete_threads(self) -> None:
        """Adds the other messages of the hits' threads, the best thread first: all, or else those near the hits."""
        for name in dict.fromkeys(each.thread for each in self._found.messages):
            if name not in self._taken:
                continue
            thread, taken = self._found.threads[name], self._taken[name]
            hits = [place for place in taken if thread.messages[place].id in self._hits]
            rest = [place for place in range(len(thread.messages)) if place not in taken]
            if not self._take_if_fits(thread, rest):
                ancestors = {place for hit in hits for place in thread.get_reply_chain(hit)}
                near = {place: min(abs(place - hit) for hit in hits) for place in rest}
                for place in sorted(rest, key=lambda place: (place not in ancestors, near[place], place)):
                    self._take_with_chain(thread, place)

    def list_threads(self) -> list[WindowThread]:
        """The selected messages by thread, the thread of the best hit first."""
        return self._group_by_thread(self._taken)

    def _group_by_thread(self, chosen: dict[str, set[int]]) -> list[WindowThread]:
        taken = [each for each in self._found.messages if self._get_place(each) in chosen.get(each.thread, ())]
        for name, places in chosen.items():
            thread = self._found.threads[name]
            beside = (place for place in places if thread.messages[place].id not in self._hits)
            taken += [as_context_message(thread, place) for place in beside]
        taken = [self._cut_message(each) for each in taken]
        here = {each.id for each in taken}
        taken = [each if each.parent and each.parent.id in here else replace(each, parent=None) for each in taken]
        return group_by_thread(taken, self._found.threads)

    def _cut_message(self, each: ContextMessage) -> ContextMessage:
        if each.id not in self._cuts:
            return each
        return replace(each, message=replace(each.message, text=self._cuts[each.id]), cut=True)

    def count_message_tokens(self, message: Message) -> int:
        """The tokens of a message as it is rendered."""
        if message.id not in self._token_counts:
            self._token_counts[message.id] = self._count(format_message(message, authors=self._authors))
        return self._token_counts[message.id]

    def _take_if_fits(self, thread: OpenThread, places: Sequence[int]) -> bool:
        """Takes the messages at the places that are not taken yet if they fit together; returns whether they did."""
        taken = self._taken.get(thread.document.id, set())
        new = [place for place in places if place not in taken]
        if not new:
            return True
        cost = sum(self.count_message_tokens(thread.messages[place]) + self._separator_tokens for place in new)
        if not self._taken:
            cost -= self._separator_tokens  # the first message has no separator before it
        grown = {**self._taken, thread.document.id: taken | set(new)}
        if cost > self._remaining and not self._is_exact:  # the sum over messages is a few tokens above the text's
            self._remaining, self._is_exact = self._budget - self._count_rendered_tokens(self._taken), True
        if cost <= self._remaining:
            self._remaining, self._is_exact = self._remaining - cost, False
        elif (
            cost - self._remaining <= _SLACK * len(new) and (used := self._count_rendered_tokens(grown)) <= self._budget
        ):
            self._remaining, self._is_exact = self._budget - used, True
        else:
            return False
        self._taken = grown
        return True

    def _take_with_chain(self, thread: OpenThread, place: int) -> None:
        """Takes a message with its whole chain, else with as much of it, nearest first, as fits; at last alone."""
        if not self._take_if_fits(thread, self._find_chain_places(thread, place)):
            chain = self._find_chain_places(thread, place, max_explicit=1)
            while chain and not self._take_if_fits(thread, chain):
                chain.pop()
            if chain == [place]:
                self._without_parent.append((thread, place))

    def _take_parent_cut(self, thread: OpenThread, place: int) -> None:
        """Takes the beginning and end of the message that a hit replies to, where its author marked it as a reply."""
        section, taken = thread.document.sections[place], self._taken[thread.document.id]
        if section.parent is None or section.guessed or section.parent in taken:
            return
        parent = thread.messages[section.parent]
        self._remaining, self._is_exact = self._budget - self._count_rendered_tokens(self._taken), True
        room = min(self._remaining - self._separator_tokens, int(_PARENT_SHARE * self._budget))

        def count(text: str) -> int:
            return self._count(format_message(replace(parent, text=text), authors=self._authors))

        cut = cut_middle(parent.text, lambda text: count(text) <= room)
        if len(cut) >= _MIN_CUT_CHARS:
            self._cuts[parent.id], self._token_counts[parent.id] = cut, count(cut)
            self._take_if_fits(thread, [section.parent])

    def _count_rendered_tokens(self, taken: dict[str, set[int]]) -> int:
        """The tokens of the rendered text of the taken messages."""
        text = render_threads(self._group_by_thread(taken), authors=self._authors)
        return self._count(text) if text else 0

    def _find_chain_places(self, thread: OpenThread, place: int, *, max_explicit: int | None = None) -> list[int]:
        """The place of a hit and of the messages in its reply chain; for a message that is no hit, its own place.

        Explicit replies count whatever their size, up to `max_explicit` of them; all others up to the chain's share.
        """
        if thread.messages[place].id not in self._hits:
            return [place]
        chain, room, sure = [place], self._chain_budget, True
        for each in thread.get_reply_chain(place):
            sure = sure and not thread.document.sections[chain[-1]].guessed
            sure = sure and (max_explicit is None or len(chain) <= max_explicit)
            room -= self.count_message_tokens(thread.messages[each]) + self._separator_tokens
            if room < 0 and not sure:
                break
            chain.append(each)
        return chain

    def is_taken(self, each: ContextMessage) -> bool:
        """Whether a message was selected."""
        return self._get_place(each) in self._taken.get(each.thread, ())

    def _get_place(self, each: ContextMessage) -> int:
        return self._found.threads[each.thread].places[each.id]


def _make_channel_filter(channels: Iterable[str]) -> Filter:
    return Filter(channels=frozenset(channels), kinds=frozenset({THREAD_KIND}))


def _explain_empty_window(request: WindowRequest, sources: WindowSources, dropped: Sequence[DroppedMessage]) -> str:
    if any(each.reason == BUDGET for each in dropped):
        return f"no message fits {request.max_tokens} tokens"
    if dropped:
        best = max(each.message.relevance for each in dropped)
        return f"no message is relevant enough: the best of {len(dropped)} has a relevance of {best:.2f}"
    if not sources.has_channel(request.channel):
        known = ", ".join(sources.list_channels()[:3])
        others = f"there are {known}" if known else "the collection has no messages yet; add a chat export"
        hint = format_suggestion(request.channel, sources.list_channels(), cutoff=0.5) or others
        return f"channel {request.channel!r} has no messages; {hint}"
    return "no message matches"
