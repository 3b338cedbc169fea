"""Assembly of a Context: hits are expanded, merged into passages, fitted to the token budget and rendered.

Expansion adds the neighbouring chunks of hits, or the rest of sections that were mostly found. A neighbour is under the
headings of its hit and ranks by a share of the hit's score. The rest of a section, and the reply to a message that
asks, fill the room that all hits leave. An expansion is a Hit with the score of the hit it came from, under "neighbour"
or "section" in `scores`; it was not compared with the query, so its similarity and relevance are nan.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from heapq import heappop, heappush
from itertools import groupby

from clew.core.cite import Citation, CitationCheck, Context, DroppedPassage, MergedChunk, check_citation, hash_quote
from clew.core.errors import NotFound
from clew.core.settings import DEFAULTS, ContextConfig, Settings
from clew.core.small_talk import is_question, is_small_talk
from clew.core.suggest import format_count
from clew.core.tables import find_table_header, is_table_row
from clew.core.text import estimate_tokens
from clew.core.thread import THREAD_KIND
from clew.core.time import find_second, get_times
from clew.core.trace import step
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Query
from clew.query.context.budget import DUPLICATE, GONE, Candidate, Count, Expand, TokenBudget, expand_nothing
from clew.query.context.format.formatter import wrap_context
from clew.query.context.format.renderers import Renderer, RenderInput
from clew.query.context.merge import as_merged_chunk, merge_hits
from clew.query.rank.calibrate import estimate_answer_chances, get_part

IRRELEVANT = "relevance"  # the reason of a hit that is not relevant enough


def split_by_relevance(
    hits: Sequence[Hit], config: ContextConfig, find_anywhere: Callable[[], Sequence[Hit]] | None = None
) -> tuple[list[Hit], list[Hit]]:
    """Split the hits by relevance into shown and left-out hits.

    If all hits of a query together are unlikely to answer it, all are left out; a conversation has several queries.

    find_anywhere: A search without the filter: whether a question has an answer does not depend on a filter.
    """
    answered = _list_answered(hits, config)
    if find_anywhere is not None and any(get_part(hit) not in answered for hit in hits):
        answered |= _list_answered(find_anywhere(), config)
    shown = [hit for hit in hits if get_part(hit) in answered and hit.relevance >= config.min_relevance]
    chosen = {id(hit) for hit in shown}
    return shown, [hit for hit in hits if id(hit) not in chosen]


def _list_answered(hits: Sequence[Hit], config: ContextConfig) -> set[float]:
    """Return the numbers of the queries that the hits are likely enough to answer."""
    return {part for part, chance in estimate_answer_chances(hits).items() if chance >= config.min_chance}


def note_irrelevant_hits(context: Context, left_out: Sequence[Hit], count: Count, config: ContextConfig) -> Context:
    """Return the context with the left-out hits listed as dropped, and a reason if nothing else was found."""
    dropped = [DroppedPassage(as_merged_chunk(hit), IRRELEVANT, count(hit.chunk.text)) for hit in left_out]
    nothing_else = not context.passages and not context.dropped
    reason = explain_floor(left_out, config) if nothing_else else context.reason
    return replace(context, dropped=(*context.dropped, *dropped), reason=reason)


def explain_floor(left_out: Sequence[Hit], config: ContextConfig) -> str:
    """Explain why nothing is shown although something was found."""
    chance = max(estimate_answer_chances(left_out).values(), default=0.0)
    if chance < config.min_chance:
        return (
            f"nothing relevant was found: the chance that any of {len(left_out)} hits answers is {chance:.2f}, below "
            f"context.min_chance = {config.min_chance}"
        )
    return f"nothing relevant was found: no hit reaches context.min_relevance = {config.min_relevance}"


Read = Callable[[str], Document]


def cite_passages(passages: Sequence[MergedChunk], records: Mapping[str, DocumentRecord]) -> tuple[Citation, ...]:
    """Return one citation per chunk of the passages, in order; the copies of a passage follow it."""
    return tuple(
        make_citation(hit.chunk, records[hit.chunk.doc_id], hit.chunk.start, hit.chunk.text)
        for passage in passages
        for hit in (*passage.chunks, *passage.copies)
        if hit.chunk.doc_id in records
    )


def make_citation(chunk: Chunk, record: DocumentRecord, start: int, quote: str) -> Citation:
    """Make the citation of a quote that begins at a position of the document, with the metadata of its chunk."""
    return Citation(
        document=record.id,
        version=record.hash,
        start=start,
        end=start + len(quote),
        hash=hash_quote(quote),
        quote=quote,
        title=record.title,
        uri=record.uri,
        page=chunk.meta.get("page"),
        message=str(chunk.meta.get("message", "")),
        author=str(chunk.meta.get("author", "")),
        at=chunk.at,
        section=chunk.headings,
        line=_find_line(chunk, start),
        second=find_second(get_times(chunk.meta), start - chunk.start),
    )


def _find_line(chunk: Chunk, start: int) -> int | None:
    """Find the line of the file at a position of the chunk; None if the chunk has no line numbers."""
    first = chunk.meta.get("line")
    if not isinstance(first, int):
        return None
    return first + chunk.text.count("\n", 0, max(0, start - chunk.start))


def check_citations(citations: Iterable[Citation], read: Read) -> Iterator[CitationCheck]:
    """Check whether each quote is still in its document, has moved, has changed or is gone."""
    last: tuple[str, str | None] = ("", None)
    for citation in citations:
        if last[0] != citation.document:
            last = (citation.document, _read_document_text(citation.document, read))
        yield check_citation(citation, last[1])


def _read_document_text(doc_id: str, read: Read) -> str | None:
    try:
        return read(doc_id).text
    except NotFound:
        return None


ReadChunks = Callable[[str], Sequence[Chunk]]  # the chunks of a document in order, or NotFound
NEIGHBOUR, SECTION = "neighbour", "section"  # the score names of expansions
NO_NUMBERS: Mapping[str, int] = {}
NO_MATCH = "nothing in the collection matches the query"
NEIGHBOUR_WORTH = 0.8  # of its hit's score: ranks it before hits that score much less (`make study ARGS=contexts`)
SECTION_SHARE = 0.5  # of a section's text that must be found before the rest is added
MIN_COPY_CHARS = 40  # a shorter text ("None.", "See above.") may mean another thing in another document
Copies = Mapping[tuple[str, int], Sequence[Hit]]  # by id and end of a chunk, so that a cut chunk has none


def cache_chunk_reads(chunks: ReadChunks) -> ReadChunks:
    """Cache a chunk reader by document; a document that no longer exists has no chunks."""

    @cache
    def read_chunks(doc_id: str) -> Sequence[Chunk]:
        try:
            return chunks(doc_id)
        except NotFound:
            return ()

    return read_chunks


def add_neighbours(hits: Sequence[Hit], chunks: ReadChunks, doc_ids: Container[str]) -> list[Candidate]:
    """Add the neighbours of hits in the given documents, ranked by a share of their hit's score.

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
        share = hit.score * NEIGHBOUR_WORTH if hit.score > 0 else hit.score / NEIGHBOUR_WORTH
        for place, index in enumerate((chunk.index + 1, chunk.index - 1)):
            if not 0 <= index < chunk.total:
                continue
            known = found.get((chunk.doc_id, index))
            name = known.chunk.id if known else f"{index} {chunk.doc_id}"
            if name not in candidates:
                candidate = known or partial(_read_neighbour, hit, index, chunks)
                heappush(waiting, (-share, 2 * rank + place, name, candidate))
    while waiting:
        candidates.setdefault(*heappop(waiting)[2:])
    return list(candidates.values())


