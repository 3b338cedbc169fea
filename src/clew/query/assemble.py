"""The last stages in one function: hits are merged, fitted to the budget and written as the prompt text."""

from collections.abc import Mapping, Sequence

from clew.core.text import estimate_tokens
from clew.core.trace import step
from clew.core.types import Context, DocumentRecord, Hit, Query
from clew.query.budget import Render, fit
from clew.query.merge import Read, merge


def assemble(
    query: Query, hits: Sequence[Hit], records: Mapping[str, DocumentRecord], *, read: Read, tokens: int, render: Render
) -> Context:
    """The Context that the hits make; where nothing is in it, the reason says why."""
    with step("merge") as trace:
        passages = merge(list(hits), records, read)
        trace.out = len(passages)
    with step("budget") as trace:
        kept, dropped = fit(passages, tokens=tokens, render=render, count=estimate_tokens)
        trace.out = len(kept)
    text = render(kept)
    held = dict.fromkeys(hit.chunk.doc_id for passage in kept for hit in passage.chunks)
    reason = f"nothing of what was found fits in {tokens} tokens" if hits else "nothing in the collection matches"
    return Context(
        query=query,
        passages=tuple(kept),
        text=text,
        tokens=estimate_tokens(text),
        documents=tuple(records[doc_id] for doc_id in held),
        dropped=tuple(dropped),
        reason="" if kept else reason,
    )
