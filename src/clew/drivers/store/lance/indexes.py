"""Upkeep of a collection: join fragments, update the indexes of a large one, remove old versions."""

import math
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

from clew.drivers.store.lance.errors import is_conflict
from clew.drivers.store.lance.schema import LanceHead
from clew.drivers.store.lance.table import KEPT, Table

VECTOR_INDEX = "vectors"
SCALAR_INDEXES: Mapping[str, tuple[str, Literal["BTREE", "BITMAP", "LABEL_LIST"]]] = {
    "ids": ("id", "BTREE"),
    "documents": ("doc", "BTREE"),
    "numbers": ("row", "BTREE"),
    "kinds": ("kind", "BITMAP"),
    "facets": ("facets", "LABEL_LIST"),
    "terms": ("terms", "LABEL_LIST"),
}
MIN_TRAINING = 256  # vectors needed to train partitions
MAX_FRAGMENTS = 24  # small fragments before a writer joins them
SMALL = 1024  # rows; a fragment with fewer is small
ROWS = 1 << 20  # target size of a fragment
PARTITION = 4096  # vectors per partition
MAX_PARTITION_GROWTH = 4  # retrain the partitions of the vector index when this many times as many are needed
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # not needed in the statistics of an index


def has_index(dataset: Any, name: str) -> bool:
    """Return whether a version has an index with this name."""
    return any(index.name == name for index in dataset.describe_indices())


def join_small_fragments(dataset: Any) -> None:
    """Join small fragments once there are too many, so that a read need not open hundreds."""
    if sum(each.metadata.num_rows < SMALL for each in dataset.get_fragments()) > MAX_FRAGMENTS:
        join_fragments(dataset, SMALL)


def join_fragments(dataset: Any, rows: int = ROWS, *, all_deletions: bool = False) -> bool:
    """Join fragments with fewer than `rows` rows; return False if others changed them meanwhile."""
    try:
        threshold = 0.0 if all_deletions else 0.1
        dataset.optimize.compact_files(target_rows_per_fragment=rows, materialize_deletions_threshold=threshold)
    except (OSError, RuntimeError) as error:
        if not is_conflict(error):
            raise
        return False
    return True


def keep_up(table: Table, head: LanceHead, exact_below: int, keep: timedelta, *, vectors: bool) -> None:
    """Remove old versions, join fragments, and create or update the indexes of a large collection.

    vectors: Whether to create the vector index.
    """
    dataset = table.copy()
    if head.paused > time.time():
        return
    if dataset.version > 1 and _is_older(dataset, keep):
        table.forget_versions(max(keep, KEPT))
    if len(dataset.get_fragments()) > 1:
        join_fragments(dataset)
    if head.chunks < max(exact_below, 1):
        return
    for name in SCALAR_INDEXES:
        table.change_indexes(partial(_make_scalar_index, name=name))
    if vectors and head.chunks - head.pending >= MIN_TRAINING:
        table.change_indexes(partial(_make_first_vector_index, head=head))
    table.change_indexes(lambda latest: latest.optimize.optimize_indices())


def _make_scalar_index(dataset: Any, name: str) -> None:
    if not has_index(dataset, name):
        column, kind = SCALAR_INDEXES[name]
        dataset.create_scalar_index(column, kind, name=name)


def _make_first_vector_index(dataset: Any, head: LanceHead) -> None:
    if not has_index(dataset, VECTOR_INDEX):
        _make_vector_index(dataset, head)


def _make_vector_index(dataset: Any, head: LanceHead) -> None:
    """Create the vector index (IVF-PQ): partitions with vectors compressed by product quantisation."""
    widths = [each for each in (8, 4, 2, 1) if head.dim % each == 0]
    dataset.create_index(
        "vector",
        "IVF_PQ",
        name=VECTOR_INDEX,
        metric="cosine",
        num_partitions=max(1, math.ceil(head.chunks / PARTITION)),
        num_sub_vectors=head.dim // widths[0] if head.dim >= 64 else head.dim // widths[-1],
        replace=True,
    )


def _is_older(dataset: Any, keep: timedelta) -> bool:
    """Return whether the dataset has a version older than `keep`."""
    first = min(each["timestamp"] for each in dataset.versions())
    return bool(first.astimezone(UTC) < datetime.now(UTC) - max(keep, KEPT))


def learn_partitions(dataset: Any, head: LanceHead) -> list[str]:
    """Rebuild the vector index if the collection has outgrown it; describe what was done."""
    if not has_index(dataset, VECTOR_INDEX):
        return []
    parts = dataset.stats.index_stats(VECTOR_INDEX)["indices"]
    had, needed = max(each["num_partitions"] for each in parts), math.ceil(head.chunks / PARTITION)
    if needed < MAX_PARTITION_GROWTH * had:
        return []
    _make_vector_index(dataset, head)
    return [f"made the index of vectors anew: {had} partitions became {needed}"]
