"""Thread smoothing: a message gains score and relevance from the hits around it in its conversation.

Runs after a ranking and before the cut to `k`. The words of the messages before a message are indexed with it; those
after it are not known when it is stored and count here, at search time: a message gains a share of the scores of those
that follow it and a smaller share of those before it. What it gains it gains of what it lacks, so that many neighbours
that match a little never overtake the one message that matches best. A message without content of its own ("ok", "+1")
gains nothing. Only hits give and gain, so nothing is read from the store. Pages keep their scores, and the messages
together keep the range of theirs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clew.core.protocols import Step
from clew.core.settings import FlowConfig
from clew.core.small_talk import has_content
from clew.core.types import Chunk, Hit, Query
from clew.query.rank.fuse import normalise_minmax

FLOW = "flow"  # the name of the score


def is_message_chunk(chunk: Chunk) -> bool:
    """Whether a chunk is a message or a part of one."""
    return bool(chunk.meta.get("message"))


def smooth_threads(config: FlowConfig) -> Step:
    """Return a step that adds to the score and relevance of each message shares of its neighbours'."""

    def flow(_: Query, hits: list[Hit]) -> list[Hit]:
        messages = [hit for hit in hits if is_message_chunk(hit.chunk)]
        if len(messages) < 2 or not config.reach or not (config.after or config.before):
            return hits
        low, high = min(hit.score for hit in messages), max(hit.score for hit in messages)
        gained = _smooth_each_thread(messages, normalise_minmax([hit.score for hit in messages]), config)
        smoothed = [hit.with_score(low + (high - low) * score, FLOW) for hit, score in gained]
        if not any(math.isnan(hit.relevance) for hit in smoothed):
            chances = _smooth_each_thread(smoothed, [hit.relevance for hit in smoothed], config)
            smoothed = [replace(hit, relevance=chance) for hit, chance in chances]
        pages = [hit for hit in hits if not is_message_chunk(hit.chunk)]
        return sorted([*pages, *smoothed], key=lambda hit: (-hit.score, hit.chunk.id))

    return flow


def _smooth_each_thread(
    hits: Sequence[Hit], scores: Sequence[float], config: FlowConfig
) -> Iterator[tuple[Hit, float]]:
    threads: dict[str, list[tuple[Hit, float]]] = {}
    for hit, score in zip(hits, scores, strict=True):
        threads.setdefault(hit.chunk.doc_id, []).append((hit, score))
    for thread in threads.values():
        yield from add_neighbour_scores(thread, config)


def add_neighbour_scores(thread: Sequence[tuple[Hit, float]], config: FlowConfig) -> Iterator[tuple[Hit, float]]:
    """Each hit of a thread with its score, from 0 to 1, and what it gains from the hits near it in the thread.

    1 - (1 - score(i)) · Π (1 - share · (1 - (d - 1) / reach) · score(j)) over the hits at a distance d of up to
    `reach`, where the share is `after` for those that follow and `before` for those that precede: a noisy-or (Pearl,
    "Probabilistic Reasoning in Intelligent Systems", 1988). A reply is at distance 1 from the message it answers,
    however far apart they are; of several distant replies the best counts. A message without content keeps its score.
    """
    scores = {hit.chunk.index: score for hit, score in thread}
    starts: dict[str, int] = {}  # index of a message's first chunk, by message id
    for hit, _ in thread:
        id_ = str(hit.chunk.meta["message"])
        starts[id_] = min(hit.chunk.index, starts.get(id_, hit.chunk.index))
    replies: dict[int, float] = {}  # score of the best distant reply, by chunk index
    answered: dict[int, float] = {}  # score of the distant message that is answered, by chunk index
    for hit, score in thread:
        at = starts.get(str(hit.chunk.meta.get("reply_to", "")))
        if at is not None and hit.chunk.index - at > config.reach:
            replies[at] = max(score, replies.get(at, 0.0))
            answered[hit.chunk.index] = scores[at]
    for hit, score in thread:
        if not has_content(hit.chunk.text):
            yield hit, score
            continue
        at = hit.chunk.index
        lack = (1 - score) * (1 - config.after * replies.get(at, 0.0)) * (1 - config.before * answered.get(at, 0.0))
        for distance in range(1, config.reach + 1):
            nearness = 1 - (distance - 1) / config.reach
            lack *= 1 - config.after * nearness * scores.get(at + distance, 0.0)
            lack *= 1 - config.before * nearness * scores.get(at - distance, 0.0)
        yield hit, 1 - lack
