"""The measures of the studies: pure functions over rankings and spans, and confidence intervals of differences."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

Span = tuple[int, int]  # start and end, in characters

RESAMPLES = 10_000
_RESAMPLES_PER_BATCH = 1_000  # drawn at once, to bound memory


# -- rankings


def recall_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the relevant results among the first k; 1 if nothing is relevant."""
    wanted = set(relevant)
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 1.0


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One over the rank of the first relevant result, 0 if none is found; its mean over questions is MRR."""
    return next((1 / rank for rank, each in enumerate(ranking, 1) if each in relevant), 0.0)


def ndcg_at(k: int, ranking: Sequence[str], grades: Mapping[str, float]) -> float:
    """nDCG@k: the discounted gain of the first k over the ideal one, as in trec_eval's ndcg_cut.

    The gain is the grade itself, the discount log2(rank + 1); a grade of 0 or less gains nothing.
    """
    gains = [max(grades.get(each, 0.0), 0.0) for each in ranking[:k]]
    ideal = _discount(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k])
    return _discount(gains) / ideal if ideal else 0.0


def _discount(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


# -- characters: Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma, 2024


@dataclass(frozen=True, slots=True)
class SpanScores:
    """How well the retrieved spans cover the gold spans, in characters."""

    recall: float
    precision: float
    iou: float


def score_spans(retrieved: Sequence[Span], elsewhere: int, gold: Sequence[Span]) -> SpanScores:
    """Recall, precision and IoU of retrieved spans of the gold text; `elsewhere` characters came from other texts.

    Recall = gold covered / gold; precision = gold covered / retrieved; IoU = gold covered / (retrieved + gold missed).
    An overlap of two chunks counts twice as retrieved and once as covered.
    """
    wanted = count_characters(merge_spans(gold))
    covered = count_characters(merge_spans(intersect_spans(retrieved, gold)))
    retrieved_length = count_characters(retrieved) + elsewhere
    return SpanScores(
        recall=covered / wanted if wanted else 1.0,
        precision=covered / retrieved_length if retrieved_length else 0.0,
        iou=covered / (retrieved_length + wanted - covered) if retrieved_length + wanted else 0.0,
    )


def precision_omega(chunks: Sequence[Span], gold: Sequence[Span]) -> float:
    """The precision if exactly the chunks that touch the gold were retrieved."""
    touching = [(start, end) for start, end in chunks if any(start < high and low < end for low, high in gold)]
    covered = count_characters(merge_spans(intersect_spans(touching, gold)))
    retrieved_length = count_characters(merge_spans(touching))
    missed = count_characters(merge_spans(gold)) - covered
    return covered / (retrieved_length + missed) if retrieved_length + missed else 0.0


def intersect_spans(left: Iterable[Span], right: Sequence[Span]) -> list[Span]:
    """The intersection of each left span with each right one, where there is one."""
    return [
        (max(start, low), min(end, high)) for start, end in left for low, high in right if start < high and low < end
    ]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The same characters as disjoint spans, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def count_characters(spans: Iterable[Span]) -> int:
    """The total length of the spans; an overlap counts twice."""
    return sum(end - start for start, end in spans)


# -- confidence intervals


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def bootstrap(new: Sequence[float], old: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The mean of new minus old, paired by question, with its 95 % bootstrap interval.

    Efron's percentile bootstrap, paired: a resample draws questions with both of their values.
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
