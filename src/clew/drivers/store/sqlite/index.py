"""The interface of an index over the database: what the store asks it, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from clew.core.candidates import Depth
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store.backend import RowCandidates, RowScores
from clew.drivers.store.sqlite.database import CollectionState


class BrokenIndex(Exception):
    """The index failed. It holds nothing that the database does not, so it can be thrown away and rebuilt."""


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The k rows of greatest cosine with a vector; `breadth` is how many candidates an HNSW search keeps."""

    vector: Vector
    k: int
    where: Filter
    exact: bool = False
    breadth: int | None = None


@dataclass(frozen=True, slots=True)
class TermQuery:
    """The k rows of greatest BM25 score for terms and their counts."""

    terms: PackedTerms
    k: int
    where: Filter


class Index(Protocol):
    """Follows the database and searches what it has followed."""

    name: str

    def catch_up(self, state: CollectionState) -> None:
        """Applies every change of the database up to a state."""

    def search_vectors(self, query: VectorQuery, state: CollectionState) -> RowScores:
        """The best rows by cosine."""

    def search_terms(self, query: TermQuery, state: CollectionState) -> RowScores:
        """The best rows by BM25, with the collection's counts as of a state."""

    def search_ahead(
        self, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter, state: CollectionState
    ) -> list[int]:
        """Does at once what searches that are made next share; the rows that they may find, as far as it is known."""

    def find_candidates(
        self,
        vectors: Matrix,
        terms: Sequence[PackedTerms],
        near: Depth,
        matching: Depth,
        where: Filter,
        state: CollectionState,
    ) -> list[RowCandidates] | None:
        """The candidates of each query, in one pass; None where searches one by one would have to read again."""

    def match_terms(self, terms: PackedTerms, chunk_ids: Sequence[str], state: CollectionState) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the collection's counts as of a state."""

    def count_having(self, hashes: Hashes) -> list[int]:
        """How many chunks have each of the words."""
