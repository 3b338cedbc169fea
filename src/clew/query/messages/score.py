"""What a message is worth: every formula of the conversation's scores, one function each.

The sources are the behaviours of chat context: time (C2), channel (C3), thread (C4), flow and completeness (C5), their
product (C10) or weighted sum, and the order of scores that are all but equal (C12). Scores are made once, before
anything is selected, and what is selected is taken in their order.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp
from typing import TypeVar

from clew.core.settings import ScoringConfig
from clew.core.types import Chunk, Hit
from clew.query.context.results import placed

T = TypeVar("T")
Time = datetime | str | None
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def hours_between(one: Time, other: Time) -> float | None:
    """The hours between two times, whichever is first; None where one is missing or is no time."""
    first, second = _moment(one), _moment(other)
    return None if first is None or second is None else abs((first - second).total_seconds()) / 3600


def time_score(at: Time, now: Time, *, decay: float, floor: float = 0.0) -> float:
    """exp(−decay · hours), never below the floor; what has no time is as good as new.

    A time in the future counts by its distance like one in the past, so it gains nothing.
    """
    hours = hours_between(at, now)
    return 1.0 if hours is None else max(floor, exp(-decay * hours))


def boosted(strength: float, boost: float) -> float:
    """The factor of something that is there to a degree from 0 to 1: from 1 up to the boost."""
    return 1 + (boost - 1) * strength


def channel_score(channel: str, asked: str | None, *, boost: float) -> float:
    """The boost for a message of the channel that was asked for; 1 for others, and where none was."""
    return boosted(float(asked is not None and channel == asked), boost)


def thread_score(member: bool, *, boost: float) -> float:
    """The boost for a message of a thread: one that answers another or is answered; 1 for one that stands alone."""
    return boosted(float(member), boost)


def flow(at: Time, others: Iterable[Time], *, decay: float) -> float:
    """How active the conversation around a message is, from 0 to 1: exp(−decay · hours) to the nearest other hit.

    The others are the hits of the same thread; without any there is no conversation to be part of.
    """
    return max((time_score(at, other, decay=decay) for other in others), default=0.0)


def completeness(chain: Sequence[str], found: Collection[str]) -> float:
    """The share of what a message answers, directly and before, that was found too; 1 where it answers nothing."""
    return sum(each in found for each in chain) / len(chain) if chain else 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a message before it is scored; flow and completeness are degrees from 0 to 1."""

    base: float
    at: Time = None
    channel: str = ""
    member: bool = False
    flow: float = 0.0
    completeness: float = 1.0


@dataclass(frozen=True, slots=True)
class Scores:
    """A message's score and the factors of the product (or the parts of the sum, before their weights)."""

    total: float
    time: float
    channel: float
    thread: float
    flow: float
    completeness: float


def scored(of: Evidence, *, now: Time, channel: str | None, config: ScoringConfig) -> Scores:
    """The scores of a message by the way that the settings ask for."""
    return (product if config.scoring == "product" else weighted_sum)(of, now=now, channel=channel, config=config)


def product(of: Evidence, *, now: Time, channel: str | None, config: ScoringConfig) -> Scores:
    """base · time · channel · thread · flow · completeness; the last two are 1 unless they are given a boost."""
    time = time_score(of.at, now, decay=config.time_decay, floor=config.time_floor)
    place = channel_score(of.channel, channel, boost=config.channel_boost)
    thread = thread_score(of.member, boost=config.thread_boost)
    active = boosted(of.flow, config.flow_boost)
    whole = boosted(of.completeness, config.completeness_boost)
    return Scores(of.base * time * place * thread * active * whole, time, place, thread, active, whole)


def weighted_sum(of: Evidence, *, now: Time, channel: str | None, config: ScoringConfig) -> Scores:
    """The sum of base, time, channel, thread, flow and completeness, each a part from 0 to 1 with its weight."""
    time = time_score(of.at, now, decay=config.time_decay, floor=config.time_floor)
    place, thread = float(channel is not None and of.channel == channel), float(of.member)
    total = (
        config.semantic_weight * of.base
        + config.time_weight * time
        + config.channel_weight * place
        + config.thread_weight * thread
        + config.flow_weight * of.flow
        + config.completeness_weight * of.completeness
    )
    return Scores(total, time, place, thread, of.flow, of.completeness)


def ordered(
    items: Iterable[T],
    *,
    equality: float,
    score: Callable[[T], float],
    at: Callable[[T], Time],
    name: Callable[[T], str],
) -> list[T]:
    """The items best first, those of nearly equal score newest first; the same for every order they come in.

    "Nearly equal" alone is no order: a may equal b and b equal c while a beats c. So groups are anchored: each begins
    with the best score that is left and holds what is less than `equality` below it.
    """
    ranked = sorted(items, key=lambda item: (-score(item), name(item)))
    groups: list[list[T]] = []
    for item in ranked:
        if groups and score(groups[-1][0]) - score(item) < equality:
            groups[-1].append(item)
        else:
            groups.append([item])
    newest = (sorted(group, key=lambda item: -since_epoch(at(item))) for group in groups)  # a stable sort
    return [item for group in newest for item in group]


def since_epoch(at: Time) -> float:
    """The time as seconds since 1970, which is also when what has no time was said."""
    return (_moment(at) or EPOCH).timestamp()


def by_message(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """The hits of each message, its best first; a chunk that belongs to no message is left out."""
    messages: dict[str, list[Hit]] = {}
    for hit in hits:
        if name := hit.chunk.meta.get("message"):
            messages.setdefault(str(name), []).append(hit)
    return {name: sorted(parts, key=lambda hit: (-hit.score, hit.chunk.id)) for name, parts in messages.items()}


def rebuilt(chunks: Iterable[Chunk]) -> str:
    """The text of a message from its parts in any order; what two share is said once, what is missing is left out."""
    text, reach = "", -1
    for chunk in sorted(chunks, key=_part):
        known = placed(chunk) and reach >= 0
        if known and chunk.end <= reach:
            continue
        own = chunk.text[reach - chunk.start :] if known and chunk.start < reach else chunk.text
        joint = "" if not text or (known and chunk.start <= reach) else " "
        text += joint + own
        reach = chunk.end if placed(chunk) else -1
    return text


def _part(chunk: Chunk) -> tuple[int, int, str]:
    return int(chunk.meta.get("chunk_index", chunk.index)), chunk.start, chunk.id


def _moment(at: Time) -> datetime | None:
    """The time with its zone, UTC where it has none; None for what is no time."""
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return None
    if at is None:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
