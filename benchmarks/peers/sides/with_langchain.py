"""LangChain: an in-memory vector store, a BM25 retriever, and an ensemble of both."""

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore


class LookupEmbeddings(Embeddings):
    def __init__(self, lookup):
        self._lookup = lookup

    def embed_documents(self, texts):
        return self._lookup.embed(texts).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class Side:
    def __init__(self, folder, lookup):
        self._store = InMemoryVectorStore(LookupEmbeddings(lookup))

    def build(self, documents):
        self.add(documents)
        self._words = BM25Retriever.from_documents(self._make_documents(documents), k=10)
        self._dense = self._store.as_retriever(search_kwargs={"k": 10})
        self._hybrid = EnsembleRetriever(retrievers=[self._words, self._dense], weights=[0.5, 0.5])

    def search_dense(self, query):
        return [found.id for found in self._dense.invoke(query)]

    def search_words(self, query):
        return [found.id for found in self._words.invoke(query)]

    def search_hybrid(self, query):
        return [found.id for found in self._hybrid.invoke(query)][:10]

    def drop(self, ids):
        self._store.delete(ids=list(ids))

    def add(self, documents):
        self._store.add_documents(self._make_documents(documents))

    def _make_documents(self, documents):
        return [Document(id=id_, page_content=text) for id_, text in documents]
