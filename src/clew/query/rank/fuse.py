"""Rank fusion: several rankings of scored items, or of hits, into one; ties are ordered by chunk id."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isnan
from typing import TypeVar

from clew.core.protocols import Fuse
from clew.core.settings import SearchConfig
from clew.core.types import Hit
from clew.query.rank.dedupe import dedupe_chunks

K = TypeVar("K", bound=Hashable)
Ranking = Sequence[tuple[K, float]]  # unique keys and their scores, best first


def normalise_minmax(scores: Sequence[float]) -> list[float]:
    """Normalise by min and max: scale the scores to 0–1; where all are equal, each is 1."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


def sum_normalised_scores(rankings: Sequence[Ranking[K]], weights: Sequence[float]) -> dict[K, float]:
    """Fuse by convex combination: the weighted sum of normalised scores; a key that a ranking lacks has 0 there.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023.
    """
    totals: dict[K, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for (key, _), score in zip(ranking, normalise_minmax([score for _, score in ranking]), strict=True):
            totals[key] = totals.get(key, 0.0) + weight * score
    return totals


def sum_reciprocal_ranks(rankings: Sequence[Ranking[K]], weights: Sequence[float], *, k: int = 60) -> dict[K, float]:
    """Fuse by reciprocal ranks: the weighted sum of 1 / (k + rank), ranks counted from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet", 2009.
    """
    totals: dict[K, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, (key, _) in enumerate(ranking, 1):
            totals[key] = totals.get(key, 0.0) + weight / (k + rank)
    return totals


def take_turns(rankings: Sequence[Ranking[K]], weights: Sequence[float]) -> dict[K, float]:
    """Fuse by round robin: rankings deal `weight` keys per turn, skipping exhausted ones; the score is 1 / position."""
    turns = [(iter(ranking), int(weight)) for ranking, weight in zip(rankings, weights, strict=True)]
    dealt: dict[K, None] = {}
    before = -1
    while before < len(dealt):
        before = len(dealt)
        for ranking, count in turns:
            fresh = (key for key, _ in ranking if key not in dealt)
            dealt |= dict.fromkeys(islice(fresh, count))
    return {key: 1 / position for position, key in enumerate(dealt, 1)}


def take_greatest(rankings: Sequence[Ranking[K]], weights: Sequence[float]) -> dict[K, float]:
    """Fuse by CombMAX: the greatest score in any ranking, for rankings that share a scale; weights do not count."""
    del weights
    totals: dict[K, float] = {}
    for key, score in (each for ranking in rankings for each in ranking):
        totals[key] = max(score, totals.get(key, score))
    return totals


def weights_to_turn_counts(*weights: float) -> list[int]:
    """Turn weights into the number that each ranking deals per turn: 1 for the least positive weight, 0 for 0."""
    smallest = min((weight for weight in weights if weight > 0), default=1.0)
    return [round(weight / smallest) for weight in weights]


def fuse_two(rankings: Sequence[Ranking[K]], weight: float, config: SearchConfig) -> dict[K, float]:
    """Fuse two rankings as the settings say, with `weight` for the first and the rest for the second."""
    weights = weight, 1 - weight
    if config.fusion == "rrf":
        return sum_reciprocal_ranks(rankings, weights)
    if config.fusion == "round_robin":
        return take_turns(rankings, weights_to_turn_counts(*weights))
    return sum_normalised_scores(rankings, weights)


def make_fuse(
    add_up: Callable[[Sequence[Ranking[str]], Sequence[float]], Mapping[str, float]], *, score_name: str
) -> Fuse:
    """Make a fusion of hits by the totals of their chunks, with equal weights for all rankings."""

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        scored = [[(hit.chunk.id, hit.score) for hit in dedupe_chunks(hits)] for hits in rankings]
        return _rank_by_total(rankings, add_up(scored, [1.0] * len(rankings)), score_name)

    return fuse


def _rank_by_total(rankings: Sequence[list[Hit]], totals: Mapping[str, float], score_name: str) -> list[Hit]:
    """Return one hit per chunk with all its scores and its greatest relevance, best total first."""
    merged: dict[str, Hit] = {}
    scores: dict[str, dict[str, float]] = {}
    for hits in rankings:
        for hit in hits:
            other = merged.setdefault(hit.chunk.id, hit)
            if _knows_more(hit, other):
                merged[hit.chunk.id] = hit
            known = scores.setdefault(hit.chunk.id, {})
            for name, score in hit.scores.items():
                known[name] = max(score, known.get(name, score))
    order = sorted(totals, key=lambda chunk_id: (-totals[chunk_id], chunk_id))
    return [replace(merged[i], score=totals[i], scores={**scores[i], score_name: totals[i]}) for i in order]


def _knows_more(hit: Hit, other: Hit) -> bool:
    """Return whether a hit has a greater relevance than another of the same chunk, or numbers that the other lacks."""
    if isnan(hit.relevance) or isnan(other.relevance):
        return not isnan(hit.relevance) or (isnan(other.relevance) and isnan(other.similarity))
    return hit.relevance > other.relevance
