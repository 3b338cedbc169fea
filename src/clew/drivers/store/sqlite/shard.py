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
from itertools import chain
from operator import is_
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
from clew.drivers.store.bm25 import Floats, TermScores
from clew.drivers.store.rows import hash_facet, pack_terms
from clew.drivers.store.scan import PrefixCache, compute_cosines, join_rankings
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
    """A query to the shard for the k best points, and its cache key; `breadth` is None for a word search."""

    key: bytes
    query: edge.Query
    k: int
    limit: int
    where: Filter
    breadth: int | None = None
    is_exact: bool = False

    def widen(self) -> "Request":
        """Return the request for four times as many points."""
        limit = 4 * self.limit
        return replace(self, limit=limit, breadth=self.breadth and max(self.breadth, limit))


@dataclass(frozen=True, slots=True)
class Ranked:
    """The results of requests for one query, and the rows that were read for them, with their scores in columns."""

    rankings: list[RowScores]
    read: list[StoredRow]
    place_of: dict[int, int]  # of each row in the columns
    cosines: Floats
    scored: TermScores


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
        self._known, self._version = PrefixCache[tuple[int, float]](), 0
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
        return self._rank(head, [request_nearest(vector, k, where, effort)], vector, pack_terms({})).rankings[0]

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k rows with the highest BM25 score, with the collection's counts as of a head."""
        nothing = np.zeros(self._database.dim, np.float32)
        return self._rank(head, [self._request_matching(head, terms, k, where)], nothing, terms).rankings[0]

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find the candidates of each query, with one batch query to the shard."""
        given = [each[0] for each in self._rows.load_chunks(head, queries.chunk_ids)]
        pairs = list(zip(queries.vectors, queries.terms, strict=True))
        requests = [self._list_requests(head, *pair, queries) for pair in pairs]
        self._find(list(chain.from_iterable(requests)))
        ranked = [self._rank(head, own, *pair, given) for own, pair in zip(requests, pairs, strict=True)]
        return [self._join(each, len(queries.rankings), given) for each in ranked]

    def _list_requests(self, head: Head, vector: Vector, terms: PackedTerms, queries: Queries) -> list[Request]:
        """List the requests of all rankings of a query: by the vector, then, if there are any, by the terms."""
        requests = [request_nearest(vector, near, where, queries.effort) for where, near, _ in queries.rankings]
        if len(terms.hashes):
            requests += [self._request_matching(head, terms, k, where) for where, _, k in queries.rankings]
        return requests

    def _rank(
        self, head: Head, requests: list[Request], vector: Vector, terms: PackedTerms, others: Sequence[int] = ()
    ) -> Ranked:
        """Rank the points of requests by scores computed from the database; also read `others`.

        Ask for four times as many points while a chunk that was not found might have a better score. The stored weights
        of words were computed with an earlier average length. With a longer average, a score exceeds the shard's at
        most by the ratio of the two averages. So if the k-th score is above the possible score of the last candidate,
        no chunk is missing.
        """
        weights, growth = self._weigh_terms(terms, head), self._measure_growth(head)
        while True:
            found = self._find(requests)
            numbers = dict.fromkeys([*(row for points in found for row, _ in points), *others])
            read = self._rows.load_rows(head, list(numbers))
            place_of, joined = {each[0]: place for place, each in enumerate(read)}, join_terms(read)
            scored = joined.score(joined.find_terms(terms.hashes), weights, head.average_length)
            by_words = scored.sum_by_chunk(len(read)).round(bm25.DIGITS)
            cosines = compute_cosines(stack_vectors(read, self._database.dim), vector)
            rankings, wider = list[RowScores](), list[Request]()
            for each, points in zip(requests, found, strict=True):
                rows = [row for row, _ in points if row in place_of]
                places = [place_of[row] for row in rows]
                if len(rows) < min(each.k, len(points)):
                    raise Gone("a row that was found")
                scores = (cosines if each.breadth else by_words)[places]
                best = scan.top_k(rows, [joined.ids[place] for place in places], scores, each.k)
                is_enough = not each.k or len(points) < each.limit or each.limit >= MAX_CANDIDATES
                if each.breadth:
                    is_enough = is_enough or points[each.k - 1][1] - points[-1][1] > scan.SLACK
                else:
                    is_enough = is_enough or (len(best) == each.k and best[-1][1] > points[-1][1] * growth)
                rankings.append(best if each.breadth else [(row, score) for row, score in best if score])
                wider.append(each if is_enough else each.widen())
            if all(map(is_, requests, wider)):
                return Ranked(rankings, read, place_of, cosines, scored)
            requests = wider

    @staticmethod
    def _join(of: Ranked, count: int, given: Sequence[int]) -> RowCandidates:
        """Join the rankings of a query, first those by the vector, and the given rows."""
        near, matching = of.rankings[:count], of.rankings[count:] or [[]] * count
        joined = join_rankings(near, matching, given)
        if any(row not in of.place_of for row in joined.rows):
            raise Gone("a row that was found")
        places = [of.place_of[row] for row in joined.rows]
        return RowCandidates(
            joined.rows,
            [of.read[place][1] for place in places],
            np.array([MESSAGE in of.read[place][2] for place in places], bool),
            *joined[1:],
            of.cosines[places],
            *of.scored.measure(len(of.read), np.array(places, np.intp)),
        )

    def count_having(self, hashes: Hashes) -> list[int]:
        """Count, for each word, the chunks that have it."""
        return self.counts.count(hashes)

    def _weigh_terms(self, terms: PackedTerms, head: Head) -> Floats:
        return bm25.weigh_terms(terms.counts, self.count_having(terms.hashes), head.chunks)

    def _measure_growth(self, head: Head) -> float:
        """Return the factor by which a score can exceed the shard's."""
        return max(1.0, head.average_length / self.checkpoint.average) * 1.0001

    def _request_matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> Request:
        """Make the request for a word search; with one word, expect many ties."""
        weights = self._weigh_terms(terms, head)
        is_precise = self._measure_growth(head) < SMALL_GROWTH and len(weights) > 1
        limit = k + SPARE if is_precise else max(2 * k, k + 50)
        nearest = edge.Query.Nearest(make_sparse_vector(terms.hashes, weights.tolist()), using=TERMS)
        return Request(terms.hashes.tobytes() + weights.tobytes(), nearest, k, limit, where)

    def _find(self, requests: Sequence[Request]) -> list[RowScores]:
        """Find the rows for requests with the shard's scores, best first; ask for uncached ones in one batch."""
        hows = [(self._version, expand_filter(each.where), each.breadth, each.is_exact) for each in requests]
        found = [self._known.get(each.key, how, each.limit) for each, how in zip(requests, hows, strict=True)]
        missing = [place for place, points in enumerate(found) if points is None]
        for place, points in zip(missing, self._query([requests[place] for place in missing]), strict=True):
            found[place] = points
            self._known.put(requests[place].key, hows[place], requests[place].limit, points)
        return [points for points in found if points is not None]

    def _query(self, requests: Sequence[Request]) -> list[RowScores]:
        """Query the rows for requests, none if a filter admits nothing; Gone while rows are missed."""
        if self._missed:
            raise Gone("a row that was removed while it was followed")
        alternatives = [expand_filter(each.where) for each in requests]
        made = [make_query(each, make_filter(own)) for each, own in zip(requests, alternatives, strict=True) if own]
        with translate_errors():
            if len(made) > 1:
                found = iter(self._shard.query_batch(edge.QueryBatchRequest(made)))
            else:
                found = iter([self._shard.query(each) for each in made])
            return [[(int(each.id), each.score) for each in next(found)] if own else [] for own in alternatives]

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


# -- chunks, filters and words in the format of the shard


def make_config(dim: int, *, is_half: bool) -> edge.EdgeConfig:
    """Make the settings of a shard for vectors of this dimension and precision."""
    kind = edge.VectorStorageDatatype.Float16 if is_half else edge.VectorStorageDatatype.Float32
    # Map everything instead of reading it into memory: searches are as fast, and a shard opens in half the time.
    return edge.EdgeConfig(
        # For unit vectors the inner product is the cosine.
        vectors={DENSE: edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot, datatype=kind)},
        sparse_vectors={TERMS: edge.EdgeSparseVectorParams(memory=edge.Memory.Cached)},
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=10_000),
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


def request_nearest(vector: Vector, k: int, where: Filter, effort: Effort) -> Request:
    """Make the request for the nearest points."""
    nearest, limit = edge.Query.Nearest(vector.tolist(), using=DENSE), k + SPARE
    return Request(vector.tobytes(), nearest, k, limit, where, max(effort.breadth or BREADTH, limit), effort.is_exact)


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
