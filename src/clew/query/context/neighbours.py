"""Context expansion: the neighbouring chunks of hits, or the rest of a section of which most was found.

It stands between the ranking and the budget. A neighbour is under the same headings and ranks by a share of its hit's
score: before hits that score less, after all others. The rest of a section fills the room that all hits leave. An
expansion is a Hit with the score of the one it came from, and `scores` names it "neighbour" or "section"; it was not
compared with the query, so its similarity and relevance are nan.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache, partial
from heapq import heappop, heappush
from itertools import groupby

from clew.core.errors import NotFound
from clew.core.types import Chunk, Hit
from clew.query.context.budget import Candidate, Expand

ReadChunks = Callable[[str], Sequence[Chunk]]  # the chunks of a document in order, or NotFound
NEIGHBOUR, SECTION = "neighbour", "section"  # the score names of expansions


def cache_chunk_reads(chunks: ReadChunks) -> ReadChunks:
    """Caches a chunk reader by document; a document that no longer exists has no chunks."""

    @cache
    def read_chunks(doc_id: str) -> Sequence[Chunk]:
        try:
            return chunks(doc_id)
        except NotFound:
            return ()

    return read_chunks


def add_neighbours(
    hits: Sequence[Hit], chunks: ReadChunks, *, worth: float, doc_ids: Container[str]
) -> list[Candidate]:
    """The hits, and the neighbours of hits in the given documents, by score; a neighbour has `worth` times its hit's.

    A neighbour that is a hit too takes the better of both ranks; any other is read only when its turn comes.
    """
    found = {(hit.chunk.doc_id, hit.chunk.index): hit for hit in hits}
    waiting: list[tuple[float, int, str, Candidate]] = []
    candidates: dict[str, Candidate] = {}  # by chunk id for hits, by position for neighbours
    for rank, hit in enumerate(hits):
        while waiting and -waiting[0][0] > hit.score:
            candidates.setdefault(*heappop(waiting)[2:])
        chunk = hit.chunk
        candidates.setdefault(chunk.id, hit)
        if chunk.doc_id not in doc_ids:
            continue
        share = hit.score * worth if hit.score > 0 or not worth else hit.score / worth
        for step, index in enumerate((chunk.index + 1, chunk.index - 1)):
            if not 0 <= index < chunk.total:
                continue
            known = found.get((chunk.doc_id, index))
            name = known.chunk.id if known else f"{index} {chunk.doc_id}"
            if name not in candidates:
                candidate = known or partial(_read_neighbour, hit, index, chunks)
                heappush(waiting, (-share, 2 * rank + step, name, candidate))
    while waiting:
        candidates.setdefault(*heappop(waiting)[2:])
    return list(candidates.values())


def complete_sections(chunks: ReadChunks, *, share: float) -> Expand:
    """An expansion by the missing chunks of each section of which the hits hold at least that share of the text."""

    def expand(hits: Sequence[Hit]) -> Iterator[Hit]:
        taken = {hit.chunk.id for hit in hits}
        for hit in hits:
            if hit.chunk.total < 2:
                continue
            members = _find_section_chunks(chunks(hit.chunk.doc_id), hit.chunk)
            found = sum(len(each.text) for each in members if each.id in taken)
            if found >= share * sum(len(each.text) for each in members):
                for each in members:
                    if each.id not in taken:
                        taken.add(each.id)
                        yield Hit(each, hit.document, hit.score, {SECTION: hit.score})

    return expand


def _read_neighbour(hit: Hit, index: int, chunks: ReadChunks) -> Hit | None:
    """The chunk at an index of the hit's document, if it is under the same headings as the hit."""
    siblings = chunks(hit.chunk.doc_id)
    if index >= len(siblings) or siblings[index].headings != hit.chunk.headings:
        return None
    return Hit(siblings[index], hit.document, hit.score, {NEIGHBOUR: hit.score})


def _find_section_chunks(chunks: Sequence[Chunk], chunk: Chunk) -> list[Chunk]:
    """The consecutive chunks around one that are under its headings."""
    for _, run in groupby(chunks, key=lambda each: each.headings):
        members = list(run)
        if members[-1].index >= chunk.index:
            return members if members[0].index <= chunk.index else []
    return []
