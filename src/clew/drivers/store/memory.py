"""The store that lasts as long as the program: the embedded store with nothing on disk."""

from clew.drivers.store.embedded import EmbeddedStore


class MemoryStore:
    """One collection in memory."""

    def __init__(self, *, embedder: str, dim: int) -> None:
        store = EmbeddedStore(None, embedder=embedder, dim=dim)
        self.put, self.append, self.summarise, self.drop = store.put, store.append, store.summarise, store.drop
        self.document, self.documents, self.chunks = store.document, store.documents, store.chunks
        self.vectors, self.nearest, self.matching = store.vectors, store.nearest, store.matching
        self.nearest_documents, self.facts = store.nearest_documents, store.facts
        self.flush, self.close = store.flush, store.close
