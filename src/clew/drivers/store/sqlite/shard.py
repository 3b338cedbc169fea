"""The shard index: a qdrant-edge shard that follows the database, for collections too large for the exact index.

The shard only proposes candidates. Scores are computed from the database, so they are the same as anywhere else. A word
search also checks that no other chunk could have scored better.
"""

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import qdrant_edge as edge

from clew.core.candidates import Gone
from clew.core.errors import DriverFailed
from clew.core.facets import Condition, expand_filter
from clew.core.filter import Filter
from clew.core.stored import Hashes, PackedTerms
from clew.core.types import Vector
from clew.drivers.store import bm25, scan
from clew.drivers.store.backend import Effort, Head, Queries, RowCandidates, RowScores
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.rows import hash_facet
from clew.drivers.store.scan import PrefixCache, compute_cosines, join_rankings, search_rankings
from clew.drivers.store.sqlite import signals
from clew.drivers.store.sqlite.checkpoint import FILE as MARK
from clew.drivers.store.sqlite.checkpoint import SEAL, Checkpoint, Seal, has_right_seal, write_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import copy_file, delete_folder
from clew.drivers.store.sqlite.folder import measure_disk_usage
from clew.drivers.store.sqlite.signals import (
    MESSAGE,
    ChunkSignals,
    RowCache,
    StoredRow,
    WordCounts,
    join_terms,
    stack_vectors,
    stores_half,
)

SAVE_EVERY = 5_000  # changed rows between saves
DELETE_BATCH = 1_000
SPARE = 4  # candidates beyond k, so that ties are broken by id; if they do not suffice, four times as many
SMALL_GROWTH = 1.001  # the mean length may grow by this factor before a word search needs more candidates
MAX_CANDIDATES = 20_000  # with more ties than this, the shard chooses among them
MIN_FREE = 64 << 20  # bytes: the files are memory-mapped, and writing to them on a full disk kills the process
LOW_BITS = 0xFFFFFFFF  # the indices of a sparse vector have 32 bits
DENSE, TERMS = "dense", "terms"
BREADTH = 192  # candidates of a search in the graph: recall@10 is .98 to .99 at 100,000 chunks, .96 with 64
# With a filter, also visit neighbours of excluded rows, at any selectivity. For a filter that admits half, recall@10
# rises from .95 to .997, and a search takes 1.7 times as long.
FILTERED = edge.AcornSearchParams(enable=True, max_selectivity=1.0)


class BrokenIndex(Exception):
    """The index failed. It can be rebuilt from the database."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn exceptions of the shard into BrokenIndex, even panics, which are no `Exception`."""
    try:
        yield
    except (OSError, ValueError, EOFError) as error:
        raise BrokenIndex(str(error)) from error
    except BaseException as error:
        if type(error) is Exception or type(error).__name__ == "PanicException":
            raise BrokenIndex(str(error)) from error
        raise


