"""A cache of hits: what a search shows of a chunk and its document is read from the database once per change."""

import threading
from collections.abc import Sequence
from contextlib import suppress

from clew.core.types import Hit
from clew.drivers.store.embedded import read
from clew.drivers.store.embedded.database import CollectionState, Database

MAX_HITS = 8192


class HitCache:
    """The chunks that were shown last, by row, without scores. Several threads may use it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._hits: dict[int, Hit] = {}
        self._cached_at = (-1, -1)

    def load_hits(self, state: CollectionState, rows: Sequence[int]) -> dict[int, Hit]:
        """The chunks in some rows, without those removed meanwhile; any change clears the cache, as it may move any."""
        with self._lock:
            if self._cached_at != (state.change, state.data_version):
                self._hits, self._cached_at = {}, (state.change, state.data_version)
            cached = self._hits
        with suppress(KeyError):
            return {row: cached[row] for row in rows}
        loaded = {row: hit for row in rows if (hit := cached.get(row))}
        missing = [row for row in rows if row not in loaded]
        if missing:
            with self._database.reader as db:
                fresh = read.read_hits(db, missing)
            loaded |= fresh
            if len(cached) + len(fresh) > MAX_HITS:
                cached.clear()
                cached.update(loaded)
            else:
                cached.update(fresh)
        return loaded

    def clear(self) -> None:
        """Forgets all hits, after a write that does not change the change number."""
        self._hits = {}
