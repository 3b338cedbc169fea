"""A retriever for LlamaIndex: `pip install 'clew[llama-index]'`.

retriever = ClewRetriever(engine, k=5)
nodes = retriever.retrieve("who rotates the keys?")
"""

import asyncio
import math

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from clew.core.filter import EVERYTHING, Filter
from clew.core.types import Hit
from clew.engine import Engine
from clew.integrations.hits import make_metadata


class ClewRetriever(BaseRetriever):
    """The hits of a collection as LlamaIndex's nodes; the score of a node is its relevance."""

    def __init__(
        self, engine: Engine, *, k: int | None = None, strategy: str | None = None, where: Filter = EVERYTHING
    ) -> None:
        self._engine = engine
        self._k = k
        self._strategy = strategy
        self._where = where
        super().__init__()

    def within(self, where: Filter) -> "ClewRetriever":
        """A retriever that sees what the filter admits, of what this one sees."""
        return ClewRetriever(self._engine, k=self._k, strategy=self._strategy, where=self._where & where)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._engine.search(query_bundle.query_str, k=self._k, strategy=self._strategy, where=self._where)
        return [_make_node(hit, rank) for rank, hit in enumerate(hits, 1)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _make_node(hit: Hit, rank: int) -> NodeWithScore:
    node = TextNode(
        id_=hit.chunk.id,
        text=hit.chunk.text,
        metadata=make_metadata(hit, rank=rank),
        start_char_idx=hit.chunk.start,
        end_char_idx=hit.chunk.end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.document.id)},
    )
    return NodeWithScore(node=node, score=hit.score if math.isnan(hit.relevance) else hit.relevance)
