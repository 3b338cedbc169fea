"""Upkeep of a collection: fragments are joined, indexes of a large one follow the rows, old versions are removed."""

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
MIN_TRAINING = 256  # vectors, below which no partition can be learnt
MAX_FRAGMENTS = 24  # small ones, before a writer joins them
SMALL = 1024  # rows of a fragment that is small
ROWS = 1 << 20  # of a fragment
PARTITION = 4096  # vectors
MAX_PARTITION_GROWTH = 4  # of the partitions of the index of vectors, above which they are learnt anew
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # the statistics of an index need none


def has_index(dataset: Any, name: str) -> bool:
    """Return whether a version has an index of that name."""
    return any(index.name == name for index in dataset.describe_indices())


def join_small_fragments(dataset: Any) -> None:
    """Join the fragments of single documents now and then, so that a read does not have to open hundreds."""
    if sum(each.metadata.num_rows < SMALL for each in dataset.get_fragments()) > MAX_FRAGMENTS:
        join_fragments(dataset, SMALL)


def join_fragments(dataset: Any, rows: int = ROWS, *, all_deletions: bool = False) -> bool:
    """Join fragments of fewer rows; False if others changed them meanwhile, who will do it then."""
    try:
        threshold = 0.0 if all_deletions else 0.1
        dataset.optimize.compact_files(target_rows_per_fragment=rows, materialize_deletions_threshold=threshold)
    except (OSError, RuntimeError) as error:
        if not is_conflict(error):
            raise
        return False
    return True


def keep_up(table: Table, head: LanceHead, exact_below: int, keep: timedelta, *, vectors: bool) -> None:
    """Join fragments, make the indexes that a large collection lacks or add to them what is new, clean versions.

    Without `vectors`, theirs is not made.
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
    """Make the index of vectors: partitions, and in each the vectors in about an eighth of their size."""
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
    """Return whether a version is kept that is older than that."""
    first = min(each["timestamp"] for each in dataset.versions())
    return bool(first.astimezone(UTC) < datetime.now(UTC) - max(keep, KEPT))


def learn_partitions(dataset: Any, head: LanceHead) -> list[str]:
    """Make the index of vectors anew if the collection has outgrown it; return what was done."""
    if not has_index(dataset, VECTOR_INDEX):
        return []
    parts = dataset.stats.index_stats(VECTOR_INDEX)["indices"]
    had, needed = max(each["num_partitions"] for each in parts), math.ceil(head.chunks / PARTITION)
    if needed < MAX_PARTITION_GROWTH * had:
        return []
    _make_vector_index(dataset, head)
    return [f"made the index of vectors anew: {had} partitions became {needed}"]
