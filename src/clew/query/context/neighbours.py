"""What hits bring along: the chunks beside them, or the rest of a section most of which was found.

It stands between the ranking and the budget. A neighbour stands under the same headings and is worth a share of its
hit: it comes before hits that are worth less than that, and after all others. The rest of a section comes in the room
that all hits leave. What has grown is a hit of its own with the score of the one it came from, and its scores say how
it came.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache, partial
from heapq import heappop, heappush
from itertools import groupby

from clew.core.errors import NotFound
from clew.core.types import Chunk, Hit
from clew.query.context.budget import More, Offer

Chunks = Callable[[str], Sequence[Chunk]]  # the chunks of a document in order, or NotFound
NEIGHBOUR, SECTION = "neighbour", "section"  # the names of the scores of what has grown


def known(chunks: Chunks) -> Chunks:
    """The same, each document read once; none of a document that is there no more."""

    @cache
    def of(doc_id: str) -> Sequence[Chunk]:
        try:
            return chunks(doc_id)
        except NotFound:
            return ()

    return of


def with_neighbours(hits: Sequence[Hit], chunks: Chunks, *, worth: float, among: Container[str]) -> list[Offer]:
    """The hits, and the neighbours of those in some documents, in the order of what they are worth.

    A neighbour that was found too is worth more of the two; one that was not is read only when it is its turn.
    """
    found = {(hit.chunk.doc_id, hit.chunk.index): hit for hit in hits}
    waiting: list[tuple[float, int, str, Offer]] = []
    offers: dict[str, Offer] = {}  # by the id of what was found, or else the place
    for rank, hit in enumerate(hits):
        while waiting and -waiting[0][0] > hit.score:
            offers.setdefault(*heappop(waiting)[2:])
        chunk = hit.chunk
        offers.setdefault(chunk.id, hit)
        if chunk.doc_id not in among:
            continue
        share = hit.score * worth if hit.score > 0 or not worth else hit.score / worth
        for step, index in enumerate((chunk.index + 1, chunk.index - 1)):
            if not 0 <= index < chunk.total:
                continue
            beside = found.get((chunk.doc_id, index))
            name = beside.chunk.id if beside else f"{index} {chunk.doc_id}"
            if name not in offers:
                offer = beside or partial(_neighbour, hit, index, chunks)
                heappush(waiting, (-share, 2 * rank + step, name, offer))
    while waiting:
        offers.setdefault(*heappop(waiting)[2:])
    return list(offers.values())


def rest_of_sections(chunks: Chunks, *, share: float) -> More:
    """The missing chunks of each section of which the hits hold that share."""

    def more(hits: Sequence[Hit]) -> Iterator[Hit]:
        taken = {hit.chunk.id for hit in hits}
        for hit in hits:
            if hit.chunk.total < 2:
                continue
            members = _section(chunks(hit.chunk.doc_id), hit.chunk)
            found = sum(len(each.text) for each in members if each.id in taken)
            if found >= share * sum(len(each.text) for each in members):
                for each in members:
                    if each.id not in taken:
                        taken.add(each.id)
                        yield Hit(each, hit.score, {SECTION: hit.score})

    return more


def _neighbour(hit: Hit, place: int, chunks: Chunks) -> Hit | None:
    """The chunk in that place, if it stands under the same headings as the hit."""
    around = chunks(hit.chunk.doc_id)
    if place >= len(around) or around[place].headings != hit.chunk.headings:
        return None
    return Hit(around[place], hit.score, {NEIGHBOUR: hit.score})


def _section(chunks: Sequence[Chunk], chunk: Chunk) -> list[Chunk]:
    """The run of chunks around one that stand under its headings."""
    for _, run in groupby(chunks, key=lambda each: each.headings):
        members = list(run)
        if members[-1].index >= chunk.index:
            return members if members[0].index <= chunk.index else []
    return []