def complete_sections(chunks: ReadChunks) -> Expand:
    """Make an expansion that adds the missing chunks of sections of which the hits hold at least half."""

    def expand(hits: Sequence[Hit]) -> Iterator[Hit]:
        taken = {hit.chunk.id for hit in hits}
        for hit in hits:
            if hit.chunk.total < 2:
                continue
            members = _find_section_chunks(chunks(hit.chunk.doc_id), hit.chunk)
            found = sum(len(each.text) for each in members if each.id in taken)
            if found >= SECTION_SHARE * sum(len(each.text) for each in members):
                for each in members:
                    if each.id not in taken:
                        taken.add(each.id)
                        yield Hit(each, hit.document, hit.score, {SECTION: hit.score})

    return expand


def add_replies(chunks: ReadChunks, doc_ids: Container[str]) -> Expand:
    """Make an expansion that adds to each message that asks its first reply with content, in the given documents."""

    def expand(hits: Sequence[Hit]) -> Iterator[Hit]:
        taken = {hit.chunk.id for hit in hits}
        for hit in hits:
            asked = hit.chunk.meta.get("message")
            if not asked or hit.chunk.doc_id not in doc_ids or not is_question(hit.chunk.text):
                continue
            replies = (each for each in chunks(hit.chunk.doc_id) if each.meta.get("reply_to") == asked)
            reply = next((each for each in replies if not is_small_talk(each.text)), None)
            if reply and reply.id not in taken:
                taken.add(reply.id)
                yield Hit(reply, hit.document, hit.score, {NEIGHBOUR: hit.score})

    return expand


