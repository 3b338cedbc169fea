"""The index of a collection in PostgreSQL: a search by vectors or by words is a statement."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from psycopg import Connection

from clew.core.candidates import Depth
from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store.backend import Head, RowScores, Snapshot
from clew.drivers.store.postgres.connect.pool import Pool
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.search import filters, lexical
from clew.drivers.store.postgres.search.nearest import NearestSearch
from clew.drivers.store.postgres.search.vectors import CHUNKS, DOCUMENTS, Found, NearestQuery
from clew.drivers.store.read import read_vectors_by_chunk_id


class PostgresIndex:
    """Searches of a collection; see `clew.drivers.store.backend.Index`. Each sees the state of its own time."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[Snapshot]],
        pool: Pool,
        collection: OpenCollection,
        config: StoreConfig,
    ) -> None:
        self._read, self._pool, self._collection, self._config = read, pool, collection, config
        self.by_vector = NearestSearch(collection, config.exact_below)
        self._words = lexical.LexicalCollection(collection.number, is_limited=config.access is not None)

    def nearest(
        self,
        head: Head,  # noqa: ARG002
        vector: Vector,
        k: int,
        where: Filter,
        *,
        is_exact: bool,
        breadth: int | None,
    ) -> RowScores:
        """The k chunks of greatest cosine."""
        number, alternatives = self._collection.number, expand_filter(where)
        if not alternatives:
            return []
        conditions = filters.build_filter_conditions(alternatives)
        query = NearestQuery(CHUNKS, number, vector, k, conditions, is_half=self._collection.is_half)

        def search(connection: Connection) -> list[Found]:
            subset = filters.find_narrow_subset(connection, number, alternatives, self._config.exact_below)
            return self.by_vector.search(connection, query, subset, exact=is_exact, breadth=breadth)

        return [(row, score) for _, row, score in self._pool.run_read_with_own_plan(search)]

    def nearest_documents(
        self,
        head: Head,  # noqa: ARG002
        vector: Vector,
        k: int,
        where: Filter,
    ) -> list[tuple[str, float]]:
        """The k documents whose own vector is nearest, with the cosine."""
        alternatives = expand_document_filter(where)
        if not alternatives:
            return []
        conditions = filters.build_filter_conditions(alternatives)
        query = NearestQuery(DOCUMENTS, self._collection.number, vector, k, conditions)
        found = self._pool.run_read_with_own_plan(lambda connection: self.by_vector.search(connection, query))
        return [(doc_id, score) for doc_id, _, score in found]

    def matching(
        self,
        head: Head,  # noqa: ARG002
        terms: PackedTerms,
        k: int,
        where: Filter,
    ) -> RowScores:
        """The k chunks of greatest BM25 score."""
        number, alternatives = self._collection.number, expand_filter(where)
        if not alternatives:
            return []
        conditions = filters.build_filter_conditions(alternatives)

        def search(connection: Connection) -> RowScores:
            subset = filters.find_narrow_subset(connection, number, alternatives, self._config.exact_below)
            return lexical.search_terms(connection, self._words, terms, k, conditions, subset)

        return self._pool.run_read_with_own_plan(search)

    def match_terms(
        self,
        head: Head,  # noqa: ARG002
        terms: PackedTerms,
        chunk_ids: Sequence[str],
    ) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the counts of the whole collection."""
        return self._pool.run_read_with_own_plan(
            lambda connection: lexical.match_terms(connection, self._words, terms, chunk_ids)
        )

    def count_having(
        self,
        head: Head,  # noqa: ARG002
        hashes: Hashes,
        at_most: int | None,
    ) -> list[int]:
        """How many chunks have each of the terms, counted up to `at_most`."""
        return self._pool.run_read_with_own_plan(
            lambda connection: lexical.count_terms(connection, self._words, hashes, at_most)
        )

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:  # noqa: ARG002
        """The vectors of those of the chunks that exist."""
        with self._read() as snapshot:
            return read_vectors_by_chunk_id(snapshot, chunk_ids)

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> None:
        """None: searches are better made in parallel."""

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> None:
        """None: the searches above are asked."""
