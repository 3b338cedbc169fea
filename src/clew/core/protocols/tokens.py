"""Protocols of late interaction: the model that makes and compares token vectors, and the store that keeps them."""

from collections.abc import Callable, Sequence, Set
from typing import Protocol, runtime_checkable

from clew.core.types import Span

NOT_KEPT = (
    "this store keeps no token vectors, so there is no strategy late; use a collection in a folder or in PostgreSQL, "
    "or the strategy rerank"
)


class TokenEncoder(Protocol):
    """Turns each token of a text into a vector. Called from several threads at once; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model and the form of the bytes; kept with them, so that those of two models never mix."""

    @property
    def languages(self) -> Set[str]:
        """The languages that it knows; none: any, as far as is known."""

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The token vectors of each text, in order, as bytes; those of a text must not depend on the other texts."""

    def match(self, query: str, encoded: Sequence[bytes]) -> list[float]:
        """How well a query matches each encoded text, in order: the mean over its tokens of the best cosine."""

    def align(self, query: str, text: str, encoded: bytes) -> list[tuple[Span, float]]:
        """The words of an encoded text that tokens of the query match best: where each is, and the cosine, in order."""


@runtime_checkable
class KeepsTokens(Protocol):
    """A store that can keep token vectors beside its chunks. A chunk's are whole or missing, and go when it does."""

    def add_missing_tokens(
        self,
        encoder: TokenEncoder,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        only_last: bool = False,
    ) -> int:
        """Encodes the chunks that have no token vectors of this model, in the order they were added; how many.

        Searches and writes go on meanwhile. Called again, it continues where it stopped. With `only_last`, chunks
        before the last one that has them are passed over, so that the cost does not grow with the collection.
        """

    def count_missing_tokens(self, model: str) -> int:
        """How many chunks have no token vectors of this model."""

    def tokens(self, chunk_ids: Sequence[str], model: str) -> dict[str, bytes]:
        """The token vectors of this model of those of the chunks that have them, by id."""
