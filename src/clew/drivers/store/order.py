"""The total order of hits: the greater score first, equal scores by chunk id, whatever index found them.

Scores are rounded before they are compared, because their last digits depend on the order in which an index adds
numbers up, and two chunks of the same text must be equal everywhere.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from clew.drivers.store.bm25 import Floats

SLACK = 3e-6  # the error of a cosine in single precision, and twice the rounding
MAX_KNOWN = 512  # searches whose results are kept: those of a batch, and what is asked for each of them
T = TypeVar("T")


def select_candidates(scores: NDArray[np.floating], k: int, slack: float) -> NDArray[np.intp]:
    """The positions of all scores that may be among the k greatest, where each may be off by `slack`."""
    if len(scores) <= k or k < 1:
        return np.arange(len(scores) if k > 0 else 0)
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    return np.flatnonzero(scores >= kth - slack)


def top_k(rows: Sequence[int], ids: Sequence[str], scores: Floats, k: int) -> list[tuple[int, float]]:
    """The k best rows with their scores, in order."""
    best = sorted(zip((-scores).tolist(), ids, rows, strict=True))[:k]
    return [(row, -score) for score, _, row in best]


class PrefixCache(Generic[T]):
    """The results of the last searches, best first: a search for more of them also answers one for fewer."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[object, int, list[T]]] = {}

    def get(self, key: bytes, how: object, k: int) -> list[T] | None:
        """Return the first k results of a search; None if they are not known, or of one that was made otherwise."""
        known = self._known.get(key)
        return known[2][:k] if known and known[1] >= k and known[0] == how else None

    def clear(self) -> None:
        """Forget all results."""
        self._known = {}

    def put(self, key: bytes, how: object, k: int, found: list[T]) -> None:
        """Keep the results of a search for k."""
        if len(self._known) >= MAX_KNOWN:
            self.clear()
        self._known[key] = how, k, found
