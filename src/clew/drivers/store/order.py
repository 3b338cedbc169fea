"""The total order of hits: the greater score first, equal scores by chunk id, whatever index found them.

Scores are rounded before they are compared, because their last digits depend on the order in which an index adds
numbers up, and two chunks of the same text must be equal everywhere.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clew.drivers.store.bm25 import Floats

SLACK = 3e-6  # the error of a cosine in single precision, and twice the rounding


def select_candidates(scores: NDArray[np.floating], k: int, slack: float) -> NDArray[np.intp]:
    """The positions of all scores that may be among the k greatest, where each may be off by `slack`."""
    if len(scores) <= k:
        return np.arange(len(scores))
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    return np.flatnonzero(scores >= kth - slack)


def top_k(rows: Sequence[int], ids: Sequence[str], scores: Floats, k: int) -> list[tuple[int, float]]:
    """The k best rows with their scores, in order."""
    best = sorted(zip((-scores).tolist(), ids, rows, strict=True))[:k]
    return [(row, -score) for score, _, row in best]