def _read_neighbour(hit: Hit, index: int, chunks: ReadChunks) -> Hit | None:
    """Return the chunk at an index of the hit's document, if it is under the same headings as the hit."""
    siblings = chunks(hit.chunk.doc_id)
    if index >= len(siblings) or siblings[index].headings != hit.chunk.headings:
        return None
    return Hit(siblings[index], hit.document, hit.score, {NEIGHBOUR: hit.score})


def _find_section_chunks(chunks: Sequence[Chunk], chunk: Chunk) -> list[Chunk]:
    """Find the consecutive chunks around one that are under its headings."""
    for _, run in groupby(chunks, key=lambda each: each.headings):
        members = list(run)
        if members[-1].index >= chunk.index:
            return members if members[0].index <= chunk.index else []
    return []


# The parameters are those of `Engine.context` and the reads that it has open.
def build_context(
    query: Query,
    hits: Sequence[Hit],
    records: Mapping[str, DocumentRecord],
    *,
    read: Callable[[str], Document],
    chunks: ReadChunks,
    tokens: int,
    render: Renderer,
    settings: Settings = DEFAULTS,
    count: Count = estimate_tokens,
    numbers: Mapping[str, int] = NO_NUMBERS,
) -> Context:
    """Build the Context of the hits: expanded, merged, fitted to the token budget, rendered; an empty one has a reason.

    The order of the search is kept; only hits of equal score are sorted by position. A text that several documents
    share is shown once, for the best hit. The other hits are the `copies` of its passage, which names their sources;
    they are among the documents and citations of the context, and dropped as "duplicate". `numbers` are the numbers
    that documents already have.
    """
    config = settings.context
    usable, unusable = _separate_unusable_hits(hits, records)
    ranked, copies = _separate_copies(usable)
    ranks = {hit.chunk.id: rank for rank, hit in enumerate(ranked)}
    render_input = RenderInput(records, numbers, settings.formatter)
    read_text = _cache_text_reads(read)

    def join_hits(subset: Sequence[Hit]) -> list[MergedChunk]:
        merged = merge_hits(subset, settings.merger, text=read_text)
        ordered = _sort_passages(merged, ranks, by=config.order)
        return [_attach_table_header(_attach_copies(each, copies), read_text) for each in ordered]

    def write_passages(passages: Sequence[MergedChunk]) -> str:
        text = render.write(passages, render_input)
        return text if config.wrap == "none" else wrap_context(text, config.tag, config.wrap)

    with step("budget") as trace:
        budget = TokenBudget(tokens, join=join_hits, write=write_passages, count=count, max_chars=render.max_chars)
        candidates, expand = _choose_expansion(ranked, records, cache_chunk_reads(chunks), config)
        fitted = budget.fit_candidates(candidates, cut=config.cut, expand=expand)
        trace.out = len(fitted.passages)
    doc_ids_used = dict.fromkeys(
        hit.chunk.doc_id for passage in fitted.passages for hit in (*passage.chunks, *passage.copies)
    )
    duplicates = [(hit, DUPLICATE) for group in copies.values() for hit in group]
    reason = f"no hit fits in {format_count(tokens, 'token')}" if ranked else NO_MATCH
    return Context(
        query=query,
        passages=fitted.passages,
        text=fitted.text,
        tokens=fitted.tokens,
        documents=tuple(records[doc_id] for doc_id in doc_ids_used),
        dropped=tuple(
            DroppedPassage(as_merged_chunk(hit), reason, count(hit.chunk.text))
            for hit, reason in (*unusable, *duplicates, *fitted.dropped)
        ),
        reason="" if fitted.passages else reason,
    )


