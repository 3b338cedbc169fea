"""What hits bring along where room is left: the chunks beside them, or the rest of a section most of which was found.

It stands between the budget's two rounds: all that was found has been tried before anything grows. What has grown is a
hit of its own with the score of the one it came from, and its scores say how it came.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby

from clew.core.errors import NotFound
from clew.core.types import Chunk, Hit
from clew.query.budget import More, nothing_more

Chunks = Callable[[str], Sequence[Chunk]]  # the chunks of a document in order, or NotFound
NEIGHBOUR, SECTION = "neighbour", "section"  # the names of the scores of what has grown


def growth(grow: str, chunks: Chunks, *, share: float) -> More:
    """The way to grow of that name; a document is read only where its chunks are asked for."""

    @cache
    def known(doc_id: str) -> Sequence[Chunk]:
        try:
            return chunks(doc_id)
        except NotFound:
            return ()

    def neighbours(hits: Sequence[Hit]) -> Iterator[Hit]:
        """The chunk after each hit, then the one before it."""
        taken = {hit.chunk.id for hit in hits}
        for hit in hits:
            if hit.chunk.total < 2:
                continue
            around = known(hit.chunk.doc_id)
            for place in (hit.chunk.index + 1, hit.chunk.index - 1):
                if 0 <= place < len(around) and around[place].id not in taken:
                    taken.add(around[place].id)
                    yield Hit(around[place], hit.score, {NEIGHBOUR: hit.score})

    def sections(hits: Sequence[Hit]) -> Iterator[Hit]:
        """The missing chunks of each section of which the hits hold the share."""
        taken = {hit.chunk.id for hit in hits}
        for hit in hits:
            if hit.chunk.total < 2:
                continue
            members = _section(known(hit.chunk.doc_id), hit.chunk)
            found = sum(len(each.text) for each in members if each.id in taken)
            if found >= share * sum(len(each.text) for each in members):
                for each in members:
                    if each.id not in taken:
                        taken.add(each.id)
                        yield Hit(each, hit.score, {SECTION: hit.score})

    return {"neighbours": neighbours, "section": sections}.get(grow, nothing_more)


def _section(chunks: Sequence[Chunk], chunk: Chunk) -> list[Chunk]:
    """The run of chunks around one that stand under its headings."""
    for _, run in groupby(chunks, key=lambda each: each.headings):
        members = list(run)
        if members[-1].index >= chunk.index:
            return members if members[0].index <= chunk.index else []
    return []
