"""The methods of the embedded store that search, by vectors and by words."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from clew.core.candidates import Candidates, Depth
from clew.core.cosine import compute_cosines
from clew.core.errors import DriverFailed
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Mode
from clew.core.text import Terms
from clew.core.types import Hit, Matrix, TermMatch, Vector
from clew.drivers.store import checks, order
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.embedded import read
from clew.drivers.store.embedded.database import CollectionState, Database
from clew.drivers.store.embedded.hits import HitCache
from clew.drivers.store.embedded.index import BrokenIndex, TermQuery, VectorQuery
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.upkeep import IndexUpkeep
from clew.drivers.store.term_ids import pack_terms

MAX_AHEAD = 8192  # hits of searches that are made in one pass
MAX_ATTEMPTS = 10  # of a search whose index breaks, or whose chunks are removed before they are read


class SearchMethods:
    """Searches of a collection; part of EmbeddedStore."""

    _database: Database
    _folder: Path | None
    _indexes: IndexManager
    _upkeep: IndexUpkeep
    _hits: HitCache
    _summaries: read.Summaries

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, equal ones by id; the score is the cosine."""
        checked = checks.check_vector(vector, self._database.dim)
        return self._search_index(VectorQuery(checked, k, where, mode == "exact", breadth))

    def begin_searches(self, vectors: Matrix, terms: Sequence[Terms], k: int, where: Filter = EVERYTHING) -> bool:
        """Searches all of them in one pass, and reads the chunks that they may find in one statement."""
        checked = [checks.check_vector(vector, self._database.dim) for vector in vectors]
        packed = [each for each in map(pack_terms, terms) if len(each.hashes)]
        state = self._database.read_state()
        if state.chunks and 0 < len(checked) * k <= MAX_AHEAD:
            index = self._indexes.get_caught_up_index(state)
            with suppress(BrokenIndex):  # the search that follows rebuilds it
                self._hits.load_hits(state, index.search_ahead(np.stack(checked), packed, k, where, state))
        return True

    def find_candidates(
        self,
        vectors: Matrix,
        terms: Sequence[Terms],
        near: Depth,
        matching: Depth,
        where: Filter = EVERYTHING,
    ) -> list[Candidates] | None:
        """The candidates of each query; None where any is in doubt."""
        state = self._database.read_state()
        if not state.chunks or len(vectors) * (near.kept + matching.kept) > MAX_AHEAD:
            return None
        checked = np.stack([checks.check_vector(vector, self._database.dim) for vector in vectors])
        packed = [pack_terms(each) for each in terms]
        index = self._indexes.get_caught_up_index(state)
        self._upkeep.look(state)
        try:
            found = index.find_candidates(checked, packed, near, matching, where, state)
        except BrokenIndex:  # the search that follows rebuilds it
            return None
        if found is None:
            return None
        is_short = any(each.nearest < min(near.kept, state.chunks) for each in found)
        if is_short and self._database.read_state_anew().change != state.change:
            return None  # rows were removed before the index followed to them
        return [
            Candidates(
                each.ids,
                each.has_messages,
                each.nearest,
                each.by_words,
                each.cosines,
                each.shares,
                each.strengths,
                partial(self._read_hits, state, each.rows),
            )
            for each in found
        ]

    def _read_hits(self, state: CollectionState, rows: Sequence[int], places: Sequence[int]) -> list[Hit]:
        """The hits at some places of rows; LookupError if one is gone."""
        wanted = [rows[place] for place in places]
        loaded = self._hits.load_hits(state, list(dict.fromkeys(wanted)))
        return [loaded[row] for row in wanted]

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score among those with any of the terms, best first, equal ones by id."""
        packed = pack_terms(terms)
        return self._search_index(TermQuery(packed, k, where)) if len(packed.hashes) else []

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the counts of the whole collection."""
        state = self._database.read_state()
        return self._indexes.get_caught_up_index(state).match_terms(pack_terms(terms), chunk_ids, state)

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The k documents whose summaries are nearest, with the cosine."""
        checked = checks.check_vector(vector, self._database.dim)
        change, known = self._database.read_state().change, self._summaries
        if known.change != change:
            with self._database.read_transaction() as db:
                known = self._summaries = read.read_summary_vectors(db, change, self._database.dim)
        slots, ids = known.find_admitted(where), list(known.slots)
        if k < 1 or not ids or slots == []:
            return []
        vectors = known.vectors if slots is None else known.vectors[slots]
        top = order.select_candidates(vectors @ checked, k, order.SLACK).tolist()
        top = top if slots is None else [slots[position] for position in top]
        best = order.top_k(top, [ids[slot] for slot in top], compute_cosines(known.vectors[top], checked), k)
        return [(ids[slot], score) for slot, score in best]

    def _search_index(self, query: VectorQuery | TermQuery) -> list[Hit]:
        """The hits of an index that has caught up with the database; a broken index is rebuilt once."""
        hits, broke = list[Hit](), False
        for _ in range(MAX_ATTEMPTS):
            state = self._database.read_state()
            if query.k < 1 or not state.chunks:
                return []
            index = self._indexes.get_caught_up_index(state)
            self._upkeep.look(state)
            try:
                if isinstance(query, VectorQuery):
                    found = index.search_vectors(query, state)
                else:
                    found = index.search_terms(query, state)
            except BrokenIndex as error:
                if broke:
                    reason = f"{self._folder}: the index failed twice ({error}); try again, check the disk"
                    raise DriverFailed(reason) from error
                broke = True
                self._indexes.discard_broken_shard(index, error)
                continue
            loaded = self._hits.load_hits(state, [row for row, _ in found])
            hits = [Hit(hit.chunk, hit.document, score) for row, score in found if (hit := loaded.get(row))]
            # Else rows may have been removed meanwhile: since they were found, or before the index followed to them.
            is_complete = len(hits) == min(query.k, state.chunks)
            if is_complete or self._database.read_state_anew().change == state.change:
                if not is_complete and len(hits) < len(found):
                    raise damaged_error("the table of the chunks")
                break
        return hits
