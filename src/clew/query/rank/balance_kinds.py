"""Balance of pages and messages in one ranking, so that neither kind crowds out the other.

Each kind is also searched by itself, because all the hits of a ranking could be messages where there are many of them.
The scores of both are then normalised together, so that a message of .8 and a page of .8 are equally far above the
other hits of the query; only the weights of meaning and words differ. Normalising each kind by itself was worse: it
puts the best message beside the best page even where only one of them answers.
"""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.filter import Filter
from clew.core.protocols import Fuse, Strategy
from clew.core.thread import THREAD_KIND
from clew.core.types import Hit, Query
from clew.query.rank.dedupe import dedupe_chunks
from clew.query.rank.thread_smoothing import is_message_chunk

PAGE = "page"


def search_each_kind(strategy: Strategy) -> Strategy:
    """A strategy that finds `query.depth` chunks of any kind and, where there may be more, as many of each kind."""

    def search(query: Query) -> list[Hit]:
        hits = strategy(query)
        if query.where.kinds is not None or len(hits) < query.depth:  # it names its kinds, or this is all there is
            return hits
        messages = strategy(_restrict_to_kind(query, THREAD_KIND))
        if not messages:
            return hits
        found = dedupe_chunks([*hits, *messages, *strategy(_restrict_to_kind(query, PAGE))])
        return sorted(found, key=lambda hit: (-hit.score, hit.chunk.id))

    return search


def fuse_by_kind(pages: Fuse, messages: Fuse) -> Fuse:
    """A fusion that scores pages by one fusion and messages by another."""

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        fused = pages(rankings)
        page_hits = [hit for hit in fused if not is_message_chunk(hit.chunk)]
        if len(page_hits) == len(fused):
            return fused
        message_hits = [hit for hit in messages(rankings) if is_message_chunk(hit.chunk)]
        return sorted([*page_hits, *message_hits], key=lambda hit: (-hit.score, hit.chunk.id))

    return fuse


def _restrict_to_kind(query: Query, kind: str) -> Query:
    return replace(query, where=query.where & Filter(kinds=frozenset({kind})))
