"""An LRU cache, and an embedder that caches the vectors of recent queries in one."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from clew.core.languages import find_known_languages
from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix, Vector

V = TypeVar("V")


class LRUCache(Generic[V]):
    """A thread-safe cache of at most `max_items` values; the least recently used is evicted first."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def put(self, key: Hashable, value: V) -> None:
        """Store a value; evict the least recently used if there are too many."""
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._max_items:
                self._items.popitem(last=False)


class LRUEmbedder:
    """A wrapper of an embedder that caches the vectors of recent queries, but not of passages."""

    def __init__(self, embedder: Embedder, *, max_items: int = 512) -> None:
        self._embedder = embedder
        self._cache: LRUCache[Vector] = LRUCache(max_items)
        self.name = embedder.name
        self.dim = embedder.dim
        self.max_tokens = embedder.max_tokens
        self.min_similarity = embedder.min_similarity
        self.languages = find_known_languages(embedder)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order; embed only queries that are not cached."""
        if role != "query":
            return self._embedder.embed(texts, role=role)
        found = {text: self._cache.get(text) for text in texts}
        fresh = [text for text, vector in found.items() if vector is None]
        if fresh:
            for text, vector in zip(fresh, self._embedder.embed(fresh, role=role), strict=True):
                found[text] = vector
                self._cache.put(text, vector)
        rows = [vector for text in texts if (vector := found[text]) is not None]
        return np.stack(rows) if rows else self._embedder.embed([], role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return self._embedder.count(texts)
