"""Cut vectors: the first numbers of each vector of another embedder, at unit length again.

A model trained for it (Matryoshka representation learning: Kusupati and others, 2022) puts what matters most first;
with any other, more is lost.
"""

from collections.abc import Sequence

from clew.core.errors import SettingsError
from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix
from clew.drivers.embed.vectors import normalize
from clew.drivers.embed.wrapped import Derive, WrappedEmbedder


class TruncatedEmbedder(WrappedEmbedder):
    """The first `dim` numbers of the vectors of an embedder; the name says how many, so the two never mix."""

    def __init__(self, embedder: Embedder, dim: int) -> None:
        super().__init__(embedder)
        self._dim = dim

    @property
    def dim(self) -> int:
        """The length of a vector after the cut."""
        return self._dim

    @property
    def name(self) -> str:
        """The name of the whole embedder, and the length of a vector."""
        return f"{self._embedder.name}#{self._dim}"

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order."""
        return self._cut(super().embed(texts, role=role))

    def derive_from(self, name: str) -> Derive | None:
        """How they are made from whole vectors of that name, or from longer ones."""
        whole, _, dim = name.rpartition("#")
        is_longer = whole == self._embedder.name and dim.isdecimal() and int(dim) > self._dim
        return self._cut if is_longer or name == self._embedder.name else None

    def _cut(self, rows: Matrix) -> Matrix:
        rows = rows[:, : self._dim]
        return normalize(rows, source=self.name) if len(rows) else rows


def truncate_embedder(embedder: Embedder, dim: int) -> Embedder:
    """The embedder with its vectors cut to `dim`; itself if they are that long, SettingsError if they are shorter."""
    if dim > embedder.dim or dim < 2:
        raise SettingsError(
            f"embedder.dim is {dim}, and {embedder.name} has {embedder.dim} numbers a vector; give 2 to {embedder.dim}"
        )
    return embedder if dim == embedder.dim else TruncatedEmbedder(embedder, dim)
