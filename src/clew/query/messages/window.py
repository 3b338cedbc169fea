"""Context windows over messages: the steps of `Engine.window` after the search.

score the messages → take the hits in order, each with its reply chain, while they fit → complete their threads while
there is room, the best first → text, the best thread first, each thread by time.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain
from typing import Literal

from clew.core.attribution import GUESSED_REPLY, format_reply_mark
from clew.core.filter import Filter
from clew.core.settings import ScoringConfig, Settings
from clew.core.suggest import format_count, format_names, format_suggestion
from clew.core.thread import RUN, THREAD_KIND, ThreadView
from clew.core.trace import step
from clew.core.types import Hit, Message
from clew.core.window import ContextMessage, ContextWindow, DroppedMessage, WindowThread
from clew.query.context.assemble import split_by_relevance
from clew.query.context.budget import BUDGET, Count
from clew.query.context.format.renderers import NEXT_LINE, THREAD_LINES, format_thread_message
from clew.query.messages.similar import (
    ReadThread,
    ScoredMessages,
    Search,
    as_context_message,
    group_by_thread,
    score_messages,
)

THREAD_SEPARATOR = "\n\n"
CUT_MARK = " … "
HEAD_SHARE = 0.6  # share of a cut message's text from its beginning; the rest is from its end


def render_threads(threads: Iterable[WindowThread], *, authors: bool = True) -> str:
    """Render the threads as text, with a blank line between threads.

    With `authors`, author and time precede each message. An arrow precedes each reply, with a question mark if guessed.
    """
    texts = []
    for thread in threads:
        first, *others = thread.messages
        lines = [format_message(first.message, authors=authors)]
        for each in others:
            mark = format_reply_mark(is_reply=each.message.reply_to is not None, guessed=each.guessed)
            lines.append(f"{NEXT_LINE}{mark}{format_message(each.message, authors=authors)}")
        texts.append("".join(lines))
    return THREAD_SEPARATOR.join(texts)


def format_message(message: Message, *, authors: bool) -> str:
    """Format a message without its arrow, with author and time if `authors`."""
    if authors:
        return format_thread_message(message.author, message.at, message.text)
    return THREAD_LINES.escape(message.text.strip())


def cut_middle(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning and end of a text that fit together, with a mark between them; empty if none fit."""
    text = text.strip()
    if fits(text):
        return text
    low, high = 0, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_join_ends(text, middle)):
            low = middle
        else:
            high = middle - 1
    return _join_ends(text, low) if low else ""


def _join_ends(text: str, chars: int) -> str:
    """Join the beginning and the end of a text, `chars` characters in all, cut between words."""
    head = text[: round(HEAD_SHARE * chars)]
    tail = text[len(text) - (chars - len(head)) :]
    whole_head = head.rsplit(maxsplit=1)[0] if len(head.split()) > 1 and not text[len(head)].isspace() else head
    whole_tail = tail.split(maxsplit=1)[1] if len(tail.split()) > 1 and not text[-len(tail) - 1].isspace() else tail
    return f"{whole_head.rstrip()}{CUT_MARK}{whole_tail.lstrip()}".strip()


_SLACK = 3  # tokens that a message may save within the text, compared with itself and its separator alone
_PARENT_SHARE = 0.25  # of the budget, for the two ends of a parent that is too long to be shown whole
_MIN_CUT_CHARS = 40  # less of a message tells nothing
BELOW_MINIMUM = "below the minimum"  # the reason of a message below the minima, as all found messages of its thread are
CHAIN_SHARE = 0.05  # of the budget, for a chain of guessed replies (`make study ARGS=window`)
MAX_RELATED_CHANNELS = 3  # other channels to search; more are hardly on the same subject
_MAX_MISSES = 64  # consecutive messages without room after which to give up on a thread
_BOTH_WAYS: tuple[Literal[-1], Literal[1]] = (-1, 1)
_MENTION = re.compile(r"(?<![\w&#])#([\w-]+)")


