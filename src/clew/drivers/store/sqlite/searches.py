"""The index of a collection in SQLite: searches in the exact index or the shard, which follow the database."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from clew.core.candidates import Depth
from clew.core.cosine import compute_cosines
from clew.core.doctor import Defect
from clew.core.errors import DriverFailed
from clew.core.facets import expand_document_filter
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import order
from clew.drivers.store.backend import DOCUMENT, Head, Row, RowCandidates, RowScores, Select, T, named_documents
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.frequencies import get_document_frequencies
from clew.drivers.store.sqlite.index import BrokenIndex, Index, TermQuery, VectorQuery
from clew.drivers.store.sqlite.manager import IndexManager
from clew.drivers.store.sqlite.rows import make_snapshot
from clew.drivers.store.sqlite.signals import count_having
from clew.drivers.store.sqlite.upkeep import IndexUpkeep

MAX_AHEAD = 8192  # hits of searches that are made in one pass


class SqliteIndex:
    """Searches of a collection; see `clew.drivers.store.backend.Index`. A broken index is built again once."""

    def __init__(self, database: Database, folder: Path | None, config: StoreConfig) -> None:
        self._database, self._folder = database, folder
        self._indexes = IndexManager(database, folder, config)
        self._upkeep = IndexUpkeep(self._indexes, database)
        self._summaries: tuple[int, list[Row], Matrix] = (-1, [], np.empty((0, database.dim), np.float32))

    def nearest(
        self, head: Head, vector: Vector, k: int, where: Filter, *, is_exact: bool, breadth: int | None
    ) -> RowScores:
        """The k chunks of greatest cosine."""
        query = VectorQuery(vector, k, where, is_exact, breadth)
        return self._search(head, lambda index, state: index.search_vectors(query, state))

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """The k chunks of greatest BM25 score."""
        query = TermQuery(terms, k, where)
        return self._search(head, lambda index, state: index.search_terms(query, state))

    def _search(self, head: Head, search: Callable[[Index, CollectionState], T]) -> T:
        for is_last in (False, True):
            state = _get_state(head)
            index = self._indexes.get_caught_up_index(state)
            self._upkeep.look(state)
            try:
                return search(index, state)
            except BrokenIndex as error:
                if is_last:
                    reason = f"{self._folder}: the index failed twice ({error}); try again, check the disk"
                    raise DriverFailed(reason) from error
                self._indexes.discard_broken_shard(index, error)
        raise AssertionError

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """The k documents whose own vector is nearest, with the cosine."""
        rows, vectors = self._load_summaries(head)
        alternatives = expand_document_filter(where)
        places: Sequence[int] = range(len(rows))
        if not any(each.is_empty for each in alternatives):
            named = named_documents(alternatives)
            admits = Select(DOCUMENT, alternatives=tuple(alternatives)).admits_facets
            places = [
                place
                for place in places
                if (named is None or rows[place]["id"] in named) and admits(rows[place]["facets"])
            ]
        if not len(places):
            return []
        own = vectors if len(places) == len(rows) else vectors[list(places)]
        top = [places[at] for at in order.select_candidates(own @ vector, k, order.SLACK).tolist()]
        best = order.top_k(top, [rows[place]["id"] for place in top], compute_cosines(vectors[top], vector), k)
        return [(rows[place]["id"], score) for place, score in best]

    def _load_summaries(self, head: Head) -> tuple[list[Row], Matrix]:
        """The documents that have a vector of their own, and these."""
        change, rows, vectors = self._summaries
        if change != head.change:
            with self._database.read_transaction() as (db, state):
                found = make_snapshot(self._database, db, state).find(Select(DOCUMENT), ("id", "facets", "vector"))
            rows = [row for row in found if row["vector"] is not None]
            vectors = np.stack([row["vector"] for row in rows]) if rows else np.empty((0, head.dim), np.float32)
            self._summaries = state.change, rows, vectors
        return rows, vectors

    def match_terms(self, head: Head, terms: PackedTerms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the counts of the whole collection."""
        return self._search(head, lambda index, state: index.match_terms(terms, chunk_ids, state))

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """How many chunks have each of the terms; where all are counted, no index is opened for it."""
        state = _get_state(head)
        if at_most is None and not self._indexes.is_open:
            saved = self._indexes.find_counts(state)
            if saved is None:
                return count_having(self._database, hashes)
            return [int(count) for count in get_document_frequencies(saved, hashes)]
        having = self._indexes.get_caught_up_index(state).count_having(hashes)
        return having if at_most is None else [min(count, at_most) for count in having]

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist."""
        return self._indexes.get_vectors(_get_state(head), chunk_ids)

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> list[int]:
        """Searches all of them in one pass."""
        state = _get_state(head)
        if state.chunks and 0 < len(vectors) * k <= MAX_AHEAD:
            index = self._indexes.get_caught_up_index(state)
            with suppress(BrokenIndex):  # the search that follows rebuilds it
                return index.search_ahead(np.ascontiguousarray(vectors, np.float32), terms, k, where, state)
        return []

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> list[RowCandidates] | None:
        """The candidates of each query; None where any is in doubt."""
        state = _get_state(head)
        if len(vectors) * (near.kept + matching.kept) > MAX_AHEAD:
            return None
        index = self._indexes.get_caught_up_index(state)
        self._upkeep.look(state)
        try:
            return index.find_candidates(np.ascontiguousarray(vectors, np.float32), terms, near, matching, where, state)
        except BrokenIndex:  # the search that follows rebuilds it
            return None

    # -- upkeep

    def keep_up(self, head: Head) -> None:
        """Builds what is due in a thread, after rows were added."""
        self._upkeep.start(_get_state(head))

    def flush(self, *, with_graph: bool = True, is_thorough: bool = False) -> bool:
        """Brings the index into its best shape; False where little was put, and a graph is left to a thread."""
        state = self._database.read_state()
        if with_graph and not is_thorough and self._upkeep.start_after_little(state):
            return False
        self._upkeep.flush(state, with_graph=with_graph)
        return True

    def discard(self) -> list[str]:
        """Deletes the index with all its files; what could not be deleted."""
        return self._indexes.discard()

    def inspect(self, *, is_quick: bool) -> list[Defect]:
        """What is wrong with the index on disk."""
        return self._indexes.inspect(self._database.read_state(), is_quick=is_quick)

    def get_name(self) -> str:
        """The name of the index that searches now, or would."""
        return self._indexes.get_index_name(self._database.read_state())

    def close(self) -> None:
        """Closes the index."""
        self._upkeep.stop()
        self._indexes.close()


def _get_state(head: Head) -> CollectionState:
    assert isinstance(head, CollectionState)
    return head
