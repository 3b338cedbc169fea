"""Points: chunks, filters and words as the shard takes them."""

from collections.abc import Sequence

import numpy as np
import qdrant_edge as edge

from clew.core.facets import Condition
from clew.core.stored import Hashes
from clew.drivers.store import bm25
from clew.drivers.store.sqlite.signals import Signals

LOW_BITS = 0xFFFFFFFF  # a sparse vector's indices have 32 bits
DENSE, TERMS = "dense", "terms"


def make_config(dim: int, *, is_half: bool) -> edge.EdgeConfig:
    """The settings of a shard for vectors of this width; in half precision where they are stored so."""
    kind = edge.VectorStorageDatatype.Float16 if is_half else edge.VectorStorageDatatype.Float32
    # Everything is mapped, not read into memory: searches take as long, and a shard opens in half the time.
    return edge.EdgeConfig(
        # Of unit vectors the inner product is the cosine.
        vectors={DENSE: edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot, datatype=kind)},
        sparse_vectors={TERMS: edge.EdgeSparseVectorParams(memory=edge.Memory.Cached)},
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=1000),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1000, default_segment_number=1),
        id_tracker_memory=edge.Memory.Cached,
        wal_enabled=False,
    )


def make_field_indexes() -> list[edge.UpdateOperation]:
    """The operations that make a new shard find points by their facets and times."""
    return [
        edge.UpdateOperation.create_field_index("facets", edge.KeywordIndexParams(memory=edge.Memory.Cached)),
        edge.UpdateOperation.create_field_index("at", edge.FloatIndexParams(memory=edge.Memory.Cached)),
    ]


def make_points(batch: Signals, average: float) -> list[edge.Point]:
    """The points of chunks; the weights of words are computed with this average length."""
    ends = np.cumsum(batch.sizes)
    norms = np.repeat(bm25.length_norm(batch.lengths, average), batch.sizes)
    weights = bm25.saturate(batch.counts.astype(np.float32), norms)
    words = batch.terms & LOW_BITS
    made = []
    for at, (row, end, size) in enumerate(zip(batch.rows.tolist(), ends.tolist(), batch.sizes.tolist(), strict=True)):
        merged = dict(zip(words[end - size : end].tolist(), weights[end - size : end].tolist(), strict=True))
        payload: dict[str, object] = {"facets": batch.facets[at]}
        if not np.isnan(batch.seconds[at]):
            payload["at"] = float(batch.seconds[at])
        sparse = edge.SparseVector(list(merged), list(merged.values()))
        dense = {} if np.isnan(batch.vectors[at, 0]) else {DENSE: batch.vectors[at].tolist()}
        made.append(edge.Point(row, {**dense, TERMS: sparse}, payload))
    return made


def make_filter(alternatives: Sequence[Condition]) -> edge.Filter | None:
    """The filter that admits a point where one of the conditions does; None if that is every point."""
    if any(each.is_empty for each in alternatives):
        return None
    made = [_make_condition_filter(each) for each in alternatives]
    return made[0] if len(made) == 1 else edge.Filter(should=list(made))


def _make_condition_filter(condition: Condition) -> edge.Filter:
    must = [edge.FieldCondition("facets", match=edge.MatchAny(sorted(group))) for group in condition.groups]
    if condition.is_timed:
        must.append(edge.FieldCondition("at", range=edge.RangeFloat(gte=condition.since, lt=condition.until)))
    forbidden = [edge.FieldCondition("facets", match=edge.MatchAny(sorted(condition.forbidden)))]
    return edge.Filter(must=list(must) or None, must_not=list(forbidden) if condition.forbidden else None)


def make_sparse_vector(hashes: Hashes, weights: list[float]) -> edge.SparseVector:
    """The weights of words by the low half of their hashes; two words that share it add their weights."""
    low = (hashes & LOW_BITS).tolist()
    merged = dict.fromkeys(low, 0.0)
    for word, weight in zip(low, weights, strict=True):
        merged[word] += weight
    return edge.SparseVector(list(merged), list(merged.values()))
