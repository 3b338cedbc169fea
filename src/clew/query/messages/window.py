"""The messages of a conversation that a prompt should hold: what `Engine.context_window` does after the search.

similar messages → their scores, once → hits in their order, each with the chain of replies before it, while they fit →
threads made whole where room is left, the best first → text, the best thread first, each by time.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches

from clew.core.settings import ScoringConfig, Settings
from clew.core.thread import KIND
from clew.core.trace import step
from clew.core.types import Filter, Hit, Message
from clew.core.window import ContextMessage, ContextWindow, LeftOut, WindowThread
from clew.query.context.budget import BUDGET, Count
from clew.query.context.format.quote import one_line
from clew.query.context.format.renderers import REPLY, THREAD_LINES
from clew.query.messages.similar import Cosines, Read, Search, Similar, Talk, similar, threaded, unfound

MIN_SCORE = "min_score"  # why a message was left out: it is not similar enough, nor in a thread with one that is
APART = "\n\n"  # between two threads
_SLACK = 2  # tokens that a message may have less in the whole text than alone with its joint
_MENTION = re.compile(r"(?<![\w&#])#([\w-]+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a window is asked for."""

    channel: str
    prompt: str
    max_tokens: int
    related: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Sources:
    """What a window is made from: a search within a filter, a document by id, cosines, and the channels there are."""

    search: Search
    read: Read
    cosines: Cosines
    exists: Callable[[str], bool]
    channels: Callable[[], Sequence[str]]
    floor: float  # the embedder's own


def context_window(asked: Asked, sources: Sources, *, settings: Settings, count: Count) -> ContextWindow:
    """The window for a prompt in a channel: what fits the tokens, and what was left out and why."""
    config = settings.scoring
    hits = sources.search(_within({asked.channel}))
    channels = {asked.channel}
    if asked.related and config.related_channels:
        channels |= set(related_channels(asked, hits, sources, most=config.related_channels))
        hits = sources.search(_within(channels)) if len(channels) > 1 else hits
    with step("score") as trace:
        found = similar(
            hits,
            read=sources.read,
            cosines=sources.cosines,
            channel=asked.channel,
            now=asked.now,
            config=config,
            floor=sources.floor,
        )
        trace.set_output(found.messages)
    with step("select") as trace:
        shown = _Selection(found, asked.max_tokens, count, config)
        shown.take_hits()
        shown.grow()
        threads = shown.threads()
        trace.set_output(threads)
    text = rendered(threads, authors=config.authors)
    dropped = [LeftOut(each, BUDGET, shown.tokens(each.message)) for each in found.messages if not shown.has(each)]
    dropped += [LeftOut(each, MIN_SCORE, shown.tokens(each.message)) for each in found.below]
    messages = tuple(each for thread in threads for each in thread.messages)
    return ContextWindow(
        messages=messages,
        total_tokens=count(text) if text else 0,
        channels=frozenset(channels),
        text=text,
        threads=tuple(threads),
        dropped=tuple(dropped),
        reason="" if messages else _why_nothing(asked, sources, dropped),
    )


def related_channels(asked: Asked, hits: Sequence[Hit], sources: Sources, *, most: int) -> list[str]:
    """The other channels to look in: those that the prompt mentions as #name, then those that the hits mention, then
    those whose own messages are most similar, the best first."""
    said = [asked.prompt, *(hit.chunk.text for hit in hits)]
    mentioned = [name for text in said for name in _MENTION.findall(text)]
    chosen: list[str] = []
    for name in dict.fromkeys(mentioned):
        if len(chosen) < most and name != asked.channel and sources.exists(name):
            chosen.append(name)
    if len(chosen) < most:
        others = set(sources.channels()) - {asked.channel, *chosen}
        found = sources.search(_within(others)) if others else []
        chosen += dict.fromkeys(str(hit.chunk.meta["channel"]) for hit in found)
    return chosen[:most]


def rendered(threads: Iterable[WindowThread], *, authors: bool = False) -> str:
    """The threads as text: replies after an arrow, threads apart by a blank line."""
    return APART.join(REPLY.join(_line(each.message, authors) for each in thread.messages) for thread in threads)


def _line(message: Message, authors: bool) -> str:
    text = THREAD_LINES.quoted(message.text.strip())
    return f"{one_line(message.author)}: {text}" if authors and message.author else text


