"""The shard index: a qdrant-edge shard that follows the database, for collections too large for the exact index.

The shard only proposes candidates. Their scores are computed from the database, so they are the same as anywhere else;
for words it is also checked that nothing beyond the candidates could have scored better.
"""

import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import qdrant_edge as edge

from clew.core.candidates import Depth
from clew.core.cosine import compute_cosines
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.embedded import frequencies, points, signals
from clew.drivers.store.embedded.candidates import Candidates, request_matching, request_nearest, translate_errors
from clew.drivers.store.embedded.checkpoint import FILE as MARK
from clew.drivers.store.embedded.checkpoint import Checkpoint, write_checkpoint
from clew.drivers.store.embedded.database import CollectionState, Database
from clew.drivers.store.embedded.index import BrokenIndex, RowCandidates, RowScores, TermQuery, VectorQuery
from clew.drivers.store.embedded.row_cache import RowCache, join_terms, stack_vectors
from clew.drivers.store.embedded.row_scores import measure_rows, score_rows_by_bm25
from clew.drivers.store.embedded.seal import SEAL, break_seal, has_right_seal, write_seal
from clew.drivers.store.embedded.signals import Tombstone
from clew.drivers.store.embedded.sparse import copy_file

SPARE = 4  # candidates beyond k, so that ties are broken by id; four times as many if they do not suffice
SMALL_GROWTH = 1.001  # the mean length may have grown by this factor for a word search to take as few candidates
MAX_CANDIDATES = 20_000  # where more than this many are equal, which of them are found is left to the shard
SAVE_EVERY = 5_000  # rows: what is replayed at most after a crash
DELETE_BATCH = 1_000