def _choose_expansion(
    hits: Sequence[Hit], records: Mapping[str, DocumentRecord], chunks: ReadChunks, config: ContextConfig
) -> tuple[Sequence[Candidate], Expand]:
    """Return the hits with their neighbours, and the expansion after them, by `context.grow`."""
    if config.grow == "section":
        return hits, complete_sections(chunks)
    kinds = {"neighbours": {each.kind for each in records.values()}, "threads": {THREAD_KIND}}.get(config.grow, ())
    doc_ids = {each.id for each in records.values() if each.kind in kinds}
    if not doc_ids:
        return hits, expand_nothing
    return add_neighbours(hits, chunks, doc_ids), add_replies(chunks, doc_ids)


def _cache_text_reads(read: Callable[[str], Document]) -> Callable[[str], str]:
    """Cache the texts of documents; a document that no longer exists has an empty text."""

    @cache
    def read_text(doc_id: str) -> str:
        try:
            return read(doc_id).text
        except NotFound:
            return ""

    return read_text


def _separate_unusable_hits(
    hits: Sequence[Hit], records: Mapping[str, DocumentRecord]
) -> tuple[list[Hit], list[tuple[Hit, str]]]:
    """Return the usable hits in order, and the unusable ones with reasons: duplicates and hits of dropped documents.

    Hits of equal score are sorted by document and position, so that the result does not depend on their order.
    """
    equal: defaultdict[float, list[Hit]] = defaultdict(list)
    for hit in hits:
        equal[hit.score].append(hit)
    queues = {
        score: iter(sorted(group, key=_position_key) if len(group) > 1 else group) for score, group in equal.items()
    }
    kept: dict[str, Hit] = {}
    unusable: list[tuple[Hit, str]] = []
    for given in hits:
        hit = next(queues[given.score])
        if hit.chunk.doc_id not in records:
            unusable.append((hit, GONE))
        elif hit.chunk.id in kept:
            unusable.append((hit, DUPLICATE))
        else:
            kept[hit.chunk.id] = hit
    return list(kept.values()), unusable


def _separate_copies(hits: Sequence[Hit]) -> tuple[list[Hit], Copies]:
    """Separate the hits from their copies: hits of another document with the same text, white space aside.

    A message is never a copy: it has an author and a time of its own.
    """
    unique: list[Hit] = []
    first: dict[str, Hit] = {}
    copies: defaultdict[tuple[str, int], list[Hit]] = defaultdict(list)
    for hit in hits:
        text = " ".join(hit.chunk.text.split())
        can_copy = len(text) >= MIN_COPY_CHARS and hit.document.kind != THREAD_KIND
        known = first.setdefault(text, hit).chunk if can_copy else hit.chunk
        if known.doc_id == hit.chunk.doc_id:
            unique.append(hit)
        else:
            copies[known.id, known.end].append(hit)
    return unique, copies


def _attach_copies(passage: MergedChunk, copies: Copies) -> MergedChunk:
    found = tuple(copy for hit in passage.chunks for copy in copies.get((hit.chunk.id, hit.chunk.end), ()))
    return replace(passage, copies=found) if found else passage


def _attach_table_header(passage: MergedChunk, read_text: Callable[[str], str]) -> MergedChunk:
    """Add the header of a table to a passage that begins inside the table."""
    if not passage.spans or passage.messages or not is_table_row(passage.text.lstrip("\n").partition("\n")[0]):
        return passage
    header = find_table_header(read_text(passage.chunks[0].chunk.doc_id), passage.spans[0][0])
    return replace(passage, table_header=header) if header else passage


def _sort_passages(passages: list[MergedChunk], ranks: Mapping[str, int], *, by: str) -> list[MergedChunk]:
    """Return the passages best first, or by document in reading order; expansions come after hits."""
    best = [min(ranks.get(hit.chunk.id, len(ranks)) for hit in passage.chunks) for passage in passages]
    documents: dict[str, int] = {}
    for passage, rank in zip(passages, best, strict=True):
        doc_id = passage.chunks[0].chunk.doc_id
        documents[doc_id] = min(rank, documents.get(doc_id, rank))

    def sort_key(at: int) -> tuple[int, int, int]:
        first = passages[at].chunks[0].chunk
        if by == "score":
            return best[at], first.start, first.index
        return documents[first.doc_id], first.start, first.index

    return [passages[at] for at in sorted(range(len(passages)), key=sort_key)]


def _position_key(hit: Hit) -> tuple[str, int, int, str]:
    return hit.chunk.doc_id, hit.chunk.start, hit.chunk.end, hit.chunk.id
