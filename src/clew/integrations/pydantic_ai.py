"""A toolset for pydantic-ai: `pip install 'clew[pydantic-ai]'`.

agent = Agent("openai:gpt-4o", toolsets=[make_toolset(engine)])
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic_ai import FunctionToolset, ModelRetry

from clew.core.errors import NotFound, SettingsError, SourceError
from clew.core.filter import EVERYTHING, Filter
from clew.engine import Engine
from clew.integrations.hits import find_chunks

T = TypeVar("T")
MAX_K = 50
MAX_CHARS = 50_000


def make_toolset(
    engine: Any, *, k: int = 5, strategy: str | None = None, where: Filter = EVERYTHING
) -> FunctionToolset[Any]:
    """Make the tools of a collection for an agent (search, context, read_document), within a filter.

    `engine` is an Engine, or a Client whose key has the filter. A failed call, as for an unknown document, is reported
    to the model (ModelRetry), which may call again.
    """
    if isinstance(engine, Engine):
        seen: Any = engine.within(where)
    elif where == EVERYTHING:
        seen = engine
    else:
        raise SettingsError("a toolset over a Client takes no filter; give the key of the client the filter")

    async def search(query: str, k: int = k) -> list[dict[str, Any]]:
        """Search the collection; each result has its text, its relevance from 0 to 1 and its citation."""
        count = min(max(k, 1), MAX_K)
        found = await _call(lambda: find_chunks(seen, query, k=count, strategy=strategy, where=EVERYTHING))
        return [{"text": each.text, **each.metadata} for each in found]

    async def context(query: str, tokens: int = 2000) -> str:
        """Return numbered passages for a question within a token budget, each with its source."""
        budget = min(max(tokens, 100), MAX_CHARS)
        found = await _call(lambda: seen.context(query, tokens=budget, strategy=strategy))
        return _read(found, "text") or f"nothing found: {_read(found, 'reason')}"

    async def read_document(document: str, start: int = 0) -> str:
        """Return up to 50,000 characters of a document, by its id or uri, beginning at the position `start`."""
        text = _read(await _call(lambda: seen.read(document)), "text")
        return text[max(start, 0) : max(start, 0) + MAX_CHARS]

    return FunctionToolset([search, context, read_document])


async def _call(verb: Callable[[], T]) -> T:
    """Run a verb in a thread; raise ModelRetry for errors that the model can correct."""
    try:
        return await asyncio.to_thread(verb)
    except (NotFound, SettingsError, SourceError) as error:
        raise ModelRetry(str(error)) from error


def _read(found: Any, name: str) -> str:
    """Read a field of a reply: a value of an Engine, or the JSON of a Client."""
    return str(found[name] if isinstance(found, dict) else getattr(found, name))
