"""Is a short question about something else than the conversation before it? Decided by what the collection has.

Keywords for something new find one text by themselves, and no text has them together with the words of the
conversation. A follow-up finds little by itself, or several texts, or those that the conversation is about. The limits
were chosen on half of the questions of `python -m studies.follow_ups`.
"""

from clew.core.types import Query
from clew.query.search.evidence import EvidenceSource

MIN_RELEVANCE = 0.3  # of the best hit of the question by itself
MAX_SECOND = 0.8  # relevance of the next best: two texts that are as good leave it open which is meant
MAX_TOGETHER = 0.4  # share of the words of the conversation in a text that has those of the question


def is_new_topic(source: EvidenceSource, query: Query, expanded: Query) -> bool:
    """Return whether the query finds something by itself that has nothing to do with what the conversation adds."""
    found = source.judge(query)
    first, second = sorted([*found.own[found.list_places()].tolist(), 0.0, 0.0], reverse=True)[:2]
    if first < MIN_RELEVANCE or second >= MAX_SECOND:
        return False
    return source.match_together(query, expanded) < MAX_TOGETHER
