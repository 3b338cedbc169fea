"""The methods of the server store that search, by vectors and by words."""

from collections.abc import Sequence

from psycopg import Connection

from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Mode
from clew.core.settings import StoreConfig
from clew.core.text import Terms
from clew.core.types import Hit, Matrix, TermMatch, Vector
from clew.drivers.store import checks, codec
from clew.drivers.store.languages import LanguageMethods
from clew.drivers.store.postgres.connect.pool import Pool, Row
from clew.drivers.store.postgres.search import filters, lexical
from clew.drivers.store.postgres.search.nearest import NearestSearch
from clew.drivers.store.postgres.search.vectors import CHUNKS, DOCUMENTS, NearestQuery
from clew.drivers.store.term_ids import hash_terms, pack_terms


class SearchMethods(LanguageMethods):
    """Searches of a collection; part of PostgresStore."""

    _pool: Pool
    _number: int
    _dim: int
    _config: StoreConfig
    _nearest: NearestSearch

    @property
    def _lexical(self) -> lexical.LexicalCollection:
        return lexical.LexicalCollection(self._number, is_limited=self._config.access is not None)

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, equal ones by id; the score is the cosine."""
        checked, alternatives = checks.check_vector(vector, self._dim), expand_filter(where)
        if k < 1 or not alternatives:
            return []
        conditions = filters.build_filter_conditions(alternatives)
        query = NearestQuery(CHUNKS, self._number, checked, k, conditions, is_half=self._nearest.is_half)

        def search(connection: Connection) -> list[tuple[Row, float]]:
            subset = filters.find_narrow_subset(connection, self._number, alternatives, self._config.exact_below)
            return self._nearest.search(connection, query, subset, exact=mode == "exact", breadth=breadth)

        return codec.parse_hits(self._pool.run_read_with_own_plan(search))

    def begin_searches(
        self,
        vectors: Matrix,  # noqa: ARG002
        terms: Sequence[Terms],  # noqa: ARG002
        k: int,  # noqa: ARG002
        where: Filter = EVERYTHING,  # noqa: ARG002
    ) -> bool:
        """False: searches are better made in parallel."""
        return False

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The k documents whose summaries are nearest, with the cosine."""
        checked, alternatives = checks.check_vector(vector, self._dim), expand_document_filter(where)
        if k < 1 or not alternatives:
            return []
        query = NearestQuery(DOCUMENTS, self._number, checked, k, filters.build_filter_conditions(alternatives))
        found = self._pool.run_read_with_own_plan(lambda connection: self._nearest.search(connection, query))
        return [(columns[0], score) for columns, score in found]

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score among those with any of the terms, best first, equal ones by id."""
        packed, alternatives = pack_terms(terms), expand_filter(where)
        if k < 1 or not len(packed.hashes) or not alternatives:
            return []
        conditions = filters.build_filter_conditions(alternatives)

        def search(connection: Connection) -> list[tuple[Row, float]]:
            subset = filters.find_narrow_subset(connection, self._number, alternatives, self._config.exact_below)
            return lexical.search_terms(connection, self._lexical, packed, k, conditions, subset)

        return codec.parse_hits(self._pool.run_read_with_own_plan(search))

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the counts of the whole collection."""
        packed = pack_terms(terms)
        return self._pool.run_read_with_own_plan(
            lambda connection: lexical.match_terms(connection, self._lexical, packed, chunk_ids)
        )

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks of the whole collection have each of the terms, up to `at_most`."""
        hashes = hash_terms(terms)
        return self._pool.run_read_with_own_plan(
            lambda connection: lexical.count_terms(connection, self._lexical, hashes, at_most)
        )
