"""int8 vectors: those of another embedder, rounded to what a byte per number can express."""

from collections.abc import Sequence

import numpy as np

from clew.core.protocols import Embedder, Role
from clew.core.quantize import INT8_MARK, has_int8_vectors, round_to_int8
from clew.core.types import Matrix
from clew.drivers.embed.wrapped import Derive, WrappedEmbedder, find_derivation


class QuantizedEmbedder(WrappedEmbedder):
    """The vectors of an embedder, those of passages rounded to int8; the name says so, and stores keep them so."""

    @property
    def name(self) -> str:
        """The name of the embedder, and how its vectors are stored."""
        return self._embedder.name + INT8_MARK

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order; queries are not stored, and keep all digits."""
        rows = super().embed(texts, role=role)
        return _round_vectors(rows) if role == "passage" else rows

    def derive_from(self, name: str) -> Derive | None:
        """How they are made from whole vectors of that name."""
        if name == self._embedder.name:
            return _round_vectors
        cut = find_derivation(self._embedder, name)
        return (lambda rows: _round_vectors(cut(rows))) if cut else None


def _round_vectors(rows: Matrix) -> Matrix:
    return round_to_int8(rows) if np.isfinite(rows).all() else rows  # what is no vector stays so: the store refuses it


def quantize_embedder(embedder: Embedder) -> Embedder:
    """The embedder with int8 vectors; itself if it has them."""
    return embedder if has_int8_vectors(embedder.name) else QuantizedEmbedder(embedder)
