"""Protocol of a store that finds the candidates of several queries in one pass."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from clew.core.candidates import Candidates, Depth
from clew.core.filter import EVERYTHING, Filter
from clew.core.text import Terms
from clew.core.types import Matrix


@runtime_checkable
class FindsCandidates(Protocol):
    """A store that finds what both rankings of queries share in one pass."""

    def find_candidates(
        self,
        vectors: Matrix,
        terms: Sequence[Terms],
        near: Depth,
        matching: Depth,
        where: Filter = EVERYTHING,
    ) -> list[Candidates] | None:
        """The candidates of each query: what `search_vectors`, `search_terms`, `vectors` and `match_terms` tell of it.

        None where it cannot tell in one pass; those then have to be asked.
        """
