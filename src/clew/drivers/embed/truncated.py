"""Cut vectors: the first numbers of each vector of another embedder, at unit length again.

A model trained for it (Matryoshka representation learning: Kusupati and others, 2022) puts what matters most first;
with any other, more is lost.
"""

from collections.abc import Sequence

from clew.core.errors import SettingsError
from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix
from clew.drivers.embed.vectors import normalize


class TruncatedEmbedder:
    """The first `dim` numbers of the vectors of an embedder; the name says how many, so the two never mix."""

    def __init__(self, embedder: Embedder, dim: int) -> None:
        self._embedder = embedder
        self.dim = dim

    def __getattr__(self, name: str) -> object:  # whether it is local, the languages that it knows
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._embedder, name)

    @property
    def name(self) -> str:
        """The name of the whole embedder, and the length of a vector."""
        return f"{self._embedder.name}#{self.dim}"

    @property
    def max_tokens(self) -> int:
        """The token limit of the model."""
        return self._embedder.max_tokens

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for the whole vectors."""
        return self._embedder.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order."""
        rows = self._embedder.embed(texts, role=role)[:, : self.dim]
        return normalize(rows, source=self.name) if len(rows) else rows

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        return self._embedder.count(texts)


def truncate_embedder(embedder: Embedder, dim: int) -> Embedder:
    """The embedder with its vectors cut to `dim`; itself if they are that long, SettingsError if they are shorter."""
    if dim > embedder.dim or dim < 2:
        raise SettingsError(
            f"embedder.dim is {dim}, and {embedder.name} has {embedder.dim} numbers a vector; give 2 to {embedder.dim}"
        )
    return embedder if dim == embedder.dim else TruncatedEmbedder(embedder, dim)