@dataclass(frozen=True, slots=True)
class Request:
    """A query to the shard, and its cache key; `breadth` is None for a word search."""

    key: bytes
    query: edge.Query
    limit: int
    where: Filter
    breadth: int | None = None
    is_exact: bool = False


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
        """Open the shard in a folder, or create one for an empty checkpoint; a copy (`is_copy`) needs no seal."""
        self.checkpoint = self._saved = checkpoint
        self.folder = folder
        self._database, self._rows = database, rows or RowCache(database)
        self._lock = threading.RLock()
        self._seal = Seal(folder)
        self._known, self._version = PrefixCache[edge.ScoredPoint](), 0
        self._missed = frozenset[int]()  # rows of the followed state that were removed before they were read
        with translate_errors():
            if not checkpoint.counts:
                self.counts, self._shard = WordCounts(), self._create_shard()
                return
            if not is_copy and not has_right_seal(folder):
                raise BrokenIndex("its files are not as they were written, or were not finished")
            self.counts = signals.load_word_counts(folder / checkpoint.counts)
            self._shard = edge.EdgeShard.load(str(folder / "shard"))
            if not is_copy:
                self._seal.renew()

    def _create_shard(self) -> edge.EdgeShard:
        place, dim = self.folder / "shard", self.checkpoint.dim
        place.mkdir(parents=True)
        self._check_room()
        with self._database.reader as db:
            made = edge.EdgeShard.create(str(place), make_config(dim, is_half=stores_half(db, dim)))
        facets = edge.IntegerIndexParams(lookup=True, range=False, memory=edge.Memory.Cached)
        for name, params in (("facets", facets), ("at", edge.FloatIndexParams(memory=edge.Memory.Cached))):
            made.update(edge.UpdateOperation.create_field_index(name, params))
        return made

    # -- following

    def catch_up(self, state: CollectionState) -> None:
        """Apply every change of the database up to a state. Idempotent: it can be repeated after a crash."""
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
            rows = [row for row, _ in tombstones]
            for start in range(0, len(rows), DELETE_BATCH):
                self._shard.update(edge.UpdateOperation.delete_points([*rows[start : start + DELETE_BATCH]]))
            # Rows added and removed since the last catch-up were never in the shard.
            removed = [terms for row, terms in tombstones if row <= self.checkpoint.row]
            self.counts.update(np.empty(0, np.int64), removed)
            self._upsert(filled)
            self._missed = self._missed.difference(rows)
            change = max(self.checkpoint.change, state.change)
            self._advance_checkpoint(len(rows) + len(filled.facets), self.checkpoint.row, change)
            for row, batch, gone in signals.read_rows_in_batches(self._database, self.checkpoint.row, state):
                self._check_room()
                self._upsert(batch)
                self.counts.update(np.concatenate([batch.terms.hashes, *(terms for _, terms in gone)]))
                self._missed = self._missed.union(each for each, _ in gone)
                self._advance_checkpoint(len(batch.facets), row, change)
            self._forget_searches()

    def _has_followed(self, state: CollectionState) -> bool:
        return self.checkpoint.change >= state.change and self.checkpoint.row >= state.last

    def _upsert(self, batch: ChunkSignals) -> None:
        if batch.facets:
            self._shard.update(edge.UpdateOperation.upsert_points(make_points(batch, self.checkpoint.average)))

    def _advance_checkpoint(self, changed: int, row: int, change: int) -> None:
        """Advance the checkpoint after `changed` rows were added or removed, and save it from time to time."""
        unindexed = self.checkpoint.unindexed + changed
        self.checkpoint = replace(self.checkpoint, row=row, change=change, unindexed=unindexed)
        if unindexed - self._saved.unindexed > SAVE_EVERY:
            self._save_unsealed()

    def _forget_searches(self) -> None:
        self._version += 1
        self._known.clear()

    def _check_room(self, size: int = 0) -> None:
        """Raise DriverFailed if the disk lacks room for `size` bytes."""
        free = shutil.disk_usage(self.folder).free
        if free < MIN_FREE + size:
            raise DriverFailed(
                f"{self.folder.parent}: the disk has {free >> 20} MB free, and to write the index "
                f"{(MIN_FREE + size) >> 20} MB are needed; make room"
            )

    # -- searches

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k rows with the highest cosine in the shard."""
        limit = k + SPARE
        while True:
            near = self._find(request_nearest(vector, limit, where, effort))
            is_tied = len(near) == limit and near[k - 1].score - near[-1].score <= scan.SLACK
            if not is_tied or limit >= MAX_CANDIDATES:
                break
            limit *= 4
        read = self._rows.load_rows(head, [int(point.id) for point in near])
        _check_none_gone(len(read), near, k)
        cosines = compute_cosines(stack_vectors(read, self._database.dim), vector)
        return scan.top_k([each[0] for each in read], [each[1] for each in read], cosines, k)

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k rows with the highest BM25 score, with the collection's counts as of a head.

        The stored weights were computed with an earlier average length. With a longer average, a score exceeds the
        shard's at most by the ratio of the two averages. So if the k-th score is above the possible score of the last
        candidate, no chunk is missing.
        """
        weights, growth = self._weigh_terms(terms, head), self._measure_growth(head)
        request = self._request_matching(head, terms, weights, k, where)
        while True:
            near = self._find(request)
            read = join_terms(self._rows.load_rows(head, [int(point.id) for point in near]))
            _check_none_gone(len(read.ids), near, k)
            scored = read.score(read.find_terms(terms.hashes), weights, head.average_length)
            scores = scored.sum_by_chunk(len(read.ids)).round(bm25.DIGITS)
            is_complete = len(scores) >= k and np.partition(scores, -k)[-k] > near[-1].score * growth
            if is_complete or len(near) < request.limit or request.limit >= MAX_CANDIDATES:
                break
            request = replace(request, limit=4 * request.limit)
        best = scan.top_k(read.rows.tolist(), read.ids, scores, k)
        return [(row, score) for row, score in best if score]

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find the candidates of each query, with one batch query to the shard."""
        found, given = list[RowCandidates](), [each[0] for each in self._rows.load_chunks(head, queries.chunk_ids)]
        self._search_ahead(head, queries)
        for vector, words in zip(queries.vectors, queries.terms, strict=True):
            joined = join_rankings(*search_rankings(self, head, vector, words, queries), given)
            read = self._rows.load_rows(head, joined.rows)
            if len(read) != len(joined.rows):
                raise Gone("a row that was found")
            found.append(
                RowCandidates(
                    joined.rows,
                    [each[1] for each in read],
                    np.array([MESSAGE in each[2] for each in read], bool),
                    *joined[1:],
                    compute_cosines(stack_vectors(read, self._database.dim), vector),
                    *self._measure(head, words, read),
                )
            )
        return found

    def _search_ahead(self, head: Head, queries: Queries) -> None:
        """Run the queries of all rankings in one batch and cache the results."""
        version, requests = self._version, list[Request]()
        for vector, words in zip(queries.vectors, queries.terms, strict=True):
            weights = self._weigh_terms(words, head)
            for where, near, matching in queries.rankings:
                requests.append(request_nearest(vector, near + SPARE, where, queries.effort))
                if len(words.hashes):
                    requests.append(self._request_matching(head, words, weights, matching, where))
        for request, points in zip(requests, self._query(requests), strict=True):
            self._known.put(request.key, self._how(request, version), request.limit, points)

    def count_having(self, hashes: Hashes) -> list[int]:
        """Count, for each word, the chunks that have it."""
        return self.counts.count(hashes)

    def _measure(self, head: Head, terms: PackedTerms, read: Sequence[StoredRow]) -> tuple[Floats, Floats]:
        joined, weights = join_terms(read), self._weigh_terms(terms, head)
        scored = joined.score(joined.find_terms(terms.hashes), weights, head.average_length)
        return scored.measure(len(read))

    def _weigh_terms(self, terms: PackedTerms, head: Head) -> Floats:
        return bm25.weigh_terms(terms.counts, self.count_having(terms.hashes), head.chunks)

    def _measure_growth(self, head: Head) -> float:
        """Return the factor by which a score can exceed the shard's."""
        return max(1.0, head.average_length / self.checkpoint.average) * 1.0001

    def _request_matching(self, head: Head, terms: PackedTerms, weights: Floats, k: int, where: Filter) -> Request:
        """Make the request for a word search; with one word, expect many ties."""
        is_precise = self._measure_growth(head) < SMALL_GROWTH and len(weights) > 1
        limit = k + SPARE if is_precise else max(2 * k, k + 50)
        nearest = edge.Query.Nearest(make_sparse_vector(terms.hashes, weights.tolist()), using=TERMS)
        return Request(terms.hashes.tobytes() + weights.tobytes(), nearest, limit, where)

    def _find(self, request: Request) -> list[edge.ScoredPoint]:
        """Find the points for a request, best first, with a cache."""
        how = self._how(request, self._version)
        found = self._known.get(request.key, how, request.limit)
        if found is None:
            (found,) = self._query([request])
            self._known.put(request.key, how, request.limit, found)
        return found

    def _how(self, request: Request, version: int) -> tuple[object, ...]:
        """Return the rest of the cache key. Expand the filter, since filters with 1 and True in meta are equal."""
        return version, expand_filter(request.where), request.breadth, request.is_exact

    def _query(self, requests: Sequence[Request]) -> list[list[edge.ScoredPoint]]:
        """Query the points for requests, none if a filter admits nothing; Gone while rows are missed."""
        if self._missed:
            raise Gone("a row that was removed while it was followed")
        alternatives = [expand_filter(each.where) for each in requests]
        made = [make_query(each, make_filter(own)) for each, own in zip(requests, alternatives, strict=True) if own]
        with translate_errors():
            if len(made) > 1:
                found = iter(self._shard.query_batch(edge.QueryBatchRequest(made)))
            else:
                found = iter([self._shard.query(each) for each in made])
            return [next(found) if own else [] for own in alternatives]

    # -- upkeep

    def count_chunks(self) -> int:
        """Count the chunks in the shard."""
        with translate_errors():
            return self._shard.count(edge.CountRequest(exact=True))

    def has_chunks(self, number: int) -> bool:
        """Return whether the shard has `number` chunks."""
        with translate_errors():
            known = self._shard.info().points_count  # fast; counts a point twice if a kill left it in two segments
        return known == number or self.count_chunks() == number

    def build_graph(self) -> None:
        """Build the HNSW graph. This may hold the GIL for a minute."""
        with self._lock, translate_errors():
            self._check_room(measure_disk_usage(self.folder))
            self._seal.break_()
            self._shard.optimize()
            self._forget_searches()
            self.checkpoint = replace(self.checkpoint, unindexed=0)
            self._saved = replace(self._saved, change=-1)

    def save(self) -> None:
        """Save the shard and its checkpoint to disk, and seal it unless it is changed meanwhile."""
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
            self.counts.save(self.folder / name)
            self.checkpoint = self._saved = replace(self.checkpoint, counts=name)
            write_checkpoint(self.folder, self.checkpoint)
            if old and old != name:
                (self.folder / old).unlink(missing_ok=True)

    def copy_to(self, target: Path) -> Checkpoint:
        """Copy the saved shard to another folder, without its checkpoint, and return the checkpoint.

        Without a checkpoint, nobody takes the copy for a finished shard. Searches and changes continue meanwhile; after
        changes it is copied again, and further changes wait.
        """
        is_copied = False
        with self._lock, translate_errors():
            self._save_unsealed()
            breaks = self._seal.breaks
        with suppress(OSError):  # a change may delete files; then the shard is copied again below
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
            _, _, reason = error.args[0][0]  # of the first failed file
            raise OSError(reason) from error

    def close_without_saving(self) -> None:
        """Close the shard without saving."""
        with self._lock, suppress(Exception):
            self._shard.close()

    def save_and_close(self) -> None:
        """Save and close the shard."""
        with self._lock:
            try:
                self.save()
            finally:
                with translate_errors():
                    self._shard.close()
            with translate_errors():
                self._seal.write(self._lock, self._seal.breaks)


