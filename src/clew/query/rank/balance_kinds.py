"""Pages and messages in one ranking, so that neither kind crowds out the other.

Each kind is looked for on its own too, because the few hits of a ranking could all be messages where there are many of
them. The scores of both are then normalised together: a message of .8 stands as far above the hits of the moment as a
page of .8. What differs is how much meaning and words count. Normalising each kind by itself was worse: it puts the
best message beside the best page even where only one of them answers.
"""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.protocols import Fuse, Strategy
from clew.core.thread import KIND
from clew.core.types import Hit, Query
from clew.query.rank.dedupe import by_chunk
from clew.query.rank.thread_smoothing import is_message

PAGE = "page"


def each_kind(strategy: Strategy) -> Strategy:
    """A strategy that finds `query.depth` of all, and where there are more of them, as many messages and pages."""

    def search(query: Query) -> list[Hit]:
        hits = strategy(query)
        if query.where.kinds or len(hits) < query.depth:  # one kind is asked for, or this is all there is
            return hits
        said = strategy(_only(query, KIND))
        if not said:
            return hits
        found = by_chunk([*hits, *said, *strategy(_only(query, PAGE))])
        return sorted(found, key=lambda hit: (-hit.score, hit.chunk.id))

    return search


def by_kind(pages: Fuse, messages: Fuse) -> Fuse:
    """A fusion that gives pages the scores of one fusion and messages those of another."""

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        first = pages(rankings)
        if not any(is_message(hit.chunk) for hit in first):
            return first
        kept = [hit for hit in first if not is_message(hit.chunk)]
        said = [hit for hit in messages(rankings) if is_message(hit.chunk)]
        return sorted([*kept, *said], key=lambda hit: (-hit.score, hit.chunk.id))

    return fuse


def _only(query: Query, kind: str) -> Query:
    return replace(query, where=replace(query.where, kinds=frozenset({kind})))
