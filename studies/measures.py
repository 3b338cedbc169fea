"""The measures of the studies: pure functions from rankings and spans to numbers, and how sure a difference is."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

Span = tuple[int, int]  # from a character up to another

RESAMPLES = 10_000
_RESAMPLES_PER_BATCH = 1_000  # resamples whose picks are held together


# -- rankings


def recall_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the relevant that stand among the first k; with nothing relevant there is nothing to miss."""
    wanted = set(relevant)
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 1.0


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One over the rank of the first relevant one, 0 where none is found; its mean over questions is MRR."""
    return next((1 / rank for rank, each in enumerate(ranking, 1) if each in relevant), 0.0)


def ndcg_at(k: int, ranking: Sequence[str], grades: Mapping[str, float]) -> float:
    """The discounted gain of the first k over the best there could be, as trec_eval's ndcg_cut has it.

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
    """How well the spans that were retrieved cover the spans that answer, in characters."""

    recall: float
    precision: float
    iou: float


def score_spans(retrieved: Sequence[Span], elsewhere: int, gold: Sequence[Span]) -> SpanScores:
    """What was retrieved from the text of the answer, held against it; `elsewhere` characters came from other texts.

    Recall = gold covered / gold; precision = gold covered / retrieved; IoU = gold covered / (retrieved + gold missed).
    What two chunks share was retrieved twice and covers once.
    """
    wanted = count_characters(merge_spans(gold))
    covered = count_characters(merge_spans(intersect_spans(retrieved, gold)))
    taken = count_characters(retrieved) + elsewhere
    return SpanScores(
        recall=covered / wanted if wanted else 1.0,
        precision=covered / taken if taken else 0.0,
        iou=covered / (taken + wanted - covered) if taken + wanted else 0.0,
    )


def precision_omega(chunks: Sequence[Span], gold: Sequence[Span]) -> float:
    """The precision there would be if every chunk that touches the gold were retrieved, and nothing else."""
    touching = [(start, end) for start, end in chunks if any(start < high and low < end for low, high in gold)]
    covered = count_characters(merge_spans(intersect_spans(touching, gold)))
    taken = count_characters(merge_spans(touching))
    missed = count_characters(merge_spans(gold)) - covered
    return covered / (taken + missed) if taken + missed else 0.0


def intersect_spans(left: Iterable[Span], right: Sequence[Span]) -> list[Span]:
    """What each of the left spans shares with each of the right ones."""
    return [
        (max(start, low), min(end, high)) for start, end in left for low, high in right if start < high and low < end
    ]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The same characters as spans that are apart, in order."""
    apart: list[Span] = []
    for start, end in sorted(spans):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def count_characters(spans: Iterable[Span]) -> int:
    """The characters of all spans together; what two of them share counts twice."""
    return sum(end - start for start, end in spans)


# -- how sure


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference and where 95 % of the resamples put it."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def bootstrap(new: Sequence[float], old: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The mean of new minus old, question by question, with the interval of 95 % of the resamples.

    Efron's percentile bootstrap, paired: a resample draws questions, and each brings both of its values.
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
