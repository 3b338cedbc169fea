"""Searches in a shard.

The shard only proposes candidates. Their scores are computed from the database, so they are the same as anywhere else;
for words it is also checked that nothing beyond the candidates could have scored better.
"""

from collections.abc import Sequence

import numpy as np

from clew.core.candidates import Depth
from clew.core.cosine import compute_cosines
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.backend import RowCandidates, RowScores
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.sqlite import frequencies
from clew.drivers.store.sqlite.candidates import Candidates, request_matching, request_nearest
from clew.drivers.store.sqlite.checkpoint import Checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.index import TermQuery, VectorQuery
from clew.drivers.store.sqlite.row_cache import RowCache, join_terms, stack_vectors
from clew.drivers.store.sqlite.row_scores import measure_rows, score_rows_by_bm25
from clew.drivers.store.sqlite.signals import MESSAGE

SPARE = 4  # candidates beyond k, so that ties are broken by id; four times as many if they do not suffice
SMALL_GROWTH = 1.001  # the mean length may have grown by this factor for a word search to take as few candidates
MAX_CANDIDATES = 20_000  # where more than this many are equal, which of them are found is left to the shard


class ShardSearches:
    """Searches in a shard; part of ShardIndex."""

    checkpoint: Checkpoint
    _database: Database
    _rows: RowCache
    _candidates: Candidates
    _frequencies: frequencies.DocumentFrequencies

    def search_vectors(self, query: VectorQuery, state: CollectionState) -> RowScores:
        """The k rows of greatest cosine that the shard finds."""
        limit = query.k + SPARE
        while True:
            near = self._candidates.find(request_nearest(query, limit))
            is_tied = len(near) == limit and near[query.k - 1].score - near[-1].score <= order.SLACK
            if not is_tied or limit >= MAX_CANDIDATES:
                break
            limit *= 4
        read = self._rows.load_rows(state, [int(point.id) for point in near])
        cosines = compute_cosines(stack_vectors(read, self._database.dim), query.vector)
        return order.top_k([each[0] for each in read], [each[1] for each in read], cosines, query.k)

    def search_terms(self, query: TermQuery, state: CollectionState) -> RowScores:
        """The k rows of greatest BM25 score, with the collection's counts as of a state.

        The stored weights were computed with the average length of their time. With a longer average a score can be
        greater than the shard's, by no more than the ratio of the two; so when the k-th score is above what the last
        candidate could have, no other chunk is missing.
        """
        hashes, k = query.terms.hashes, query.k
        weights, growth = self._weigh_terms(query.terms, state), self._measure_growth(state)
        limit = _choose_limit(k, growth, len(weights))
        while True:
            near = self._candidates.find(request_matching(hashes, weights, limit, query.where))
            read = join_terms(self._rows.load_rows(state, [int(point.id) for point in near]))
            scores = score_rows_by_bm25(read, hashes, weights, state.average_length)
            is_complete = len(scores) >= k and np.partition(scores, -k)[-k] > near[-1].score * growth
            if is_complete or len(near) < limit or limit >= MAX_CANDIDATES:
                break
            limit *= 4
        best = order.top_k(read.rows, read.ids, scores, k)
        return [(row, score) for row, score in best if score]

    def search_ahead(
        self, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter, state: CollectionState
    ) -> list[int]:
        """Finds the candidates of searches that are made next, all in one pass; their rows."""
        growth = self._measure_growth(state)
        requests = [request_nearest(VectorQuery(vector, k, where), k + SPARE) for vector in vectors]
        for each in terms:
            weights = self._weigh_terms(each, state)
            limit = _choose_limit(k, growth, len(weights))
            requests.append(request_matching(each.hashes, weights, limit, where))
        rows = self._candidates.find_ahead(requests)
        self._rows.load_rows(state, rows)
        return rows

    def find_candidates(
        self,
        vectors: Matrix,
        terms: Sequence[PackedTerms],
        near: Depth,
        matching: Depth,
        where: Filter,
        state: CollectionState,
    ) -> list[RowCandidates] | None:
        """The candidates of each query; the shard is asked for all of them in one pass."""
        if len(vectors) > 1:
            known = [each for each in terms if len(each.hashes)]
            self.search_ahead(vectors, known, max(near.found, matching.found), where, state)
        found, is_complete = list[RowCandidates](), True
        for vector, words in zip(vectors, terms, strict=True):
            nearest = self.search_vectors(VectorQuery(vector, near.found, where), state)
            matched = self.search_terms(TermQuery(words, matching.found, where), state) if len(words.hashes) else []
            is_complete = is_complete and len(nearest) == near.found and len(matched) == matching.found
            made = self._measure_candidates(vector, words, nearest[: near.kept], matched[: matching.kept], state)
            if made is None:
                return None
            found.append(made)
        # Where fewer were found than asked for, rows may have been removed meanwhile.
        return found if is_complete or self._database.read_state().change == state.change else None

    def _measure_candidates(
        self, vector: Vector, words: PackedTerms, nearest: RowScores, matched: RowScores, state: CollectionState
    ) -> RowCandidates | None:
        """What is known of the rows that were found; None if one of them is gone."""
        places = {row: place for place, (row, _) in enumerate(nearest)}
        by_words = {places.setdefault(row, len(places)): score for row, score in matched}
        read = self._rows.load_rows(state, list(places))
        if len(read) != len(places):
            return None
        rest = compute_cosines(stack_vectors(read[len(nearest) :], self._database.dim), vector)
        cosines = np.concatenate([np.array([cosine for _, cosine in nearest], np.float64), rest])
        weights, average = self._weigh_terms(words, state), state.average_length
        signals = measure_rows(join_terms(read), words.hashes, weights, average)
        ids, has_messages = [each[1] for each in read], any(MESSAGE in each[2] for each in read)
        return RowCandidates(list(places), ids, has_messages, len(nearest), by_words, cosines, *signals)

    def match_terms(self, terms: PackedTerms, chunk_ids: Sequence[str], state: CollectionState) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the collection's counts as of a state."""
        read = join_terms(self._rows.load_chunks(state, chunk_ids))
        weights, average = self._weigh_terms(terms, state), state.average_length
        shares, strengths = measure_rows(read, terms.hashes, weights, average)
        return dict(zip(read.ids, map(TermMatch, shares.tolist(), strengths.tolist()), strict=True))

    def count_having(self, hashes: Hashes) -> list[int]:
        """How many chunks have each of the words."""
        return list(map(int, frequencies.get_document_frequencies(self._frequencies, hashes)))

    def _weigh_terms(self, terms: PackedTerms, state: CollectionState) -> Floats:
        """The weight of each term of a query."""
        return bm25.weigh_terms(terms.counts, self.count_having(terms.hashes), state.chunks)

    def _measure_growth(self, state: CollectionState) -> float:
        """By how much a score can be greater than the shard's."""
        return max(1.0, state.average_length / self.checkpoint.average) * 1.0001


def _choose_limit(k: int, growth: float, words: int) -> int:
    """How many candidates a search by so many words takes at first; with one word, many are equal."""
    is_precise = growth < SMALL_GROWTH and words > 1
    return k + SPARE if is_precise else max(2 * k, k + 50)
