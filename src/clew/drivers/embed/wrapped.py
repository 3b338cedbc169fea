"""An embedder around another one: what it does not change is the other's."""

from collections.abc import Sequence

import numpy as np

from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix


class WrappedEmbedder:
    """All that an embedder has and does, its own attributes (`is_local`, `languages`) included; a base of others."""

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
        """One unit vector per text, in order."""
        return self._embedder.embed(texts, role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        return self._embedder.count(texts)


class HalfPrecisionEmbedder(WrappedEmbedder):
    """An embedder whose passages have vectors in half precision, which stores keep in two bytes a number."""

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order; queries are not stored, and keep all digits."""
        rows = super().embed(texts, role=role)
        return round_to_half(rows) if role == "passage" else rows


def round_to_half(vectors: Matrix) -> Matrix:
    """The numbers that half precision can express nearest to these."""
    rounded: Matrix = vectors.astype(np.float16).astype(np.float32)
    return rounded
