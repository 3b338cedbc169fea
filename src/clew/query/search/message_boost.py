"""The step that weighs messages by the channel and the time in which a question is asked."""

from clew.core.protocols import Step
from clew.core.settings import ScoringConfig
from clew.core.types import Hit, Query
from clew.query.rank.fuse import normalise_minmax
from clew.query.rank.message_score import channel_score, time_score
from clew.query.rank.thread_smoothing import is_message_chunk


def boost_messages(config: ScoringConfig) -> Step:
    """A step that multiplies the scores of messages by their age at `query.now` and by a boost for `query.channel`.

    Scores are brought to 0–1 first and back to their range after, because a factor would lift a negative score. Pages
    keep their scores.
    """

    def message_boost(query: Query, hits: list[Hit]) -> list[Hit]:
        scores = [hit.score for hit in hits]
        low, span = min(scores, default=0.0), max(scores, default=0.0) - min(scores, default=0.0)
        boosted = [
            hit.with_score(low + span * share * _compute_boost_factor(hit, query, config), "message_boost")
            if is_message_chunk(hit.chunk)
            else hit
            for hit, share in zip(hits, normalise_minmax(scores), strict=True)
        ]
        return sorted(boosted, key=lambda hit: (-hit.score, hit.chunk.id))

    return message_boost


def _compute_boost_factor(hit: Hit, query: Query, config: ScoringConfig) -> float:
    """The factor for a message's score: its recency if the query has a `now`, times the boost of its channel."""
    recency = 1.0
    if query.now is not None:
        recency = time_score(hit.chunk.at, query.now, decay=config.time_decay, floor=config.time_floor)
    channel = str(hit.chunk.meta.get("channel", ""))
    return recency * channel_score(channel, query.channel, boost=config.channel_boost)
