"""A toolset for pydantic-ai: `pip install 'clew[pydantic-ai]'`.

agent = Agent("openai:gpt-4o", toolsets=[make_toolset(engine)])
"""

import asyncio
from typing import Any

from pydantic_ai import FunctionToolset

from clew.core.filter import EVERYTHING, Filter
from clew.core.types import Hit
from clew.engine import Engine
from clew.integrations.hits import make_metadata

MAX_K = 50
MAX_CHARS = 50_000


def make_toolset(
    engine: Engine, *, k: int = 5, strategy: str | None = None, where: Filter = EVERYTHING
) -> FunctionToolset[Any]:
    """The tools of a collection for an agent: search, context and read, within a filter."""
    seen = engine.within(where)

    async def search(query: str, k: int = k) -> list[dict[str, Any]]:
        """Search the collection; each result has its text, its relevance from 0 to 1 and its citation."""
        hits = await asyncio.to_thread(seen.search, query, k=min(max(k, 1), MAX_K), strategy=strategy)
        return [_make_result(hit, rank) for rank, hit in enumerate(hits, 1)]

    async def context(query: str, tokens: int = 2000) -> str:
        """Passages for a question within a token budget, numbered, each with its source."""
        found = await asyncio.to_thread(seen.context, query, tokens=min(max(tokens, 100), MAX_CHARS), strategy=strategy)
        return found.text or f"nothing found: {found.reason}"

    async def read_document(document: str, start: int = 0) -> str:
        """The text of a document by its id or uri, from a position on."""
        found = await asyncio.to_thread(seen.read, document)
        return found.text[max(start, 0) : max(start, 0) + MAX_CHARS]

    return FunctionToolset([search, context, read_document])


def _make_result(hit: Hit, rank: int) -> dict[str, Any]:
    return {"text": hit.chunk.text, **make_metadata(hit, rank=rank)}
