"""Measures of a ranking (as in trec_eval) and of spans in a text; significance tests between systems."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]  # start and end, in characters
RESAMPLES = 10_000
_CELLS_PER_BATCH = 2_000_000  # drawn at once, to limit memory
_RESAMPLES_PER_BATCH = 1_000
_EXACT_BELOW = 13  # nonzero differences: with fewer, all signs are tried


def recall_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Return the share of the relevant results among the first k; 1 if nothing is relevant."""
    wanted = set(relevant)
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 1.0


def precision_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Return the share of the first k places with a relevant result; an empty place is not relevant."""
    return len(set(relevant).intersection(ranking[:k])) / k


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Return one over the rank of the first relevant result, or 0; the mean over questions is MRR."""
    return next((1 / rank for rank, each in enumerate(ranking, 1) if each in relevant), 0.0)


def average_precision(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Return the mean precision at the rank of each relevant result, 0 for one not found.

    The mean over questions is MAP.
    """
    wanted, found, total = set(relevant), 0, 0.0
    for rank, each in enumerate(ranking, 1):
        if each in wanted:
            found += 1
            total += found / rank
    return total / len(wanted) if wanted else 0.0


def ndcg_at(k: int, ranking: Sequence[str], grades: Mapping[str, float]) -> float:
    """Compute nDCG@k: the discounted gain of the first k over the ideal gain, as trec_eval's ndcg_cut.

    The gain is the grade itself (0 if negative), the discount log2(rank + 1).
    """
    gains = [max(grades.get(each, 0.0), 0.0) for each in ranking[:k]]
    ideal = _discount(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k])
    return _discount(gains) / ideal if ideal else 0.0


def topic_coverage(k: int, ranking: Sequence[str], topics: Mapping[str, Collection[str]]) -> float:
    """Return the share of the topics with a document among the first k results, also called subtopic recall."""
    first = set(ranking[:k])
    return sum(bool(first.intersection(members)) for members in topics.values()) / len(topics) if topics else 1.0


def _discount(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def intersect_spans(left: Iterable[Span], right: Sequence[Span]) -> list[Span]:
    """Return the non-empty intersections of each left span with each right one."""
    return [
        (max(start, low), min(end, high)) for start, end in left for low, high in right if start < high and low < end
    ]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge spans into disjoint ones, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def count_characters(spans: Iterable[Span]) -> int:
    """Return the total length of the spans; an overlap counts twice."""
    return sum(end - start for start, end in spans)


def measure_cover(spans: Iterable[Span], wanted: Span) -> float:
    """Return the share of the wanted characters that the spans cover."""
    held = count_characters(merge_spans(intersect_spans(spans, [wanted])))
    return held / (wanted[1] - wanted[0]) if wanted[1] > wanted[0] else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def bootstrap(new: Sequence[float], old: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the mean of new minus old, paired by question, with its 95 % interval by Efron's percentile bootstrap.

    A resample draws questions with both values.
    """
    differences = np.asarray(new, np.float64) - np.asarray(old, np.float64)
    if not len(differences):
        return Interval(0.0, 0.0, 0.0)
    random = np.random.default_rng(seed)
    counts = [_RESAMPLES_PER_BATCH] * (resamples // _RESAMPLES_PER_BATCH) + [resamples % _RESAMPLES_PER_BATCH] * bool(
        resamples % _RESAMPLES_PER_BATCH
    )
    means = np.concatenate(
        [differences[random.integers(len(differences), size=(n, len(differences)))].mean(axis=1) for n in counts]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(differences.mean()), float(low), float(high))


def permutation_test(
    new: Sequence[float], old: Sequence[float], *, one_sided: bool = False, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Return the p-value of the mean of new minus old: how often random signs of the differences give a mean as great.

    Fisher's randomisation test, paired by question; two-sided, or with `one_sided` testing whether new is better. With
    few differences all signs are tried; otherwise the observed ones count as one of the draws, so that p is never 0.
    """
    differences = np.asarray(new, np.float64) - np.asarray(old, np.float64)
    differences = differences[differences != 0]  # zeros do not change the sum
    if not len(differences):
        return 1.0
    observed = differences.sum()
    edge = 1e-12 * float(np.abs(differences).sum())  # tolerance for the rounding of sums
    exact = len(differences) < _EXACT_BELOW
    seen = total = 0
    for signs in _list_signs(len(differences)) if exact else _draw_signs(len(differences), resamples, seed):
        sums = signs @ differences
        reached = sums >= observed - edge if one_sided else np.abs(sums) >= abs(observed) - edge
        seen, total = seen + int(reached.sum()), total + len(sums)
    return seen / total if exact else (seen + 1) / (total + 1)


def _list_signs(count: int) -> Iterator[NDArray[np.float64]]:
    bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    yield (bits * 2 - 1).astype(np.float64)


def _draw_signs(count: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    step = max(1, _CELLS_PER_BATCH // count)
    for start in range(0, resamples, step):
        drawn = random.integers(0, 2, size=(min(step, resamples - start), count))
        yield (drawn * 2 - 1).astype(np.float64)


def correct_holm(values: Sequence[float]) -> list[float]:
    """Apply Holm's correction for multiple comparisons to p-values, keeping their order."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    corrected, greatest = [0.0] * len(values), 0.0
    for rank, at in enumerate(order):
        greatest = max(greatest, min(1.0, (len(values) - rank) * values[at]))
        corrected[at] = greatest
    return corrected
