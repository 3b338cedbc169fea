"""Turns hits into scored messages: the chunks of a message are grouped, and each message is scored once.

It stands between the search and the selection, of a context window or of examples for a person's style.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from clew.core.errors import NotFound
from clew.core.settings import ScoringConfig
from clew.core.thread import extract_messages
from clew.core.types import Document, Filter, Hit, Message
from clew.core.window import ContextMessage, WindowThread
from clew.query.context.rebuild import group_by_message
from clew.query.rank.fuse import normalise_minmax
from clew.query.rank.message_score import (
    ScoringInputs,
    compute_chain_completeness,
    compute_flow,
    score_message,
    sort_by_score_then_time,
    to_epoch_seconds,
)

Search = Callable[[Filter], list[Hit]]
Cosines = Callable[[Sequence[str]], Mapping[str, float]]  # the cosines of chunks with the prompt, by chunk id
Read = Callable[[str], Document]


class OpenThread(NamedTuple):
    """A thread that has been read: its document, its messages, and the position of each by id."""

    document: Document
    messages: list[Message]
    places: dict[str, int]

    def get_reply_chain(self, place: int) -> list[int]:
        """The positions of the messages that one replies to, directly or not, the nearest first."""
        chain: list[int] = []
        at = self.document.sections[place].parent
        while at is not None:
            chain.append(at)
            at = self.document.sections[at].parent
        return chain


@dataclass(frozen=True, slots=True)
class ScoredMessages:
    """The messages that were found, best first; those below the minimum similarity; and the threads of both.

    `near` holds the ids of messages that are similar enough themselves; the others are in a thread with such a one.
    """

    messages: list[ContextMessage]
    below: list[ContextMessage]
    near: set[str]
    threads: dict[str, OpenThread]


def score_messages(
    hits: Sequence[Hit],
    *,
    read: Read,
    cosines: Cosines,
    channel: str | None,
    now: datetime,
    config: ScoringConfig,
    min_similarity: float,
) -> ScoredMessages:
    """The messages of the hits with their scores.

    A message is kept when its cosine reaches `min_similarity`, or when it is in a thread with one that does. Where no
    `min_similarity` is set, the embedder's `min_similarity` holds, and lexical hits need none.
    """
    found = group_by_message(hits)
    threads = _read_threads((parts[0].chunk.doc_id for parts in found.values()), read)
    best = [
        parts[0]
        for name, parts in found.items()
        if (thread := threads.get(parts[0].chunk.doc_id)) is not None and name in thread.places
    ]
    cosine_of = _find_best_cosines(best, found, cosines)
    cosine = [
        max(0.0, cosine_of[_get_message_id(hit)]) for hit in best
    ]  # a negative score would grow by a factor below 1
    bases = normalise_minmax([hit.score for hit in best]) if config.base == "search" else cosine
    near = {
        name for hit in best if _is_similar_enough(hit, cosine_of[name := _get_message_id(hit)], config, min_similarity)
    }
    near_threads = {hit.chunk.doc_id for hit in best if _get_message_id(hit) in near}
    kept = {_get_message_id(hit): hit.chunk.doc_id for hit in best if hit.chunk.doc_id in near_threads}

    def score_hit(hit: Hit, base: float) -> ContextMessage:
        name, thread = _get_message_id(hit), threads[hit.chunk.doc_id]
        message, places = thread.messages[thread.places[name]], thread.places
        others = [thread.messages[places[other]].at for other in kept if other != name and other in places]
        chain = [name, *(thread.messages[place].id for place in thread.get_reply_chain(thread.places[name]))]
        inputs = ScoringInputs(
            base,
            message.at,
            message.channel,
            member=len(thread.messages) > 1,
            flow=compute_flow(message.at, others, decay=config.time_decay),
            completeness=compute_chain_completeness(chain, kept),
        )
        scores = score_message(inputs, now=now, channel=channel, config=config)
        return replace(
            as_context_message(thread, thread.places[name]),
            found=True,
            score=scores.total,
            original_score=base,
            similarity=cosine_of[name],
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


def as_context_message(thread: OpenThread, place: int) -> ContextMessage:
    """A message of a thread that was not found itself, with the one it replies to."""
    message = thread.messages[place]
    parent = thread.document.sections[place].parent
    return ContextMessage(
        message, thread.document.id, parent=None if parent is None else thread.messages[parent], found=False
    )


def sort_messages_by_score(messages: Iterable[ContextMessage], config: ScoringConfig) -> list[ContextMessage]:
    """The messages best first, those of nearly equal score newest first."""
    return sort_by_score_then_time(
        messages,
        equality=config.score_equality,
        score=lambda each: each.score,
        at=lambda each: each.message.at,
        name=lambda each: each.id,
    )


def group_by_thread(
    messages: Sequence[ContextMessage], open_threads: Mapping[str, OpenThread], *, max_threads: int | None = None
) -> list[WindowThread]:
    """The messages by thread, the thread of the best message first, each thread by time; no time counts as the oldest.

    The messages are given best first; of equal times the earlier in the thread comes first.
    """
    groups: dict[str, list[ContextMessage]] = {}
    for each in messages:
        groups.setdefault(each.thread, []).append(each)
    threads = []
    for name in list(groups)[:max_threads]:
        thread, members = open_threads[name], groups[name]
        places = thread.places
        members.sort(key=lambda each: (to_epoch_seconds(each.message.at), places[each.id]))
        threads.append(
            WindowThread(
                name,
                thread.document.title,
                str(thread.document.meta.get("channel", "")),
                max(each.score for each in members),
                tuple(members),
                whole=len(members) == len(thread.messages),
            )
        )
    return threads


def _read_threads(ids: Iterable[str], read: Read) -> dict[str, OpenThread]:
    threads: dict[str, OpenThread] = {}
    for id_ in dict.fromkeys(ids):
        try:
            document = read(id_)
        except NotFound:  # dropped since the search
            continue
        messages = extract_messages(document)
        threads[id_] = OpenThread(document, messages, {message.id: place for place, message in enumerate(messages)})
    return threads


def _find_best_cosines(best: Sequence[Hit], found: Mapping[str, list[Hit]], cosines: Cosines) -> dict[str, float]:
    """The greatest cosine of each message's chunks, by message id; computed only where the search gave none."""
    names = [_get_message_id(hit) for hit in best]
    known = {
        part.chunk.id: part.scores["semantic"] for name in names for part in found[name] if "semantic" in part.scores
    }
    unknown = [name for name in names if not any(part.chunk.id in known for part in found[name])]
    if missing := [part.chunk.id for name in unknown for part in found[name]]:
        known |= cosines(missing)
    return {name: max((known[p.chunk.id] for p in found[name] if p.chunk.id in known), default=0.0) for name in names}


def _is_similar_enough(hit: Hit, cosine: float, config: ScoringConfig, min_similarity: float) -> bool:
    if config.min_similarity is not None:
        return cosine >= config.min_similarity
    return cosine >= min_similarity or "lexical" in hit.scores


def _get_message_id(hit: Hit) -> str:
    return str(hit.chunk.meta["message"])
