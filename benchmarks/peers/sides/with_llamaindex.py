"""LlamaIndex: a VectorStoreIndex, a BM25 retriever over its docstore, and a fusion retriever over both."""

from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.retrievers.bm25 import BM25Retriever
from pydantic import PrivateAttr


class LookupEmbedding(BaseEmbedding):
    _lookup = PrivateAttr()

    def __init__(self, lookup):
        super().__init__(model_name="lookup", embed_batch_size=100)
        self._lookup = lookup

    def _get_text_embeddings(self, texts):
        return self._lookup.embed(texts).tolist()

    def _get_text_embedding(self, text):
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query):
        return self._get_text_embeddings([query])[0]

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


class Side:
    def __init__(self, folder, lookup):
        self._embedding = LookupEmbedding(lookup)

    def build(self, documents):
        nodes = SentenceSplitter().get_nodes_from_documents(self._make_documents(documents))
        docstore = SimpleDocumentStore()
        docstore.add_documents(nodes)
        context = StorageContext.from_defaults(docstore=docstore)
        self._index = VectorStoreIndex(nodes, storage_context=context, embed_model=self._embedding)
        self._dense = self._index.as_retriever(similarity_top_k=10)
        self._words = BM25Retriever.from_defaults(docstore=docstore, similarity_top_k=10)
        self._hybrid = QueryFusionRetriever(
            [self._dense, self._words],
            llm=MockLLM(),
            mode="reciprocal_rerank",
            similarity_top_k=10,
            num_queries=1,
            use_async=False,
        )

    def search_dense(self, query):
        return [found.node.ref_doc_id for found in self._dense.retrieve(query)]

    def search_words(self, query):
        return [found.node.ref_doc_id for found in self._words.retrieve(query)]

    def search_hybrid(self, query):
        return [found.node.ref_doc_id for found in self._hybrid.retrieve(query)]

    def drop(self, ids):
        for id_ in ids:
            self._index.delete_ref_doc(id_, delete_from_docstore=True)

    def add(self, documents):
        for document in self._make_documents(documents):
            self._index.insert(document)

    def _make_documents(self, documents):
        return [Document(id_=id_, text=text) for id_, text in documents]
