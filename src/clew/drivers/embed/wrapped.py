"""Wrappers of embedders: vectors in half precision, or a disk cache."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from clew.core.ids import digest
from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix
from clew.drivers.cache import CacheFile


class WrappedEmbedder:
    """The base of wrappers: delegates everything to an embedder, even extra attributes (`is_local`, `languages`)."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self.dim = embedder.dim
        self.max_tokens = embedder.max_tokens
        self.min_similarity = embedder.min_similarity

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._embedder, name)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order."""
        return self._embedder.embed(texts, role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return self._embedder.count(texts)


class HalfPrecisionEmbedder(WrappedEmbedder):
    """An embedder that rounds the vectors of passages to half precision, so that stores need two bytes a number."""

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order; queries are not stored and keep full precision."""
        rows = super().embed(texts, role=role)
        return round_to_half(rows) if role == "passage" else rows


def round_to_half(vectors: Matrix) -> Matrix:
    """Round to the nearest numbers of half precision."""
    rounded: Matrix = vectors.astype(np.float16).astype(np.float32)
    return rounded


class CachedEmbedder(WrappedEmbedder):
    """An embedder that caches vectors in a file, by model, role and text.

    `hits` counts texts that were cached or repeated in a call, `misses` embedded ones.
    """

    def __init__(self, embedder: Embedder, path: str | Path) -> None:
        super().__init__(embedder)
        self._cache = CacheFile(path)
        self._lock = Lock()
        self.hits = 0
        self.misses = 0

    def clear_cache(self) -> int:
        """Delete all cached vectors; return how many there were."""
        return self._cache.clear()

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order; embed only texts that are not cached, each once."""
        keys = ["\x1f".join((self.name, role, digest(text))) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        stored = self._cache.get(list(by_key)) if by_key else {}
        # Ignore rows of another width, from an earlier model with the same name.
        rows = {key: np.frombuffer(data, "<f4") for key, data in stored.items() if len(data) == 4 * self.dim}
        missing = [key for key in by_key if key not in rows]
        if missing:
            made = self._embedder.embed([by_key[key] for key in missing], role=role)
            fresh = dict(zip(missing, made, strict=True))
            self._cache.put({key: np.asarray(row, "<f4").tobytes() for key, row in fresh.items()})
            rows |= fresh
        with self._lock:
            self.hits += len(keys) - len(missing)
            self.misses += len(missing)
        return np.stack([rows[key] for key in keys]) if keys else np.zeros((0, self.dim), np.float32)
