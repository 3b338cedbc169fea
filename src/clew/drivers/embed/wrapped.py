"""An embedder around another one: what it does not change is the other's."""

from collections.abc import Callable, Sequence

from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix

Derive = Callable[[Matrix], Matrix]


class WrappedEmbedder:
    """All that an embedder has and does, its own attributes (`is_local`, `languages`) included; a base of others."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._embedder, name)

    @property
    def name(self) -> str:
        """The name of the embedder, and what is done with its vectors."""
        return self._embedder.name

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return self._embedder.dim

    @property
    def max_tokens(self) -> int:
        """The token limit of the model."""
        return self._embedder.max_tokens

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for the model."""
        return self._embedder.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order."""
        return self._embedder.embed(texts, role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        return self._embedder.count(texts)


class DerivedEmbedder(WrappedEmbedder):
    """An embedder whose vectors of passages are made from those of another embedder, without the model."""

    def __init__(self, embedder: Embedder, derive: Derive) -> None:
        super().__init__(embedder)
        self._derive = derive

    def derive(self, vectors: Matrix) -> Matrix:
        """The vectors of this embedder for those of the other."""
        return self._derive(vectors)


def find_derivation(embedder: Embedder, name: str) -> Derive | None:
    """How the vectors of an embedder are made from those of the one of that name; None if they cannot be."""
    derive_from = getattr(embedder, "derive_from", None)
    found: Derive | None = derive_from(name) if derive_from else None
    return found
