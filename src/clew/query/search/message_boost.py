"""The step that weighs messages by the channel and the time in which a question is asked."""

from clew.core.protocols import Step
from clew.core.settings import ScoringConfig
from clew.core.types import Hit, Query
from clew.query.rank.calibrate import get_match
from clew.query.rank.message_score import channel_score, time_score
from clew.query.rank.thread_smoothing import is_message_chunk


def boost_messages(config: ScoringConfig) -> Step:
    """A step that orders the messages among the hits by their match times factors for their age and their channel.

    The age is that at `query.now`, the boost is for messages of `query.channel`. Pages keep their places, and the
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
    """The factor for a message: its recency if the query has a `now`, times the boost of its channel."""
    recency = 1.0
    if query.now is not None:
        recency = time_score(hit.chunk.at, query.now, decay=config.time_decay, floor=config.time_floor)
    channel = str(hit.chunk.meta.get("channel", ""))
    return recency * channel_score(channel, query.channel, boost=config.channel_boost)
