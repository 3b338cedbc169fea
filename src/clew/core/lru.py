"""What was asked a moment ago need not be worked out again: a bounded memory, and an embedder that has one."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix, Vector

V = TypeVar("V")


class LRUCache(Generic[V]):
    """The last values by their keys, at most so many; the one not asked for longest is forgotten first."""

    def __init__(self, max_items: int) -> None:
        self._most = max_items
        self._kept: OrderedDict[str, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> V | None:
        """The value of a key, or None."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, value: V) -> None:
        """Keeps a value."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class LRUEmbedder:
    """The same protocol around another; the vectors of recent queries are kept, those of passages are not."""

    def __init__(self, embedder: Embedder, *, most: int = 512) -> None:
        self._embedder = embedder
        self._kept: LRUCache[Vector] = LRUCache(most)
        self.name = embedder.name
        self.dim = embedder.dim
        self.max_tokens = embedder.max_tokens
        self.min_similarity = embedder.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit row a text, in order; only those that were not asked for lately are made."""
        if role != "query":
            return self._embedder.embed(texts, role=role)
        found = {text: self._kept.get(text) for text in texts}
        fresh = [text for text, vector in found.items() if vector is None]
        if fresh:
            for text, vector in zip(fresh, self._embedder.embed(fresh, role=role), strict=True):
                found[text] = vector
                self._kept.put(text, vector)
        rows = [vector for text in texts if (vector := found[text]) is not None]
        return np.stack(rows) if rows else self._embedder.embed([], role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of the model each text has."""
        return self._embedder.count(texts)
