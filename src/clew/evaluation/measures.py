"""The measures of one ranking: pure functions, as trec_eval defines them."""

from collections.abc import Collection, Mapping, Sequence
from math import log2


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
