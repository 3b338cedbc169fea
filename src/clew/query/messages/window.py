"""Context windows over messages: the steps of `Engine.window` after the search.

score the messages → take the hits in order, each with its reply chain, while they fit → complete their threads while
there is room, the best first → text, the best thread first, each thread by time.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from clew.core.attribution import GUESSED_REPLY
from clew.core.filter import Filter
from clew.core.settings import ScoringConfig, Settings
from clew.core.suggest import format_count, format_names, format_suggestion
from clew.core.text import estimate_tokens
from clew.core.thread import THREAD_KIND, Head, ThreadView
from clew.core.trace import step
from clew.core.types import Hit, Message
from clew.core.window import ContextMessage, ContextWindow, DroppedMessage, WindowThread
from clew.query.context.assemble import split_by_relevance
from clew.query.context.budget import BUDGET, Count
from clew.query.context.format.renderers import NEXT_LINE
from clew.query.messages.render import THREAD_SEPARATOR, cut_middle, format_message, render_threads
from clew.query.messages.similar import (
    ReadThread,
    ScoredMessages,
    Search,
    as_context_message,
    group_by_thread,
    score_messages,
)

_SLACK = 3  # tokens that a message may take less within the text than by itself with its separator
_PARENT_SHARE = 0.25  # of the budget, for the beginning and end of a message that is too long to be shown whole
_DATE_CHARS = len("2026-03-10 09:30")
_MIN_CUT_CHARS = 40  # less of a message tells nothing
BELOW_MINIMUM = "below the minimum"  # the reason of a message that is not near enough, nor in a thread with one that is
_MENTION = re.compile(r"(?<![\w&#])#([\w-]+)")


class Selection:
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
        self._slack: dict[str, int] = {}
        self._least: dict[str, list[int]] = {}  # tokens that each message of a thread has at least
        self._without_parent: list[tuple[ThreadView, int]] = []  # hits for whose parent there was no room
        self._cuts: dict[str, str] = {}  # what is left of the messages that were cut, by id

    def take_hits(self) -> None:
        """Take the hits in their order, each with its reply chain; a hit that does not fit even alone is passed over.

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
        """Add the other messages of the hits' threads, the best thread first: all, or else those near the hits."""
        for name in dict.fromkeys(each.thread for each in self._found.messages):
            if name not in self._taken:
                continue
            thread, taken = self._found.threads[name], self._taken[name]
            hits = [place for place in taken if thread.ids[place] in self._hits]
            rest = [place for place in range(len(thread.ids)) if place not in taken]
            if not self._take_if_fits(thread, rest):
                for place in sort_by_distance(rest, hits, thread):
                    if not self._is_too_long(thread, place):
                        self._take_with_chain(thread, place)

    def list_threads(self) -> list[WindowThread]:
        """List the selected messages by thread, the thread of the best hit first."""
        return self._group_by_thread(self._taken)

    def _group_by_thread(self, chosen: dict[str, set[int]]) -> list[WindowThread]:
        taken = [each for each in self._found.messages if self._get_place(each) in chosen.get(each.thread, ())]
        for name, places in chosen.items():
            thread = self._found.threads[name]
            beside = (place for place in places if thread.ids[place] not in self._hits)
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
        """Return the tokens of a message as it is rendered."""
        if message.id not in self._token_counts:
            self._token_counts[message.id] = self._count(format_message(message, authors=self._authors))
        return self._token_counts[message.id]

    def _take_if_fits(self, thread: ThreadView, places: Sequence[int]) -> bool:
        """Take the messages at the places that are not taken yet if they fit together; return whether they did."""
        taken = self._taken.get(thread.id, set())
        new = [place for place in places if place not in taken]
        if not new:
            return True
        separators = self._separator_tokens * (len(new) if self._taken else len(new) - 1)  # none before the first
        cost = separators + sum(self._count_least(thread, place) for place in new)
        if cost <= self._budget + _SLACK * len(new):  # else it is too much already, and nothing need be parsed
            cost = separators + sum(self.count_message_tokens(thread.message(place)) for place in new)
        grown = {**self._taken, thread.id: taken | set(new)}
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

    def _take_with_chain(self, thread: ThreadView, place: int) -> None:
        """Take a message with its whole chain, else with as much of it, nearest first, as fits; at last alone."""
        if not self._take_if_fits(thread, self._find_chain_places(thread, place)):
            chain = self._find_chain_places(thread, place, max_explicit=1)
            while chain and not self._take_if_fits(thread, chain):
                chain.pop()
            if chain == [place]:
                self._without_parent.append((thread, place))

    def _take_parent_cut(self, thread: ThreadView, place: int) -> None:
        """Take the beginning and end of the message that a hit replies to, where its author marked it as a reply."""
        answered = thread.parents[place]
        if answered is None or thread.is_guessed(place) or answered in self._taken[thread.id]:
            return
        parent = thread.message(answered)
        self._remaining, self._is_exact = self._budget - self._count_rendered_tokens(self._taken), True
        room = min(self._remaining - self._separator_tokens, int(_PARENT_SHARE * self._budget))

        def count(text: str) -> int:
            return self._count(format_message(replace(parent, text=text), authors=self._authors))

        cut = cut_middle(parent.text, lambda text: count(text) <= room)
        if len(cut) >= _MIN_CUT_CHARS:
            self._cuts[parent.id], self._token_counts[parent.id] = cut, count(cut)
            self._take_if_fits(thread, [answered])

    def _count_rendered_tokens(self, taken: dict[str, set[int]]) -> int:
        """Return the tokens of the rendered text of the taken messages."""
        text = render_threads(self._group_by_thread(taken), authors=self._authors)
        return self._count(text) if text else 0

    def _find_chain_places(self, thread: ThreadView, place: int, *, max_explicit: int | None = None) -> list[int]:
        """Find the place of a hit and of the messages in its reply chain; for a message that is no hit, its own place.

        Explicit replies count whatever their size, up to `max_explicit` of them; all others up to the chain's share. A
        chain too long for the budget is not followed to its end.
        """
        if thread.ids[place] not in self._hits:
            return [place]
        chain, sure, taken = [place], True, self._taken.get(thread.id, set())
        room = self._budget + self._separator_tokens + self._sum_of_slack(thread)
        for each in thread.reply_chain(place):
            sure = sure and not thread.is_guessed(chain[-1])
            sure = sure and (max_explicit is None or len(chain) <= max_explicit)
            if not sure and self._is_over_chain_budget(thread, [*chain[1:], each]):
                break
            chain.append(each)
            if each not in taken:
                room -= self._count_least(thread, each) + self._separator_tokens - _SLACK
            if room < 0:  # it does not fit, whatever the rest is
                break
        return chain

    def _is_over_chain_budget(self, thread: ThreadView, places: Sequence[int]) -> bool:
        room = self._chain_budget
        for place in places:
            room -= self.count_message_tokens(thread.message(place)) + self._separator_tokens
            if room < 0:
                return True
        return False

    def _count_least(self, thread: ThreadView, place: int) -> int:
        """Return the tokens of a message if they are known, else a lower bound from its text alone."""
        if (known := self._token_counts.get(thread.ids[place])) is not None:
            return known
        return self._list_least(thread)[place]

    def _list_least(self, thread: ThreadView) -> list[int]:
        if thread.id not in self._least and self._count is not estimate_tokens:
            self._least[thread.id] = [0] * len(thread.ids)
        elif thread.id not in self._least:
            chars = (len(text.strip()) for text in thread.texts)
            heads = (count_head_chars(head) if self._authors else 0 for head in thread.heads)
            self._least[thread.id] = [-(-(own + head) // 4) for own, head in zip(chars, heads, strict=True)]
        return self._least[thread.id]

    def _sum_of_slack(self, thread: ThreadView) -> int:
        """Return how many tokens less all messages of a thread may take within the text than by themselves."""
        if thread.id not in self._slack:
            per_message = _SLACK - self._separator_tokens
            self._slack[thread.id] = sum(max(0, per_message - least) for least in self._list_least(thread))
        return self._slack[thread.id]

    def _is_too_long(self, thread: ThreadView, place: int) -> bool:
        """Return whether a message that is no hit is certain not to fit beside the taken ones."""
        if not self._is_exact or thread.ids[place] in self._hits:
            return False
        return self._count_least(thread, place) + self._separator_tokens > self._remaining + _SLACK

    def is_taken(self, each: ContextMessage) -> bool:
        """Return whether a message was selected."""
        return self._get_place(each) in self._taken.get(each.thread, ())

    def _get_place(self, each: ContextMessage) -> int:
        return self._found.threads[each.thread].places[each.id]


def count_head_chars(head: Head) -> int:
    """Count the characters before a message's text at least: author and time, as `format_said` writes them."""
    name = " ".join(head.author.split())
    when = _DATE_CHARS if head.at and head.at > "1001" else 0  # earlier years have fewer digits
    return len(name) + when + 2 * bool(name and when) + 2 * bool(name or when)


def sort_by_distance(places: Sequence[int], hits: Sequence[int], thread: ThreadView) -> list[int]:
    """Return the places of a thread: those that hits reply to first, directly or not, then those nearest to a hit."""
    ancestors: set[int] = set()
    for hit in hits:
        at = thread.parents[hit]
        while at is not None and at not in ancestors:
            ancestors.add(at)
            at = thread.parents[at]
    ordered = sorted(hits)

    def sort_key(place: int) -> tuple[bool, int, int]:
        above = bisect_left(ordered, place)
        distance = min(abs(place - hit) for hit in ordered[max(above - 1, 0) : above + 1])
        return place not in ancestors, distance, place

    return sorted(places, key=sort_key)


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
    """Build the window for a prompt in a channel: the messages that fit, and the dropped ones with reasons."""
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
            shown={hit.chunk.id for hit in split_by_relevance(hits, settings.context)[0]},
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
    """Find the other channels to search.

    First come those that the prompt mentions as #name, then those that the hits mention, then those with the most
    similar messages.
    """
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
