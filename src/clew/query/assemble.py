"""The last stages in one function: hits are merged, fitted to the budget and written as the prompt text."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from clew.core.errors import NotFound
from clew.core.text import estimate_tokens
from clew.core.trace import step
from clew.core.types import Context, Document, DocumentRecord, Hit, MergedChunk, Query
from clew.query.budget import Render, fit
from clew.query.merge import merge


def assemble(
    query: Query,
    hits: Sequence[Hit],
    records: Mapping[str, DocumentRecord],
    *,
    read: Callable[[str], Document],
    tokens: int,
    render: Render,
) -> Context:
    """The Context that the hits make; where nothing is in it, the reason says why.

    A document that was dropped since it was found is left out.
    """

    @cache
    def text(doc_id: str) -> str:
        try:
            return read(doc_id).text
        except NotFound:
            return ""

    def join(some: Sequence[Hit]) -> list[MergedChunk]:
        return merge(some, records, text)

    there = [hit for hit in hits if hit.chunk.doc_id in records]
    with step("budget") as trace:
        kept, dropped = fit(there, tokens=tokens, join=join, render=render, count=estimate_tokens)
        trace.out = len(kept)
    shown = render(kept)
    held = dict.fromkeys(hit.chunk.doc_id for passage in kept for hit in passage.chunks)
    reason = f"nothing of what was found fits in {tokens} tokens" if there else "nothing in the collection matches"
    return Context(
        query=query,
        passages=tuple(kept),
        text=shown,
        tokens=estimate_tokens(shown),
        documents=tuple(records[doc_id] for doc_id in held),
        dropped=tuple(dropped),
        reason="" if kept else reason,
    )
