"""The raw floor: numpy's exact product and bm25s, fifty of each, and the sum of their scaled scores; all in memory."""

from collections.abc import Sequence
from pathlib import Path

import bm25s
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.lookup import Lookup
from benchmarks.peers.worker import K, Text

DEPTH = 50


class Side:
    """Arrays; a deletion or an addition makes them again."""

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        self._lookup = lookup
        self._documents: dict[str, str] = {}

    def build(self, documents: Sequence[Text]) -> None:
        """Makes the arrays."""
        self._documents |= dict(documents)
        self._ids = list(self._documents)
        self._matrix = self._lookup.embed(list(self._documents.values()))
        self._words = bm25s.BM25()
        tokens = bm25s.tokenize(list(self._documents.values()), stopwords="en", show_progress=False)
        self._words.index(tokens, show_progress=False)

    def search_dense(self, query: str) -> list[str]:
        """By exact product."""
        return [self._ids[row] for row in self._rank_dense(query)[0][:K]]

    def search_words(self, query: str) -> list[str]:
        """By bm25s."""
        return [self._ids[row] for row in self._rank_words(query)[0][:K]]

    def search_hybrid(self, query: str) -> list[str]:
        """By the sum of both scores, each scaled to 0–1."""
        total: dict[int, float] = {}
        for rows, scores in (self._rank_dense(query), self._rank_words(query)):
            low, spread = scores.min(), (scores.max() - scores.min()) or 1.0
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
                total[row] = total.get(row, 0.0) + (score - low) / spread
        return [self._ids[row] for row in sorted(total, key=total.__getitem__, reverse=True)[:K]]

    def drop(self, ids: Sequence[str]) -> None:
        """Makes the arrays without them."""
        for id_ in ids:
            del self._documents[id_]
        self.build([])

    def add(self, documents: Sequence[Text]) -> None:
        """Makes the arrays with them."""
        self.build(documents)

    def _rank_dense(self, query: str) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        cosines = self._matrix @ self._lookup.embed([query])[0]
        depth = min(DEPTH, len(self._ids))
        near = np.argpartition(-cosines, depth - 1)[:depth]
        near = near[np.argsort(-cosines[near])]
        return near, cosines[near]

    def _rank_words(self, query: str) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        tokens = bm25s.tokenize([query], stopwords="en", show_progress=False)
        found, scores = self._words.retrieve(tokens, k=min(DEPTH, len(self._ids)), show_progress=False)
        return found[0], scores[0]