class Selection:
    """The messages selected so far by thread, and the tokens that remain."""

    def __init__(self, found: ScoredMessages, tokens: int, count: Count, config: ScoringConfig) -> None:
        self._found = found
        self._hits = {each.id: each for each in found.messages}
        self._taken: dict[str, set[int]] = {}
        self._budget = tokens
        self._chain_budget = int(CHAIN_SHARE * tokens)  # for a chain of guessed replies
        self._remaining = tokens
        self._is_exact = True  # whether the remaining tokens were counted on the whole text, not message by message
        self._count = count
        self._authors = config.authors
        self._separator_tokens = max(map(count, (f"{NEXT_LINE}{GUESSED_REPLY} ", THREAD_SEPARATOR)))
        self._token_counts: dict[str, int] = {}
        self._without_parent: list[tuple[ThreadView, int]] = []  # hits for whose parent there was no room
        self._deep: set[str] = set()  # threads in which the chain of a hit had no room
        self._cuts: dict[str, str] = {}  # the remaining text of cut messages, by id

    def take_hits(self) -> None:
        """Take the hits in order, each with its reply chain; skip a hit that does not fit even alone.

        A chain of explicit replies is taken whole if it fits; else the parent and the chain's share of the budget, also
        for later hits of its thread, until `complete_threads` adds the rest. A parent that does not fit is cut to its
        beginning and end. A chain of guessed replies ends at its share of the budget. A hit kept only for its thread is
        taken only if the thread is.
        """
        for hit in self._found.messages:
            if hit.id not in self._found.near and hit.thread not in self._taken:
                continue
            self._take_with_chain(self._found.threads[hit.thread], self._get_place(hit))
        for thread, place in self._without_parent:
            self._take_parent_cut(thread, place)

    def complete_threads(self) -> None:
        """Add the other messages of the hits' threads, the best thread first: all, or else the nearest to the hits.

        Gives up on a thread after _MAX_MISSES messages in a row without room.
        """
        for name in dict.fromkeys(each.thread for each in self._found.messages):
            if name not in self._taken:
                continue
            thread, taken = self._found.threads[name], self._taken[name]
            hits = [place for place in taken if thread.message(place).id in self._hits]
            beside = (place for place in list_nearest(thread, hits) if place not in self._taken[name])
            together, room = list[int](), self._bound_room()
            for place in beside:
                together.append(place)
                room -= self._count_least(thread, place)
                if room < 0:
                    break
            if room >= 0 and self._take_if_fits(thread, together):
                continue
            misses = 0
            for place in chain(together, beside):
                self._take_with_chain(thread, place)
                misses = 0 if place in self._taken[name] else misses + 1
                if misses == _MAX_MISSES:
                    break

    def list_threads(self) -> list[WindowThread]:
        """List the selected messages by thread, the thread of the best hit first, each with its parent if selected."""
        threads = []
        for shown in self._group_by_thread(self._taken):
            thread, places = self._found.threads[shown.id], self._taken[shown.id]
            here = {message.id: message for message in map(thread.message, places)}
            messages = [replace(each, parent=here.get(each.message.reply_to or "")) for each in shown.messages]
            is_whole = not any(each.cut for each in messages) and thread.is_whole(places)
            threads.append(replace(shown, messages=tuple(messages), whole=is_whole))
        return threads

    def _group_by_thread(self, chosen: dict[str, set[int]]) -> list[WindowThread]:
        taken = [each for each in self._found.messages if self._get_place(each) in chosen.get(each.thread, ())]
        for name, places in chosen.items():
            thread = self._found.threads[name]
            beside = (place for place in places if thread.message(place).id not in self._hits)
            taken += [as_context_message(thread, place) for place in beside]
        return group_by_thread([self._cut_message(each) for each in taken], self._found.threads)

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
        """Take a message with its whole chain, else with as much of it as fits, nearest first, else alone."""
        if thread.id not in self._deep:
            places = self._find_chain_places(thread, place)
            if self._take_if_fits(thread, places) or len(places) == 1:
                return
            self._deep.add(thread.id)
            own = max(self._chain_budget, 2 * self._count_least(thread, place))  # tokens of a hit with its chain
            hits = [self._get_place(each) for each in self._found.messages if each.thread == thread.id]
            thread.load_near(at for hit in hits[: self._bound_room() // own + 1] for at in (hit, hit - RUN))
        places = self._find_chain_places(thread, place, max_explicit=1)
        while places and not self._take_if_fits(thread, places):
            places.pop()
        if places == [place]:
            self._without_parent.append((thread, place))

    def _take_parent_cut(self, thread: ThreadView, place: int) -> None:
        """Take the beginning and end of the message that a hit explicitly replies to."""
        answered = thread.parent(place)
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
        text = render_threads(self._group_by_thread(taken), authors=self._authors)
        return self._count(text) if text else 0

    def _find_chain_places(self, thread: ThreadView, place: int, *, max_explicit: int | None = None) -> list[int]:
        """Return the places of a hit and its reply chain; for a message that is no hit, its own place.

        Explicit replies are included whatever their size, up to `max_explicit`; all others up to the chain's share of
        the budget. Stops where the chain exceeds the room left.
        """
        if thread.message(place).id not in self._hits:
            return [place]
        found, sure, taken = [place], True, self._taken.get(thread.id, set())
        above, share, room = thread.reply_chain(place), self._chain_budget, self._bound_room()
        room -= 0 if place in taken else self._count_least(thread, place)
        while room >= 0:  # else it does not fit, whatever the rest is
            sure = sure and not thread.is_guessed(found[-1])
            sure = sure and (max_explicit is None or len(found) <= max_explicit)
            each = next(above, None) if sure or share > 0 else None
            if each is None:
                break
            tokens = self.count_message_tokens(thread.message(each)) + self._separator_tokens
            share -= tokens
            if not sure and share < 0:
                break
            found.append(each)
            room -= 0 if each in taken else max(1, tokens - _SLACK)
        return found

    def _count_least(self, thread: ThreadView, place: int) -> int:
        """Return the least tokens that a message takes within the text."""
        return max(1, self.count_message_tokens(thread.message(place)) + self._separator_tokens - _SLACK)

    def _bound_room(self) -> int:
        """Return an upper bound of the remaining tokens."""
        slack = 0 if self._is_exact else _SLACK * sum(map(len, self._taken.values()))
        return self._remaining + slack + self._separator_tokens

    def is_taken(self, each: ContextMessage) -> bool:
        """Return whether a message was selected."""
        return self._get_place(each) in self._taken.get(each.thread, ())

    def _get_place(self, each: ContextMessage) -> int:
        place = self._found.threads[each.thread].places[each.id]
        assert place is not None
        return place


def list_nearest(thread: ThreadView, hits: Sequence[int]) -> Iterator[int]:
    """Yield the places of a thread: first messages that hits reply to, directly or not, then the nearest to a hit.

    It reads no more of the thread than the caller consumes.
    """
    above, heap = set(hits), [(0, hit, hit) for hit in hits]
    while heap:
        _, place, hit = heappop(heap)
        answered = thread.parent(place)
        if place != hit:
            yield place
        if answered is not None and answered not in above:
            above.add(answered)
            heappush(heap, (abs(hit - answered), answered, hit))
    thread.load_near(hits)
    seen = set(hits)
    walks = [thread.walk(hit, by) for hit in hits for by in _BOTH_WAYS]
    while walks:
        steps = [(at, walk) for walk in walks if (at := next(walk, None)) is not None and at not in seen]
        seen.update(at for at, _ in steps)
        yield from sorted({at for at, _ in steps} - above)
        walks = [walk for _, walk in steps]


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
    """The data a window is built from: search by filter, threads by id at one state, and the channels."""

    search: Search
    open_threads: Callable[[], AbstractContextManager[ReadThread]]
    has_channel: Callable[[str], bool]
    list_channels: Callable[[], Sequence[str]]


def build_window(request: WindowRequest, sources: WindowSources, *, settings: Settings, count: Count) -> ContextWindow:
    """Build the window for a prompt in a channel: the messages that fit, and the dropped ones with reasons."""
    config = settings.scoring
    hits = sources.search(_make_channel_filter({request.channel}))
    channels = {request.channel}
    if request.include_related:
        channels |= set(find_related_channels(request, hits, sources, max_channels=MAX_RELATED_CHANNELS))
        hits = sources.search(_make_channel_filter(channels)) if len(channels) > 1 else hits
    with sources.open_threads() as read:
        with step("score") as trace:
            found = score_messages(
                hits,
                read=read,
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
    """Find other channels to search: mentioned in the prompt as #name, then in the hits, then with similar messages."""
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
