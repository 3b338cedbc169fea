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
from clew.core.errors import DriverFailed
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Matrix, TermMatch, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.backend import Head, RowCandidates, RowScores
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.sqlite import frequencies, points, signals
from clew.drivers.store.sqlite.checkpoint import FILE as MARK
from clew.drivers.store.sqlite.checkpoint import SEAL, Checkpoint, Seal, has_right_seal, write_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import copy_file, delete_folder
from clew.drivers.store.sqlite.folder import measure_disk_usage
from clew.drivers.store.sqlite.points import (
    BrokenIndex,
    Candidates,
    request_matching,
    request_nearest,
    translate_errors,
)
from clew.drivers.store.sqlite.row_cache import RowCache, join_terms, measure_rows, score_rows_by_bm25, stack_vectors
from clew.drivers.store.sqlite.signals import MESSAGE, Tombstone
from clew.drivers.store.sqlite.vectors import stores_half

SAVE_EVERY = 5_000  # rows that are followed between two savings
DELETE_BATCH = 1_000
SPARE = 4  # candidates beyond k, so that ties are broken by id; four times as many if they do not suffice
SMALL_GROWTH = 1.001  # the mean length may have grown by this factor for a word search to take as few candidates
MAX_CANDIDATES = 20_000  # where more than this many are equal, which of them are found is left to the shard
MIN_FREE = 64 << 20  # bytes on the disk: the files are mapped, and on a full disk writing to them ends the process


