"""A retriever for LlamaIndex: `pip install 'clew[llama-index]'`.

retriever = ClewRetriever(engine, k=5)
nodes = retriever.retrieve("what if a key is known to others?")
"""

import asyncio

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from clew.core.filter import EVERYTHING, Filter
from clew.integrations.hits import FoundChunk, Searchable, find_chunks


class ClewRetriever(BaseRetriever):
    """A retriever that returns hits as LlamaIndex nodes; the score of a node is its relevance."""

    def __init__(
        self, engine: Searchable, *, k: int | None = None, strategy: str | None = None, where: Filter = EVERYTHING
    ) -> None:
        self._engine = engine
        self._k = k
        self._strategy = strategy
        self._where = where
        super().__init__()

    def within(self, where: Filter) -> "ClewRetriever":
        """Return a retriever limited to the filter, in addition to this one's filter."""
        return ClewRetriever(self._engine, k=self._k, strategy=self._strategy, where=self._where & where)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = query_bundle.query_str
        found = find_chunks(self._engine, asked, k=self._k, strategy=self._strategy, where=self._where)
        return [_make_node(each) for each in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _make_node(found: FoundChunk) -> NodeWithScore:
    node = TextNode(
        id_=found.id,
        text=found.text,
        metadata=found.metadata,
        start_char_idx=found.start,
        end_char_idx=found.end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=found.document)},
    )
    return NodeWithScore(node=node, score=found.score)