def _check_none_gone(read: int, near: Sequence[edge.ScoredPoint], k: int) -> None:
    """Raise Gone if found rows were removed meanwhile, so that fewer than k are left."""
    if read < min(k, len(near)):
        raise Gone("a row that was found")


# -- chunks, filters and words in the format of the shard


def make_config(dim: int, *, is_half: bool) -> edge.EdgeConfig:
    """Make the settings of a shard for vectors of this dimension and precision."""
    kind = edge.VectorStorageDatatype.Float16 if is_half else edge.VectorStorageDatatype.Float32
    # Map everything instead of reading it into memory: searches are as fast, and a shard opens in half the time.
    return edge.EdgeConfig(
        # For unit vectors the inner product is the cosine.
        vectors={DENSE: edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot, datatype=kind)},
        sparse_vectors={TERMS: edge.EdgeSparseVectorParams(memory=edge.Memory.Cached)},
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=1000),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1000, default_segment_number=1),
        id_tracker_memory=edge.Memory.Cached,
        wal_enabled=False,
    )


def make_points(batch: ChunkSignals, average: float) -> list[edge.Point]:
    """Make the points of chunks, with word weights for this average length."""
    terms, made, end = batch.terms, list[edge.Point](), 0
    weights = bm25.saturate(terms.counts.astype(np.float32), bm25.length_norm(terms.lengths, average)[terms.owners])
    words, sizes = terms.hashes & LOW_BITS, np.bincount(terms.owners, minlength=len(batch.facets)).tolist()
    for at, (row, size) in enumerate(zip(terms.rows.tolist(), sizes, strict=True)):
        start, end = end, end + size
        merged = dict(zip(words[start:end].tolist(), weights[start:end].tolist(), strict=True))
        payload: dict[str, object] = {"facets": list(map(hash_facet, batch.facets[at]))}
        if not np.isnan(batch.seconds[at]):
            payload["at"] = float(batch.seconds[at])
        sparse = edge.SparseVector(list(merged), list(merged.values()))
        dense = {} if np.isnan(batch.vectors[at, 0]) else {DENSE: batch.vectors[at].tolist()}
        made.append(edge.Point(row, {**dense, TERMS: sparse}, payload))
    return made