class _Selection:
    """What has been taken so far, thread by thread, and the tokens that are left."""

    def __init__(self, found: Similar, tokens: int, count: Count, config: ScoringConfig) -> None:
        self._found = found
        self._hits = {each.id: each for each in found.messages}
        self._taken: dict[str, set[int]] = {}
        self._budget = tokens
        self._room = int(config.chain_share * tokens)  # of a chain that was guessed
        self._left = tokens
        self._exact = True  # whether what is left was counted on the whole text, not on its parts
        self._count = count
        self._authors = config.authors
        self._joint = max(count(REPLY), count(APART))
        self._costs: dict[str, int] = {}

    def take_hits(self) -> None:
        """Takes the hits in their order, each with the chain before it; one that does not fit is passed over.

        What was said to be answered always comes where it fits, else the nearest of it. Where a reply was only guessed,
        the chain ends when it has more than its share of the budget. What was kept only for its thread comes only where
        the thread does.
        """
        for hit in self._found.messages:
            if hit.id not in self._found.near and hit.thread not in self._taken:
                continue
            talk = self._found.talks[hit.thread]
            place = talk.places[hit.id]
            if not self._take(talk, self._with_chain(talk, place)):
                self._take(talk, self._with_chain(talk, place, most=1))

    def grow(self) -> None:
        """Makes the threads of the hits whole, the best first; of one that does not fit, what is near its hits."""
        for name in dict.fromkeys(each.thread for each in self._found.messages):
            if name not in self._taken:
                continue
            talk, taken = self._found.talks[name], self._taken[name]
            hits = [place for place in taken if talk.messages[place].id in self._hits]
            rest = [place for place in range(len(talk.messages)) if place not in taken]
            if not self._take(talk, rest):
                answered = {place for hit in hits for place in talk.chain(hit)}
                near = {place: min(abs(place - hit) for hit in hits) for place in rest}
                for place in sorted(rest, key=lambda place: (place not in answered, near[place], place)):
                    self._take(talk, self._with_chain(talk, place))

    def threads(self) -> list[WindowThread]:
        """What was taken, the thread of the best hit first."""
        return self._threads(self._taken)

    def _threads(self, chosen: dict[str, set[int]]) -> list[WindowThread]:
        taken = [each for each in self._found.messages if self._place(each) in chosen.get(each.thread, ())]
        for name, places in chosen.items():
            talk = self._found.talks[name]
            taken += [unfound(talk, place) for place in places if talk.messages[place].id not in self._hits]
        here = {each.id for each in taken}
        taken = [each if each.parent and each.parent.id in here else replace(each, parent=None) for each in taken]
        return threaded(taken, self._found.talks)

    def tokens(self, message: Message) -> int:
        """The tokens of a message as it is written."""
        if message.id not in self._costs:
            self._costs[message.id] = self._count(_line(message, self._authors))
        return self._costs[message.id]

    def _take(self, talk: Talk, places: Sequence[int]) -> bool:
        """Whether the places that are not taken yet fit together; then they are."""
        taken = self._taken.get(talk.document.id, set())
        new = [place for place in places if place not in taken]
        if not new:
            return True
        cost = sum(self._cost(talk, place) + self._joint for place in new)
        if not self._taken:
            cost -= self._joint  # before the first there is nothing to join
        grown = {**self._taken, talk.document.id: taken | set(new)}
        if cost > self._left and not self._exact:  # the parts of a text have a few more tokens than the whole
            self._left, self._exact = self._budget - self._written(self._taken), True
        if cost <= self._left:
            self._left, self._exact = self._left - cost, False
        elif cost - self._left <= _SLACK * len(new) and (used := self._written(grown)) <= self._budget:
            self._left, self._exact = self._budget - used, True
        else:
            return False
        self._taken = grown
        return True

    def _written(self, taken: dict[str, set[int]]) -> int:
        """The tokens of the text of what is taken."""
        text = rendered(self._threads(taken), authors=self._authors)
        return self._count(text) if text else 0

    def _with_chain(self, talk: Talk, place: int, *, most: int | None = None) -> list[int]:
        """The place of a hit and of what it answers; of what only comes along, its own.

        `most` is how many come for having been said to be answered, however many tokens they have.
        """
        if talk.messages[place].id not in self._hits:
            return [place]
        near, room, sure = [place], self._room, True
        for each in talk.chain(place):
            sure = sure and not talk.document.sections[near[-1]].guessed and (most is None or len(near) <= most)
            room -= self._cost(talk, each) + self._joint
            if room < 0 and not sure:
                break
            near.append(each)
        return near

    def _cost(self, talk: Talk, place: int) -> int:
        return self.tokens(talk.messages[place])

    def has(self, each: ContextMessage) -> bool:
        """Whether a message was taken."""
        return self._place(each) in self._taken.get(each.thread, ())

    def _place(self, each: ContextMessage) -> int:
        return self._found.talks[each.thread].places[each.id]


def _within(channels: Iterable[str]) -> Filter:
    return Filter(channels=frozenset(channels), kinds=frozenset({KIND}))


def _why_nothing(asked: Asked, sources: Sources, dropped: Sequence[LeftOut]) -> str:
    if any(each.reason == BUDGET for each in dropped):
        return f"no message fits {asked.max_tokens} tokens"
    if dropped:
        return "no message is similar enough"
    if not sources.exists(asked.channel):
        near = get_close_matches(asked.channel, sources.channels(), n=3, cutoff=0.5) or sources.channels()[:3]
        hint = f"did you mean {', '.join(near)}?" if near else "there is no message in any yet"
        return f"there is no message in the channel {asked.channel!r}; {hint}"
    return "no message matches"
