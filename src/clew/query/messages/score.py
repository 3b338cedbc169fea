"""The scores of a message, one function per formula.

The formulas are those of chat context: time (C2), channel (C3), thread (C4), flow and completeness (C5), their product
(C10) or weighted sum, and the order of nearly equal scores (C12). A message is scored once, before the selection by
score.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp
from typing import TypeVar

from clew.core.protocols import Step
from clew.core.settings import ScoringConfig
from clew.core.time import EPOCH, assume_utc, parse_iso_or_none
from clew.core.types import Hit, Query
from clew.query.rank.calibrate import get_match
from clew.query.rank.thread_smoothing import is_message_chunk

T = TypeVar("T")
Time = datetime | str | None


def hours_between(one: Time, other: Time) -> float | None:
    """Return the absolute difference of two times in hours; None where one is missing or cannot be parsed."""
    first, second = _parse_time(one), _parse_time(other)
    return None if first is None or second is None else abs((first - second).total_seconds()) / 3600


def time_score(at: Time, now: Time, *, decay: float, floor: float = 0.0) -> float:
    """Return the recency of a message: exp(−decay · hours), never below the floor; 1 without a time.

    A time in the future counts by its distance, like one in the past, so it gains nothing.
    """
    hours = hours_between(at, now)
    return 1.0 if hours is None else max(floor, exp(-decay * hours))


def boost_factor(strength: float, boost: float) -> float:
    """Return the factor of a signal with a strength from 0 to 1: from 1 (none) to the boost (full)."""
    return 1 + (boost - 1) * strength


def channel_score(channel: str, wanted: str | None, *, boost: float) -> float:
    """Return the boost for a message of the wanted channel; 1 for others, and where no channel is wanted."""
    return boost_factor(float(wanted is not None and channel == wanted), boost)


def thread_score(member: bool, *, boost: float) -> float:
    """Return the boost for a message that has a reply or is one; 1 for a single message."""
    return boost_factor(float(member), boost)


def compute_flow(at: Time, others: Iterable[Time], *, decay: float) -> float:
    """Compute the activity around a message, from 0 to 1: exp(−decay · hours) to the nearest of the `others`.

    `others` are the times of the other hits in its thread; 0 without any.
    """
    return max((time_score(at, other, decay=decay) for other in others), default=0.0)


def compute_chain_completeness(chain: Sequence[str], found: Collection[str]) -> float:
    """Compute the share of a message's reply chain that was found too; 1 where the chain is empty."""
    return sum(each in found for each in chain) / len(chain) if chain else 1.0


@dataclass(frozen=True, slots=True)
class ScoringInputs:
    """The inputs of a message's score; flow and completeness are from 0 to 1."""

    base: float
    at: Time = None
    channel: str = ""
    member: bool = False
    flow: float = 0.0
    completeness: float = 1.0


@dataclass(frozen=True, slots=True)
class MessageScores:
    """A message's score, and the factors of the product or the unweighted terms of the sum."""

    total: float
    time: float
    channel: float
    thread: float
    flow: float
    completeness: float


def boost_messages(config: ScoringConfig) -> Step:
    """Make a step that reorders the messages among the hits by match × recency × channel boost.

    Recency is measured at `query.now`; messages of `query.channel` are boosted. Pages keep their places, and the
    relevance of a hit does not change.
    """

    def message_boost(query: Query, hits: list[Hit]) -> list[Hit]:
        boosted = [
            hit.with_score(get_match(hit) * _compute_boost_factor(hit, query, config), "message_boost")
            for hit in hits
            if is_message_chunk(hit.chunk)
        ]
        messages = iter(sorted(boosted, key=lambda hit: (-hit.score, hit.chunk.id)))
        return [next(messages) if is_message_chunk(hit.chunk) else hit for hit in hits]

    return message_boost


def _compute_boost_factor(hit: Hit, query: Query, config: ScoringConfig) -> float:
    """Compute the factor for a message: its recency if the query has a `now`, times the boost of its channel."""
    recency = 1.0
    if query.now is not None:
        recency = time_score(hit.chunk.at, query.now, decay=config.time_decay, floor=config.time_floor)
    channel = str(hit.chunk.meta.get("channel", ""))
    return recency * channel_score(channel, query.channel, boost=config.channel_boost)


def score_message(inputs: ScoringInputs, *, now: Time, channel: str | None, config: ScoringConfig) -> MessageScores:
    """Score a message by the formula that the settings name."""
    formula = product_score if config.scoring == "product" else weighted_score
    return formula(inputs, now=now, channel=channel, config=config)


def product_score(inputs: ScoringInputs, *, now: Time, channel: str | None, config: ScoringConfig) -> MessageScores:
    """Return the product base · time · channel · thread · flow · completeness; the last two are 1 unless boosted."""
    time = time_score(inputs.at, now, decay=config.time_decay, floor=config.time_floor)
    place = channel_score(inputs.channel, channel, boost=config.channel_boost)
    thread = thread_score(inputs.member, boost=config.thread_boost)
    active = boost_factor(inputs.flow, config.flow_boost)
    whole = boost_factor(inputs.completeness, config.completeness_boost)
    return MessageScores(inputs.base * time * place * thread * active * whole, time, place, thread, active, whole)


def weighted_score(inputs: ScoringInputs, *, now: Time, channel: str | None, config: ScoringConfig) -> MessageScores:
    """Return the score as a weighted sum of base, time, channel, thread, flow and completeness, each from 0 to 1."""
    time = time_score(inputs.at, now, decay=config.time_decay, floor=config.time_floor)
    place, thread = float(channel is not None and inputs.channel == channel), float(inputs.member)
    total = (
        config.semantic_weight * inputs.base
        + config.time_weight * time
        + config.channel_weight * place
        + config.thread_weight * thread
        + config.flow_weight * inputs.flow
        + config.completeness_weight * inputs.completeness
    )
    return MessageScores(total, time, place, thread, inputs.flow, inputs.completeness)


def sort_by_score_then_time(
    items: Iterable[T],
    *,
    equality: float,
    score: Callable[[T], float],
    at: Callable[[T], Time],
    name: Callable[[T], str],
) -> list[T]:
    """Sort items best first, items of nearly equal score newest first, whatever their input order.

    "Nearly equal" is not transitive: a may equal b and b equal c while a beats c. So groups are anchored: each begins
    with the best score that is left and holds the scores less than `equality` below it.
    """
    ranked = sorted(items, key=lambda item: (-score(item), name(item)))
    groups: list[list[T]] = []
    for item in ranked:
        if groups and score(groups[-1][0]) - score(item) < equality:
            groups[-1].append(item)
        else:
            groups.append([item])
    newest = (sorted(group, key=lambda item: -to_epoch_seconds(at(item))) for group in groups)  # a stable sort
    return [item for group in newest for item in group]


def to_epoch_seconds(at: Time) -> float:
    """Return the time as seconds since 1970; 0 without a time."""
    return (_parse_time(at) or EPOCH).timestamp()


def _parse_time(at: Time) -> datetime | None:
    """Parse a time with its zone (UTC where it has none); None without a time or where it cannot be parsed."""
    if isinstance(at, str):
        return parse_iso_or_none(at)
    return at and assume_utc(at)
