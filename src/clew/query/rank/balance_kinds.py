"""Balance of pages and messages in one ranking, so that neither kind crowds out the other.

Each kind is also searched by itself, because all the hits of a ranking could be messages where there are many of them.
The scores of both are then normalised together, so that a message of .8 and a page of .8 are equally far above the
other hits of the query; only the weights of meaning and words differ. Normalising each kind by itself was worse: it
puts the best message beside the best page even where only one of them answers.
"""

from collections.abc import Sequence

from clew.core.protocols import Fuse
from clew.core.types import Hit
from clew.query.rank.thread_smoothing import is_message_chunk


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
