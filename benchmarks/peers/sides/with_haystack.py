"""Haystack: an in-memory document store, its two retrievers, and a pipeline that joins them."""

from haystack import Document, Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore


@component
class LookupTextEmbedder:
    def __init__(self, lookup):
        self._lookup = lookup

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": self._lookup.embed([text])[0].tolist()}


class Side:
    def __init__(self, folder, lookup):
        self._lookup = lookup
        self._store = InMemoryDocumentStore(embedding_similarity_function="cosine")

    def build(self, documents):
        self.add(documents)
        self._words = InMemoryBM25Retriever(document_store=self._store)
        self._dense = Pipeline()
        self._dense.add_component("embedder", LookupTextEmbedder(self._lookup))
        self._dense.add_component("dense", InMemoryEmbeddingRetriever(document_store=self._store))
        self._dense.connect("embedder.embedding", "dense.query_embedding")
        self._hybrid = Pipeline()
        self._hybrid.add_component("embedder", LookupTextEmbedder(self._lookup))
        self._hybrid.add_component("dense", InMemoryEmbeddingRetriever(document_store=self._store))
        self._hybrid.add_component("words", InMemoryBM25Retriever(document_store=self._store))
        self._hybrid.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=10))
        self._hybrid.connect("embedder.embedding", "dense.query_embedding")
        self._hybrid.connect("dense", "joiner")
        self._hybrid.connect("words", "joiner")

    def search_dense(self, query):
        found = self._dense.run({"embedder": {"text": query}})
        return [document.id for document in found["dense"]["documents"]]

    def search_words(self, query):
        return [document.id for document in self._words.run(query=query)["documents"]]

    def search_hybrid(self, query):
        found = self._hybrid.run({"embedder": {"text": query}, "words": {"query": query}})
        return [document.id for document in found["joiner"]["documents"]]

    def drop(self, ids):
        self._store.delete_documents(list(ids))

    def add(self, documents):
        vectors = self._lookup.embed([text for _, text in documents]).tolist()
        self._store.write_documents(
            [
                Document(id=id_, content=text, embedding=vector)
                for (id_, text), vector in zip(documents, vectors, strict=True)
            ]
        )