class ShardIndex:
    """An open shard. The caller holds its lock."""

    name = "qdrant-edge shard"

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
        self._seal = Seal(folder)
        self._rows = rows or RowCache(database)
        with translate_errors():
            place = folder / "shard"
            is_new = not checkpoint.counts
            if not is_new and not is_copy and not has_right_seal(folder):
                raise BrokenIndex("its files are not as they were written, or were not finished")
            self._frequencies = (
                frequencies.EMPTY if is_new else frequencies.load_document_frequencies(folder / checkpoint.counts)
            )
            if not is_new:
                self._shard = edge.EdgeShard.load(str(place))
                if not is_copy:
                    self._seal.renew()
            else:
                place.mkdir(parents=True)
                self._check_room()
                with database.reader as db:
                    is_half = stores_half(db, checkpoint.dim)
                self._shard = edge.EdgeShard.create(str(place), points.make_config(checkpoint.dim, is_half=is_half))
                for made in points.make_field_indexes():
                    self._shard.update(made)
            self._candidates = Candidates(self._shard)

    def catch_up(self, state: CollectionState) -> None:
        """Applies every change of the database up to a state. Idempotent, so it can be repeated after a crash."""
        if self._has_followed(state):
            return
        with self._lock, translate_errors():
            if self._has_followed(state):
                return
            found = signals.read_tombstones(self._database, self.checkpoint.change, self.checkpoint.row, state)
            if found is None:
                raise BrokenIndex("it is too far behind to catch up")
            tombstones, filled = found
            self._check_room()
            self._seal.break_()
            self._remove_rows(tombstones)
            if filled.ids:
                self._shard.update(
                    edge.UpdateOperation.upsert_points(points.make_points(filled, self.checkpoint.average))
                )
            changed = len(tombstones) + len(filled.ids)
            self._advance_checkpoint(changed, change=max(self.checkpoint.change, state.change))
            for batch in signals.read_rows_in_batches(self._database, self.checkpoint.row, state):
                self._check_room()
                if batch.signals.ids:
                    made = points.make_points(batch.signals, self.checkpoint.average)
                    self._shard.update(edge.UpdateOperation.upsert_points(made))
                added = np.concatenate([batch.signals.terms, *batch.removed_terms])
                self._frequencies = frequencies.update_document_frequencies(self._frequencies, added)
                self._advance_checkpoint(len(batch.signals.ids), row=batch.last_row)
            self._candidates.forget()

    # -- searches

    def nearest(
        self, head: Head, vector: Vector, k: int, where: Filter, *, is_exact: bool = False, breadth: int | None = None
    ) -> RowScores:
        """The k rows of greatest cosine that the shard finds."""
        limit = k + SPARE
        while True:
            near = self._candidates.find(request_nearest(vector, limit, where, is_exact=is_exact, breadth=breadth))
            is_tied = len(near) == limit and near[k - 1].score - near[-1].score <= order.SLACK
            if not is_tied or limit >= MAX_CANDIDATES:
                break
            limit *= 4
        read = self._rows.load_rows(head, [int(point.id) for point in near])
        cosines = compute_cosines(stack_vectors(read, self._database.dim), vector)
        return order.top_k([each[0] for each in read], [each[1] for each in read], cosines, k)

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """The k rows of greatest BM25 score, with the collection's counts as of a head.

        The stored weights were computed with the average length of their time. With a longer average a score can be
        greater than the shard's, by no more than the ratio of the two; so when the k-th score is above what the last
        candidate could have, no other chunk is missing.
        """
        hashes = terms.hashes
        weights, growth = self._weigh_terms(terms, head), self._measure_growth(head)
        limit = _choose_limit(k, growth, len(weights))
        while True:
            near = self._candidates.find(request_matching(hashes, weights, limit, where))
            read = join_terms(self._rows.load_rows(head, [int(point.id) for point in near]))
            scores = score_rows_by_bm25(read, hashes, weights, head.average_length)
            is_complete = len(scores) >= k and np.partition(scores, -k)[-k] > near[-1].score * growth
            if is_complete or len(near) < limit or limit >= MAX_CANDIDATES:
                break
            limit *= 4
        best = order.top_k(read.rows, read.ids, scores, k)
        return [(row, score) for row, score in best if score]

    def begin(self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], k: int, where: Filter) -> list[int]:
        """Finds the candidates of searches that are made next, all in one pass; their rows."""
        growth = self._measure_growth(head)
        requests = [request_nearest(vector, k + SPARE, where) for vector in vectors]
        for each in terms:
            weights = self._weigh_terms(each, head)
            limit = _choose_limit(k, growth, len(weights))
            requests.append(request_matching(each.hashes, weights, limit, where))
        rows = self._candidates.find_ahead(requests)
        self._rows.load_rows(head, rows)
        return rows

    def candidates(
        self, head: Head, vectors: Matrix, terms: Sequence[PackedTerms], near: Depth, matching: Depth, where: Filter
    ) -> list[RowCandidates] | None:
        """The candidates of each query; the shard is asked for all of them in one pass."""
        if len(vectors) > 1:
            known = [each for each in terms if len(each.hashes)]
            self.begin(head, vectors, known, max(near.found, matching.found), where)
        found, is_complete = list[RowCandidates](), True
        for vector, words in zip(vectors, terms, strict=True):
            nearest = self.nearest(head, vector, near.found, where)
            matched = self.matching(head, words, matching.found, where) if len(words.hashes) else []
            is_complete = is_complete and len(nearest) == near.found and len(matched) == matching.found
            made = self._measure_candidates(head, vector, words, nearest[: near.kept], matched[: matching.kept])
            if made is None:
                return None
            found.append(made)
        # Where fewer were found than asked for, rows may have been removed meanwhile.
        return found if is_complete or self._database.read_state().change == head.change else None

    def _measure_candidates(
        self, head: Head, vector: Vector, words: PackedTerms, nearest: RowScores, matched: RowScores
    ) -> RowCandidates | None:
        """What is known of the rows that were found; None if one of them is gone."""
        places = {row: place for place, (row, _) in enumerate(nearest)}
        by_words = {places.setdefault(row, len(places)): score for row, score in matched}
        read = self._rows.load_rows(head, list(places))
        if len(read) != len(places):
            return None
        rest = compute_cosines(stack_vectors(read[len(nearest) :], self._database.dim), vector)
        cosines = np.concatenate([np.array([cosine for _, cosine in nearest], np.float64), rest])
        weights, average = self._weigh_terms(words, head), head.average_length
        measured = measure_rows(join_terms(read), words.hashes, weights, average)
        ids, has_messages = [each[1] for each in read], any(MESSAGE in each[2] for each in read)
        return RowCandidates(list(places), ids, has_messages, len(nearest), by_words, cosines, *measured)

    def match_terms(self, head: Head, terms: PackedTerms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well those of the chunks that exist match terms, with the collection's counts as of a head."""
        read = join_terms(self._rows.load_chunks(head, chunk_ids))
        weights, average = self._weigh_terms(terms, head), head.average_length
        shares, strengths = measure_rows(read, terms.hashes, weights, average)
        return dict(zip(read.ids, map(TermMatch, shares.tolist(), strengths.tolist()), strict=True))

    def count_having(self, hashes: Hashes) -> list[int]:
        """How many chunks have each of the words."""
        return list(map(int, frequencies.get_document_frequencies(self._frequencies, hashes)))

    def _weigh_terms(self, terms: PackedTerms, head: Head) -> Floats:
        """The weight of each term of a query."""
        return bm25.weigh_terms(terms.counts, self.count_having(terms.hashes), head.chunks)

    def _measure_growth(self, head: Head) -> float:
        """By how much a score can be greater than the shard's."""
        return max(1.0, head.average_length / self.checkpoint.average) * 1.0001

    # -- upkeep

    def count_words(self) -> frequencies.CountTable:
        """How many chunks have each word, as this index has counted them."""
        return frequencies.merge_document_frequencies(self._frequencies)

    def count_chunks(self) -> int:
        """How many chunks are in the shard."""
        with translate_errors():
            return self._shard.count(edge.CountRequest(exact=True))

    def has_chunks(self, number: int) -> bool:
        """Whether so many chunks are in the shard."""
        with translate_errors():
            known = self._shard.info().points_count  # at once; one that a kill left in two segments is in it twice
        return known == number or self.count_chunks() == number

    def build_graph(self) -> None:
        """Builds the HNSW graph. Holds the interpreter's lock, perhaps for a minute."""
        with self._lock, translate_errors():
            self._check_room(measure_disk_usage(self.folder))
            self._seal.break_()
            self._shard.optimize()
            self._candidates.forget()
            self.checkpoint = replace(self.checkpoint, unindexed=0)
            self._saved = replace(self._saved, change=-1)

    def save(self) -> None:
        """Saves the shard and its checkpoint; returns when both are safe on disk.

        Changes may go on while its seal is made; then the next saving seals it.
        """
        with self._lock, translate_errors():
            self._save_unsealed()
            breaks = self._seal.breaks
        with translate_errors():
            self._seal.write(self._lock, breaks)

    def _save_unsealed(self) -> None:
        if self.checkpoint != self._saved:
            self._seal.break_()
            self._shard.flush()
            old, name = self.checkpoint.counts, f"counts-{self.checkpoint.row}-{self.checkpoint.change}.npy"
            frequencies.save_document_frequencies(self.folder / name, self._frequencies)
            self.checkpoint = self._saved = replace(self.checkpoint, counts=name)
            write_checkpoint(self.folder, self.checkpoint)
            if old and old != name:
                (self.folder / old).unlink(missing_ok=True)

    def copy_to(self, target: Path) -> Checkpoint:
        """Copies the saved shard to another folder and returns its checkpoint, which the copy has not.

        So nobody takes the copy for a shard that is finished. Searches and changes go on meanwhile; if there
        were changes, it is copied once more, and they wait.
        """
        is_copied = False
        with self._lock, translate_errors():
            self._save_unsealed()
            breaks = self._seal.breaks
        with suppress(OSError):  # files come and go where it changes, and it is copied once more
            self._copy_files(target)
            is_copied = True
        with self._lock, translate_errors():
            if not is_copied or breaks != self._seal.breaks:
                delete_folder(target)
                self._save_unsealed()
                self._copy_files(target)
            return self.checkpoint

    def _copy_files(self, target: Path) -> None:
        (target / "shard").mkdir(parents=True)
        left_out = shutil.ignore_patterns(f"{MARK}*", f"{SEAL}*")
        try:
            shutil.copytree(self.folder, target, ignore=left_out, copy_function=copy_file, dirs_exist_ok=True)
        except shutil.Error as error:
            _, _, reason = error.args[0][0]  # of the first file; it names all of them
            raise OSError(reason) from error

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
                self._seal.write(self._lock, self._seal.breaks)

    def _check_room(self, size: int = 0) -> None:
        """Raises DriverFailed if the disk has no room for so many bytes."""
        free = shutil.disk_usage(self.folder).free
        if free < MIN_FREE + size:
            raise DriverFailed(
                f"{self.folder.parent}: the disk has {free >> 20} MB free, and to write the index "
                f"{(MIN_FREE + size) >> 20} MB are needed; make room"
            )

    def _has_followed(self, state: CollectionState) -> bool:
        return self.checkpoint.change >= state.change and self.checkpoint.row >= state.last

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
            self._save_unsealed()


def _choose_limit(k: int, growth: float, words: int) -> int:
    """How many candidates a search by so many words takes at first; with one word, many are equal."""
    is_precise = growth < SMALL_GROWTH and words > 1
    return k + SPARE if is_precise else max(2 * k, k + 50)
