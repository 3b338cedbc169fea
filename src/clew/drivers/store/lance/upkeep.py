"""Upkeep of a collection in Lance: fragments are joined, indexes follow the rows, and old versions are removed."""

import math
import os
from datetime import timedelta
from typing import Any

from clew.core.settings import StoreConfig
from clew.drivers.store.lance import indexes
from clew.drivers.store.lance.content import Content
from clew.drivers.store.lance.errors import translate_errors

MAX_PARTITION_GROWTH = 4  # of the partitions of the index of vectors, above which they are learnt anew
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # the statistics of an index need none


class UpkeepMethods:
    """Upkeep of a collection; part of LanceStore."""

    _content: Content
    _config: StoreConfig

    def flush(self, *, with_graph: bool = True) -> None:
        """Returns when fragments are joined and the indexes that are due are made; what was put is stored anyway.

        Not `with_graph`, that of the vectors is not made.
        """
        with translate_errors(self._content.place):
            indexes.keep_up(self._content, timedelta(days=self._config.keep_versions), vectors=with_graph)

    def maintain(self) -> list[str]:
        """Joins fragments, keeps up the indexes and removes old versions; what was done.

        An index of vectors whose partitions have grown fourfold is made anew. Others search and write meanwhile.
        """
        table = self._content.table
        before = table.copy()
        fragments, versions = len(before.get_fragments()), {each["version"] for each in before.versions()}
        self.flush()
        with translate_errors(self._content.place):
            done = table.change_indexes(self._learn_partitions)
            now = table.copy()
            joined, removed = len(now.get_fragments()), versions - {each["version"] for each in now.versions()}
            named = sorted(index.name for index in now.describe_indices())
        if joined < fragments:
            done.append(f"joined {fragments} fragments to {joined}")
        if removed:
            done.append(f"removed {len(removed)} old versions")
        return [*done, f"indexes kept up: {', '.join(named)}"] if named else done

    def _learn_partitions(self, dataset: Any) -> list[str]:
        """Makes the index of vectors anew if the collection has outgrown it; what was done."""
        head = self._content.read().head
        if self._content.is_past or not indexes.has_index(dataset, indexes.VECTOR_INDEX):
            return []
        parts = dataset.stats.index_stats(indexes.VECTOR_INDEX)["indices"]
        had, needed = max(each["num_partitions"] for each in parts), math.ceil(head.chunks / indexes.PARTITION)
        if needed < MAX_PARTITION_GROWTH * had:
            return []
        indexes.make_vector_index(dataset, head.chunks, head.dim)
        return [f"made the index of vectors anew: {had} partitions became {needed}"]
