"""The indexes of a large collection: of its vectors, its terms, its facets and its ids; made and kept up by `flush`."""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

from clew.drivers.store.lance.content import Content, compact
from clew.drivers.store.lance.schema import Head
from clew.drivers.store.lance.table import KEPT

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
ROWS = 1 << 20  # of a fragment
PARTITION = 4096  # vectors


def has_index(dataset: Any, name: str) -> bool:
    """Whether a version has an index of that name."""
    return any(index.name == name for index in dataset.describe_indices())


def keep_up(content: Content, keep: timedelta, *, vectors: bool) -> None:
    """Joins fragments, makes the indexes that a large collection lacks or adds to them what is new, cleans versions.

    Without `vectors`, theirs is not made.
    """
    if content.is_past:
        return
    snapshot, dataset = content.read(), content.table.copy()
    if snapshot.head.paused > time.time():
        return
    if dataset.version > 1 and is_older(dataset, keep):
        content.table.forget_versions(max(keep, KEPT))
    if len(dataset.get_fragments()) > 1:
        compact(dataset, ROWS)
    if snapshot.head.chunks < max(content.exact_below, 1):
        return
    for name in SCALAR_INDEXES:
        content.table.change_indexes(partial(_make_scalar_index, name=name))
    if vectors and snapshot.head.chunks >= MIN_TRAINING:
        content.table.change_indexes(partial(_make_first_vector_index, head=snapshot.head))
    content.table.change_indexes(lambda latest: latest.optimize.optimize_indices())


def _make_scalar_index(dataset: Any, name: str) -> None:
    if not has_index(dataset, name):
        column, kind = SCALAR_INDEXES[name]
        dataset.create_scalar_index(column, kind, name=name)


def _make_first_vector_index(dataset: Any, head: Head) -> None:
    if not has_index(dataset, VECTOR_INDEX):
        make_vector_index(dataset, head.chunks, head.dim)


def make_vector_index(dataset: Any, chunks: int, dim: int) -> None:
    """Makes the index of vectors: partitions, and in each the vectors in about an eighth of their size."""
    partitions = max(1, math.ceil(chunks / PARTITION))
    widths = [each for each in (8, 4, 2, 1) if dim % each == 0]
    dataset.create_index(
        "vector",
        "IVF_PQ",
        name=VECTOR_INDEX,
        metric="cosine",
        num_partitions=partitions,
        num_sub_vectors=dim // widths[0] if dim >= 64 else dim // widths[-1],
        replace=True,
    )


def is_older(dataset: Any, keep: timedelta) -> bool:
    """Whether a version is kept that is older than that."""
    first = min(each["timestamp"] for each in dataset.versions())
    return bool(first.astimezone(UTC) < datetime.now(UTC) - max(keep, KEPT))
