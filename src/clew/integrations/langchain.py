"""A retriever for LangChain: `pip install 'clew[langchain]'`.

retriever = ClewRetriever(engine=engine, k=5)
documents = retriever.invoke("what if a key is known to others?")
"""

import asyncio
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from clew.core.filter import EVERYTHING, Filter
from clew.integrations.hits import find_chunks


class ClewRetriever(BaseRetriever):
    """A retriever that returns hits as LangChain documents; relevance, span and citation are in their metadata."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: Any  # an Engine or a Client
    k: int | None = None
    strategy: str | None = None
    where: Filter = EVERYTHING

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,  # noqa: ARG002
        where: Filter | None = None,
        k: int | None = None,
    ) -> list[Document]:
        chosen = self.where if where is None else self.where & where
        found = find_chunks(self.engine, query, k=k or self.k, strategy=self.strategy, where=chosen)
        return [Document(page_content=each.text, metadata=each.metadata, id=each.id) for each in found]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun | None = None,  # noqa: ARG002
        **options: Any,
    ) -> list[Document]:
        return await asyncio.to_thread(lambda: self._get_relevant_documents(query, **options))
