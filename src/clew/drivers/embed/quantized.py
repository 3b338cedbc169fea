"""int8 vectors: those of another embedder, rounded to what a byte per number can express."""

from collections.abc import Sequence

import numpy as np

from clew.core.protocols import Embedder, Role
from clew.core.quantize import INT8_MARK, has_int8_vectors, round_to_int8
from clew.core.types import Matrix


class QuantizedEmbedder:
    """The vectors of an embedder, those of passages rounded to int8; the name says so, and stores keep them so."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.dim = embedder.dim

    def __getattr__(self, name: str) -> object:  # whether it is local, the languages that it knows
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._embedder, name)

    @property
    def name(self) -> str:
        """The name of the embedder, and how its vectors are stored."""
        return self._embedder.name + INT8_MARK

    @property
    def max_tokens(self) -> int:
        """The token limit of the model."""
        return self._embedder.max_tokens

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated."""
        return self._embedder.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order; queries are not stored, and keep all digits."""
        rows = self._embedder.embed(texts, role=role)
        if role != "passage" or not np.isfinite(rows).all():  # what is no vector stays so, and the store refuses it
            return rows
        return round_to_int8(rows)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        return self._embedder.count(texts)


def quantize_embedder(embedder: Embedder) -> Embedder:
    """The embedder with int8 vectors; itself if it has them."""
    return embedder if has_int8_vectors(embedder.name) else QuantizedEmbedder(embedder)
