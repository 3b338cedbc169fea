"""The last stages in one function: hits are merged, fitted to the budget and written as the prompt text."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from clew.core.errors import NotFound
from clew.core.settings import DEFAULTS, Settings
from clew.core.text import estimate_tokens
from clew.core.thread import KIND
from clew.core.trace import step
from clew.core.types import Context, Document, DocumentRecord, Dropped, Hit, MergedChunk, Query
from clew.query.context.budget import DUPLICATE, GONE, Count, Offer, TokenBudget, nothing_more
from clew.query.context.format import Renderer, Sheet, wrapped
from clew.query.context.merge import alone, merge
from clew.query.context.neighbours import Chunks, known, rest_of_sections, with_neighbours

NO_NUMBERS: Mapping[str, int] = {}


def assemble(
    query: Query,
    hits: Sequence[Hit],
    records: Mapping[str, DocumentRecord],
    *,
    read: Callable[[str], Document],
    chunks: Chunks,
    tokens: int,
    render: Renderer,
    settings: Settings = DEFAULTS,
    count: Count = estimate_tokens,
    numbers: Mapping[str, int] = NO_NUMBERS,
) -> Context:
    """The Context that the hits make; where nothing is in it, the reason says why.

    The order of the hits is that of their worth: the search made it, and it is kept; only among equal scores it does
    not matter. `numbers` are those that documents have already.
    """
    config = settings.context
    ranked, lost = _sorted_out(hits, records)
    ranks = {hit.chunk.id: rank for rank, hit in enumerate(ranked)}
    sheet = Sheet(records, numbers, settings.formatter)

    @cache
    def text(doc_id: str) -> str:
        try:
            return read(doc_id).text
        except NotFound:
            return ""

    def join(some: Sequence[Hit]) -> list[MergedChunk]:
        return _ordered(merge(some, settings.merger, records=records, text=text), ranks, by=config.order)

    def write(passages: Sequence[MergedChunk]) -> str:
        shown = render.write(passages, sheet)
        return shown if config.wrap == "none" else wrapped(shown, config.tag, config.wrap)

    of = known(chunks)
    with step("budget") as trace:
        budget = TokenBudget(tokens, join=join, write=write, count=count, shows=render.shows)
        offers: Sequence[Offer] = ranked
        if config.grow in ("threads", "neighbours"):
            among = {each.id for each in records.values() if config.grow == "neighbours" or each.kind == KIND}
            offers = with_neighbours(ranked, of, worth=config.neighbour_worth, among=among) if among else ranked
        more = rest_of_sections(of, share=config.section_share) if config.grow == "section" else nothing_more
        fitted = budget.fit(offers, cut=config.cut, more=more)
        trace.out = len(fitted.passages)
    held = dict.fromkeys(hit.chunk.doc_id for passage in fitted.passages for hit in passage.chunks)
    reason = f"nothing of what was found fits in {tokens} tokens" if ranked else "nothing in the collection matches"
    return Context(
        query=query,
        passages=fitted.passages,
        text=fitted.text,
        tokens=fitted.tokens,
        documents=tuple(records[doc_id] for doc_id in held),
        dropped=tuple(
            Dropped(alone(hit, _source(hit, records)), why, count(hit.chunk.text))
            for hit, why in (*lost, *fitted.dropped)
        ),
        reason="" if fitted.passages else reason,
    )


def _sorted_out(hits: Sequence[Hit], records: Mapping[str, DocumentRecord]) -> tuple[list[Hit], list[tuple[Hit, str]]]:
    """The hits in their order, each chunk once; those that came again, and those whose document is gone.

    Hits of one score stand in their places by document and position, so it does not matter how they were given.
    """
    equal: defaultdict[float, list[Hit]] = defaultdict(list)
    for hit in hits:
        equal[hit.score].append(hit)
    queues = {score: iter(sorted(some, key=_by_place) if len(some) > 1 else some) for score, some in equal.items()}
    kept: dict[str, Hit] = {}
    lost: list[tuple[Hit, str]] = []
    for given in hits:
        hit = next(queues[given.score])
        if hit.chunk.doc_id not in records:
            lost.append((hit, GONE))
        elif hit.chunk.id in kept:
            lost.append((hit, DUPLICATE))
        else:
            kept[hit.chunk.id] = hit
    return list(kept.values()), lost


def _ordered(passages: list[MergedChunk], ranks: Mapping[str, int], *, by: str) -> list[MergedChunk]:
    """The passages best first, or document by document as one reads; what has grown is behind what was found."""
    best = [min(ranks.get(hit.chunk.id, len(ranks)) for hit in passage.chunks) for passage in passages]
    documents: dict[str, int] = {}
    for passage, rank in zip(passages, best, strict=True):
        doc_id = passage.chunks[0].chunk.doc_id
        documents[doc_id] = min(rank, documents.get(doc_id, rank))

    def place(at: int) -> tuple[int, int, int]:
        first = passages[at].chunks[0].chunk
        if by == "score":
            return best[at], first.start, first.index
        return documents[first.doc_id], first.start, first.index

    return [passages[at] for at in sorted(range(len(passages)), key=place)]


def _by_place(hit: Hit) -> tuple[str, int, int, str]:
    return hit.chunk.doc_id, hit.chunk.start, hit.chunk.end, hit.chunk.id


def _source(hit: Hit, records: Mapping[str, DocumentRecord]) -> str:
    record = records.get(hit.chunk.doc_id)
    return (record.uri or record.title or record.id) if record else hit.chunk.doc_id
