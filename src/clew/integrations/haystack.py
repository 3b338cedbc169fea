"""A component for Haystack: `pip install 'clew[haystack]'`.

pipeline.add_component("retriever", ClewRetriever(engine, k=5))
"""

import asyncio
from typing import Any

from haystack import Document, component

from clew.core.filter import EVERYTHING, Filter
from clew.integrations.hits import Searchable, find_chunks


@component
class ClewRetriever:
    """A component that returns hits as Haystack documents; the score of a document is its relevance."""

    def __init__(
        self, engine: Searchable, *, k: int | None = None, strategy: str | None = None, where: Filter = EVERYTHING
    ) -> None:
        self._engine = engine
        self._k = k
        self._strategy = strategy
        self._where = where

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None, where: Filter | None = None) -> dict[str, Any]:
        """Find the chunks for a query as documents, best first; `where` narrows the component's filter."""
        chosen = self._where if where is None else self._where & where
        found = find_chunks(self._engine, query, k=top_k or self._k, strategy=self._strategy, where=chosen)
        return {
            "documents": [
                Document(id=each.id, content=each.text, meta=each.metadata, score=each.score) for each in found
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, top_k: int | None = None, where: Filter | None = None) -> dict[str, Any]:
        """Run in a thread."""
        found: dict[str, Any] = await asyncio.to_thread(self.run, query, top_k, where)
        return found
