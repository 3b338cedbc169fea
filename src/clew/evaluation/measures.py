"""The measures of one ranking, as trec_eval defines them, and of spans in a text: pure functions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log2

Span = tuple[int, int]  # start and end, in characters


def recall_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the relevant results among the first k; 1 if nothing is relevant."""
    wanted = set(relevant)
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 1.0


def precision_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the first k places that hold a relevant result; a missing one counts as not relevant."""
    return len(set(relevant).intersection(ranking[:k])) / k


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One over the rank of the first relevant result, 0 if none is found; its mean over questions is MRR."""
    return next((1 / rank for rank, each in enumerate(ranking, 1) if each in relevant), 0.0)


def average_precision(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """The mean over all relevant results of the precision at the rank of each, 0 for one that is not found.

    Its mean over questions is MAP.
    """
    wanted, found, total = set(relevant), 0, 0.0
    for rank, each in enumerate(ranking, 1):
        if each in wanted:
            found += 1
            total += found / rank
    return total / len(wanted) if wanted else 0.0


def ndcg_at(k: int, ranking: Sequence[str], grades: Mapping[str, float]) -> float:
    """nDCG@k: the discounted gain of the first k over the ideal one, as in trec_eval's ndcg_cut.

    The gain is the grade itself, the discount log2(rank + 1); a grade of 0 or less gains nothing.
    """
    gains = [max(grades.get(each, 0.0), 0.0) for each in ranking[:k]]
    ideal = _discount(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k])
    return _discount(gains) / ideal if ideal else 0.0


def topic_coverage(k: int, ranking: Sequence[str], topics: Mapping[str, Collection[str]]) -> float:
    """The share of the topics of which one of the first k results is; also known as subtopic recall."""
    first = set(ranking[:k])
    return sum(bool(first.intersection(members)) for members in topics.values()) / len(topics) if topics else 1.0


def _discount(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


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


def measure_cover(spans: Iterable[Span], wanted: Span) -> float:
    """The share of the wanted characters that the spans hold."""
    held = count_characters(merge_spans(intersect_spans(spans, [wanted])))
    return held / (wanted[1] - wanted[0]) if wanted[1] > wanted[0] else 0.0
