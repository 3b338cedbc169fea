"""Scored messages from hits: chunks are grouped by message, and each message is scored once.

This runs between search and selection, for context windows and for examples of a person's style.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime

from clew.core.errors import NotFound
from clew.core.filter import Filter
from clew.core.settings import ScoringConfig
from clew.core.thread import ThreadView
from clew.core.types import Hit
from clew.core.window import ContextMessage, WindowThread
from clew.query.context.results import group_by_message
from clew.query.messages.score import (
    ScoringInputs,
    compute_chain_completeness,
    compute_flow,
    score_message,
    sort_by_score_then_time,
    to_epoch_seconds,
)
from clew.query.rank.calibrate import get_match

Search = Callable[[Filter], list[Hit]]
ReadThread = Callable[[str], ThreadView]


@dataclass(frozen=True, slots=True)
class ScoredMessages:
    """The found messages, best first; messages below a minimum; and the threads of both.

    `near` has the ids of messages that reach the minima themselves; the other found messages share a thread with one.
    """

    messages: list[ContextMessage]
    below: list[ContextMessage]
    near: set[str]
    threads: dict[str, ThreadView]


def score_messages(
    hits: Sequence[Hit],
    *,
    read: ReadThread,
    channel: str | None,
    now: datetime,
    config: ScoringConfig,
    shown: Set[str] | None = None,
) -> ScoredMessages:
    """Score the messages of the hits.

    A message is kept if its chunk is among the `shown` (if given) and it reaches `min_similarity` (if set), or if
    another message of its thread does.
    """
    found = group_by_message(hits)
    named: dict[str, list[str]] = {}
    for name, parts in found.items():
        named.setdefault(parts[0].chunk.doc_id, []).append(name)
    threads = _read_threads(named, read)
    best = [
        parts[0]
        for name, parts in found.items()
        if (thread := threads.get(parts[0].chunk.doc_id)) is not None and thread.places[name] is not None
    ]
    cosine_of = {name: max(part.similarity for part in found[name]) for name in map(_get_message_id, best)}
    relevance_of = {name: max(part.relevance for part in found[name]) for name in map(_get_message_id, best)}
    cosine = [
        max(0.0, cosine_of[_get_message_id(hit)]) for hit in best
    ]  # a negative score would grow by a factor below 1
    matches = [max(map(get_match, found[_get_message_id(hit)])) for hit in best]
    bases = matches if config.base == "relevance" else cosine
    lowest = -1.0 if config.min_similarity is None else config.min_similarity
    near = {
        name
        for hit in best
        if (shown is None or hit.chunk.id in shown) and cosine_of[name := _get_message_id(hit)] >= lowest
    }
    near_threads = {hit.chunk.doc_id for hit in best if _get_message_id(hit) in near}
    kept = {_get_message_id(hit): hit.chunk.doc_id for hit in best if hit.chunk.doc_id in near_threads}

    def score_hit(hit: Hit, base: float) -> ContextMessage:
        name, thread = _get_message_id(hit), threads[hit.chunk.doc_id]
        place = thread.places[name]
        assert place is not None
        scores = score_message(
            _collect_inputs(place, base, thread, kept, config), now=now, channel=channel, config=config
        )
        parent = thread.parent(place)
        return replace(
            as_context_message(thread, place),
            parent=None if parent is None else thread.message(parent),
            found=True,
            score=scores.total,
            original_score=base,
            similarity=cosine_of[name],
            relevance=relevance_of[name],
            time_score=scores.time,
            channel_score=scores.channel,
            thread_score=scores.thread,
            flow_score=scores.flow,
            completeness_score=scores.completeness,
        )

    ranked = sort_messages_by_score([score_hit(hit, base) for hit, base in zip(best, bases, strict=True)], config)
    return ScoredMessages(
        [each for each in ranked if each.id in kept],
        [each for each in ranked if each.id not in kept],
        near,
        threads,
    )


def _collect_inputs(
    place: int, base: float, thread: ThreadView, kept: Mapping[str, str], config: ScoringConfig
) -> ScoringInputs:
    """Collect the inputs of a message's score; flow and completeness only if the settings use them."""
    message, flow, completeness, is_sum = thread.message(place), 0.0, 1.0, config.scoring != "product"
    if is_sum or config.flow_boost != 1:
        others = [thread.places[each] for each, home in kept.items() if home == thread.id and each != message.id]
        times = [thread.message(other).at for other in others if other is not None]
        flow = compute_flow(message.at, times, decay=config.time_decay)
    if is_sum or config.completeness_boost != 1:
        chain = [thread.message(each).id for each in (place, *thread.reply_chain(place))]
        completeness = compute_chain_completeness(chain, kept)
    member = thread.is_in_marked_thread(place)
    return ScoringInputs(base, message.at, message.channel, member=member, flow=flow, completeness=completeness)


def as_context_message(thread: ThreadView, place: int) -> ContextMessage:
    """Return a message of a thread, marked as not found by the search."""
    return ContextMessage(thread.message(place), thread.id, guessed=thread.is_guessed(place), found=False)


def sort_messages_by_score(messages: Iterable[ContextMessage], config: ScoringConfig) -> list[ContextMessage]:
    """Sort the messages best first, messages of nearly equal score newest first."""
    return sort_by_score_then_time(
        messages,
        equality=config.score_equality,
        score=lambda each: each.score,
        at=lambda each: each.message.at,
        name=lambda each: each.id,
    )


def group_by_thread(messages: Sequence[ContextMessage], open_threads: Mapping[str, ThreadView]) -> list[WindowThread]:
    """Group the messages by thread, the best message's thread first, each thread by time.

    `messages` are best first; messages of equal time keep their order in the thread.
    """
    groups: dict[str, list[ContextMessage]] = {}
    for each in messages:
        groups.setdefault(each.thread, []).append(each)
    threads = []
    for name, members in groups.items():
        thread, places = open_threads[name], open_threads[name].places
        members.sort(key=lambda each: (to_epoch_seconds(each.message.at), places[each.id]))
        score = max(each.score for each in members)
        threads.append(WindowThread(name, thread.title, thread.channel, score, tuple(members)))
    return threads


def _read_threads(named: Mapping[str, Iterable[str]], read: ReadThread) -> dict[str, ThreadView]:
    """Read the named messages of each thread, and their parents."""
    threads: dict[str, ThreadView] = {}
    for doc_id, ids in named.items():
        try:
            thread = threads[doc_id] = read(doc_id)
        except NotFound:  # dropped since the search
            continue
        thread.load(ids)
        thread.load_parents(place for each in ids if (place := thread.places[each]) is not None)
    return threads


def _get_message_id(hit: Hit) -> str:
    return str(hit.chunk.meta["message"])
