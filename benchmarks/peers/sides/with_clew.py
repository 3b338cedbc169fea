"""Clew: an engine over a folder, with an embedder that looks vectors up."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.lookup import Lookup
from benchmarks.peers.worker import K, Text
from clew import Document, Engine
from clew.core.protocols import Role
from clew.core.types import Matrix


class LookupEmbedder:
    """The vectors of a lookup; every text counts as one token, so that a document is one chunk, as elsewhere."""

    name, max_tokens, min_similarity = "lookup", 512, 0.45

    def __init__(self, lookup: Lookup) -> None:
        self._lookup, self.dim = lookup, lookup.dim

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """The vector of each text."""
        return self._lookup.embed(texts)

    def count(self, texts: Sequence[str]) -> list[int]:
        """One each."""
        return [1] * len(texts)


class Side:
    """An engine; each search is a strategy."""

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        self._engine = Engine.open(folder / "peers.clew", embedder=LookupEmbedder(lookup))

    def build(self, documents: Sequence[Text]) -> None:
        """Adds them."""
        self._engine.add_documents(Document(id_, text) for id_, text in documents)

    def search_dense(self, query: str) -> list[str]:
        """`semantic`."""
        return self._search(query, "semantic")

    def search_words(self, query: str) -> list[str]:
        """`lexical`."""
        return self._search(query, "lexical")

    def search_hybrid(self, query: str) -> list[str]:
        """`hybrid`."""
        return self._search(query, "hybrid")

    def drop(self, ids: Sequence[str]) -> None:
        """Drops them."""
        self._engine.drop(*ids)

    def add(self, documents: Sequence[Text]) -> None:
        """Adds them."""
        self.build(documents)

    def _search(self, query: str, strategy: str) -> list[str]:
        return [hit.document.id for hit in self._engine.search(query, k=K, strategy=strategy)]