class ShardIndex:
    """An open shard. The caller holds its lock."""

    name = "qdrant-edge shard"
    rereads = True

    def __init__(
        self,
        folder: Path,
        database: Database,
        checkpoint: Checkpoint,
        *,
        rows: RowCache | None = None,
        is_copy: bool = False,
    ) -> None:
        """Opens the shard in a folder, or one that was copied there, or creates one if the checkpoint is a new one."""
        self.checkpoint = checkpoint
        self.folder = folder
        self._database = database
        self._lock = threading.RLock()
        self._saved = checkpoint
        self._rows = rows or RowCache(database)
        with translate_errors():
            place = folder / "shard"
            is_new = not checkpoint.counts
            if not is_new and not has_right_seal(folder, without=MARK if is_copy else ""):
                raise BrokenIndex("its files are not as they were written, or were not finished")
            self._frequencies = (
                frequencies.EMPTY if is_new else frequencies.load_document_frequencies(folder / checkpoint.counts)
            )
            if not is_new:
                self._shard = edge.EdgeShard.load(str(place))
            else:
                place.mkdir(parents=True)
                self._shard = edge.EdgeShard.create(str(place), points.make_config(checkpoint.dim, database.embedder))
                for name, kind in (("facets", edge.KeywordIndexParams()), ("at", edge.FloatIndexParams())):
                    self._shard.update(edge.UpdateOperation.create_field_index(name, kind))
            self._candidates = Candidates(self._shard)

    def catch_up(self, state: CollectionState) -> None:
        """Applies every change of the database up to a state. Idempotent, so it can be repeated after a crash."""
        with self._lock, translate_errors():
            if self.checkpoint.change >= state.change and self.checkpoint.row >= state.last_row:
                return
            tombstones = signals.read_tombstones(self._database, self.checkpoint.change, state)
            if tombstones is None:
                raise BrokenIndex("it is too far behind to catch up")
            break_seal(self.folder)
            self._remove_rows(tombstones)
            self._advance_checkpoint(len(tombstones), change=max(self.checkpoint.change, state.change))
            for batch in signals.read_rows_in_batches(self._database, self.checkpoint.row, state):
                if batch.signals.ids:
                    made = points.make_points(batch.signals, self.checkpoint.average)
                    self._shard.update(edge.UpdateOperation.upsert_points(made))
                added = np.concatenate([batch.signals.terms, *batch.removed_terms])
                self._frequencies = frequencies.update_document_frequencies(self._frequencies, added)
                self._advance_checkpoint(len(batch.signals.ids), row=batch.last_row)
            self._candidates.forget()

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
            scores = score_rows_by_bm25(read, hashes, weights, state.average_chunk_length)
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
        return found if is_complete or self._database.read_state_anew().change == state.change else None

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
        weights, average = self._weigh_terms(words, state), state.average_chunk_length
        signals = measure_rows(join_terms(read), words.hashes, weights, average)
        return RowCandidates(list(places), len(nearest), by_words, cosines, *signals)

    def match_terms(self, terms: PackedTerms, chunk_ids: Sequence[str], state: CollectionState) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the collection's counts as of a state."""
        read = join_terms(self._rows.load_chunks(state, chunk_ids))
        weights, average = self._weigh_terms(terms, state), state.average_chunk_length
        shares, strengths = measure_rows(read, terms.hashes, weights, average)
        return dict(zip(read.ids, map(TermMatch, shares.tolist(), strengths.tolist()), strict=True))

    def count_having(self, hashes: Hashes) -> list[int]:
        """How many chunks have each of the words."""
        return list(map(int, frequencies.get_document_frequencies(self._frequencies, hashes)))

    def count_words(self) -> frequencies.CountTable:
        """How many chunks have each word, as this index has counted them."""
        return frequencies.merge_document_frequencies(self._frequencies)

    def count_chunks(self) -> int:
        """How many chunks are in the shard."""
        with translate_errors():
            return self._shard.count(edge.CountRequest(exact=True))

    def build_graph(self) -> None:
        """Builds the HNSW graph. Holds the interpreter's lock, perhaps for a minute."""
        with self._lock, translate_errors():
            break_seal(self.folder)
            self._shard.optimize()
            self._candidates.forget()
            self.checkpoint = replace(self.checkpoint, unindexed=0)
            self._saved = replace(self._saved, change=-1)

    def save(self) -> None:
        """Saves the shard and its checkpoint; returns when both are safe on disk."""
        with self._lock, translate_errors():
            if self.checkpoint != self._saved:
                break_seal(self.folder)
                self._shard.flush()
                old, name = self.checkpoint.counts, f"counts-{self.checkpoint.row}-{self.checkpoint.change}.npy"
                frequencies.save_document_frequencies(self.folder / name, self._frequencies)
                self.checkpoint = self._saved = replace(self.checkpoint, counts=name)
                write_checkpoint(self.folder, self.checkpoint)
                if old and old != name:
                    (self.folder / old).unlink(missing_ok=True)
                write_seal(self.folder)

    def copy_to(self, target: Path) -> Checkpoint:
        """Copies the saved shard to another folder and returns its checkpoint, which the copy has not.

        So nobody takes the copy for a shard that is finished. Searches and changes go on meanwhile: a copy of files
        that were changed does not match its seal.
        """
        with self._lock, translate_errors():
            self.save()
            checkpoint, seal = self.checkpoint, (self.folder / SEAL).read_bytes()
        with translate_errors():
            (target / "shard").mkdir(parents=True)
            left_out = shutil.ignore_patterns(MARK, SEAL)
            shutil.copytree(self.folder, target, ignore=left_out, copy_function=copy_file, dirs_exist_ok=True)
            (target / SEAL).write_bytes(seal)
        return checkpoint

    def close_without_saving(self) -> None:
        """Closes the shard without saving."""
        with self._lock, suppress(Exception):
            self._shard.close()

    def save_and_close(self) -> None:
        """Saves and closes the shard."""
        with self._lock:
            try:
                self.save()
            finally:
                with translate_errors():
                    self._shard.close()
            with translate_errors():
                write_seal(self.folder)

    def _weigh_terms(self, terms: PackedTerms, state: CollectionState) -> Floats:
        """The weight of each term of a query."""
        return bm25.weigh_terms(terms.counts, self.count_having(terms.hashes), state.chunks)

    def _measure_growth(self, state: CollectionState) -> float:
        """By how much a score can be greater than the shard's."""
        return max(1.0, state.average_chunk_length / self.checkpoint.average) * 1.0001

    def _remove_rows(self, tombstones: list[Tombstone]) -> None:
        """Deletes rows; those that were added and removed since it last caught up were never in it."""
        rows: list[int | UUID | str] = [row for row, _ in tombstones]
        for start in range(0, len(rows), DELETE_BATCH):
            self._shard.update(edge.UpdateOperation.delete_points(rows[start : start + DELETE_BATCH]))
        removed = [terms for row, terms in tombstones if row <= self.checkpoint.row]
        self._frequencies = frequencies.update_document_frequencies(self._frequencies, np.empty(0, np.int64), removed)

    def _advance_checkpoint(self, rows: int, *, row: int | None = None, change: int | None = None) -> None:
        """Moves the checkpoint after so many rows were added or removed, and saves it now and then."""
        now = self.checkpoint
        self.checkpoint = replace(
            now,
            row=now.row if row is None else row,
            change=now.change if change is None else change,
            unindexed=now.unindexed + rows,
        )
        if self.checkpoint.unindexed - self._saved.unindexed > SAVE_EVERY:
            self.save()


def _choose_limit(k: int, growth: float, words: int) -> int:
    """How many candidates a search by so many words takes at first; with one word, many are equal."""
    is_precise = growth < SMALL_GROWTH and words > 1
    return k + SPARE if is_precise else max(2 * k, k + 50)
