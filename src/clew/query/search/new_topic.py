"""Is a short question about something else than the conversation before it? Decided by what the collection has.

Keywords for something new find it by themselves, and no text has them together with the words of the conversation. A
follow-up finds little by itself, or what it finds is in the texts that the conversation is about. Both limits were
chosen on half of the questions of `python -m studies.follow_ups`.
"""

from clew.core.types import Query
from clew.query.rank.calibrate import estimate_relevance
from clew.query.search.evidence import EvidenceSource

MIN_RELEVANCE = 0.5  # of the best hit of the question by itself
MAX_TOGETHER = 0.4  # share of the words of the conversation in a text that has those of the question


def is_new_topic(source: EvidenceSource, query: Query, expanded: Query) -> bool:
    """Whether the query finds something by itself that has nothing to do with what the conversation adds to it."""
    hits = source.find_rivals(query, ())
    _, evidence = source.gather(query, hits)
    if max(estimate_relevance(evidence), default=0.0) < MIN_RELEVANCE:
        return False
    return source.match_together(query, expanded) < MAX_TOGETHER