@lru_cache(32)
def make_filter(alternatives: tuple[Condition, ...]) -> edge.Filter | None:
    """Make the filter that admits a point if one of the conditions does; None if every point is admitted."""
    if any(each.is_empty for each in alternatives):
        return None
    made = [_make_condition_filter(each) for each in alternatives]
    return made[0] if len(made) == 1 else edge.Filter(should=list(made))


def _make_condition_filter(condition: Condition) -> edge.Filter:
    must = [
        edge.FieldCondition("facets", match=edge.MatchAny(list(map(hash_facet, group)))) for group in condition.groups
    ]
    if condition.is_timed:
        must.append(edge.FieldCondition("at", range=edge.RangeFloat(gte=condition.since, lt=condition.until)))
    return edge.Filter(must=list(must))


def request_nearest(vector: Vector, limit: int, where: Filter, effort: Effort) -> Request:
    """Make the request for the nearest points."""
    nearest = edge.Query.Nearest(vector.tolist(), using=DENSE)
    return Request(vector.tobytes(), nearest, limit, where, max(effort.breadth or BREADTH, limit), effort.is_exact)


def make_query(request: Request, where: edge.Filter | None) -> edge.QueryRequest:
    """Convert a request to the format of the shard."""
    params = None
    if request.breadth is not None:
        params = edge.SearchParams(hnsw_ef=request.breadth, exact=request.is_exact, acorn=FILTERED)
    return edge.QueryRequest(limit=request.limit, query=request.query, filter=where, params=params)


def make_sparse_vector(hashes: Hashes, weights: list[float]) -> edge.SparseVector:
    """Make a sparse vector indexed by the low half of each hash, adding the weights of colliding words."""
    low = (hashes & LOW_BITS).tolist()
    merged = dict.fromkeys(low, 0.0)
    for word, weight in zip(low, weights, strict=True):
        merged[word] += weight
    return edge.SparseVector(list(merged), list(merged.values()))
