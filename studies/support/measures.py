"""Measures of a verifier."""

from collections.abc import Sequence

import numpy as np

BINS = 10


def measure_auc(scores: Sequence[float], labels: Sequence[int]) -> float:
    """The chance that a true claim has a higher score than a false one; ties count half."""
    values, true = np.asarray(scores, np.float64), np.asarray(labels) == 1
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    count = int(true.sum())
    return float((ranks[true].sum() - count * (count + 1) / 2) / max(1, count * (len(values) - count)))


def expected_calibration_error(chances: Sequence[float], labels: Sequence[int]) -> float:
    """The mean distance, over ten bins of equal width, between the chance and the share of true claims."""
    values, true = np.asarray(chances, np.float64), np.asarray(labels, np.float64)
    bins = np.minimum((values * BINS).astype(int), BINS - 1)
    gaps = [abs(values[bins == at].mean() - true[bins == at].mean()) * (bins == at).mean() for at in set(bins.tolist())]
    return float(sum(gaps))
