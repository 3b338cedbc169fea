"""Rank fusion: each function makes a Fuse, which turns several rankings into one; ties are ordered by chunk id."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isnan

from clew.core.errors import SettingsError
from clew.core.protocols import Fuse
from clew.core.types import Hit
from clew.query.rank.dedupe import dedupe_chunks

Normalise = Callable[[Sequence[float]], list[float]]


def normalise_minmax(scores: Sequence[float]) -> list[float]:
    """Min-max normalisation: the scores scaled to 0–1; where all are equal, each is 1."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if high == low:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]


def keep_scores(scores: Sequence[float]) -> list[float]:
    """No normalisation, for rankings that already share a scale."""
    return list(scores)


def convex(*weights: float, normalise: Normalise = normalise_minmax, score_name: str = "convex") -> Fuse:
    """The convex combination: the weighted sum of normalised scores; a chunk missing from a ranking has 0 there.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023.
    """

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        totals: dict[str, float] = {}
        for hits, weight in zip(rankings, _resolve_weights(weights, rankings), strict=True):
            unique = dedupe_chunks(hits)
            for hit, score in zip(unique, normalise([hit.score for hit in unique]), strict=True):
                totals[hit.chunk.id] = totals.get(hit.chunk.id, 0.0) + weight * score
        return _rank_by_total(rankings, totals, score_name)

    return fuse


def rrf(*weights: float, k: int = 60, score_name: str = "rrf") -> Fuse:
    """Reciprocal rank fusion: the weighted sum of 1 / (k + rank), ranks counted from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet", 2009.
    """
    if k < 0:
        raise SettingsError(f"k of rrf is {k}; it must be at least 0")

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        totals: dict[str, float] = {}
        for hits, weight in zip(rankings, _resolve_weights(weights, rankings), strict=True):
            for rank, hit in enumerate(dedupe_chunks(hits), 1):
                totals[hit.chunk.id] = totals.get(hit.chunk.id, 0.0) + weight / (k + rank)
        return _rank_by_total(rankings, totals, score_name)

    return fuse


def comb_max(*, score_name: str = "best") -> Fuse:
    """CombMAX: the greatest score of each chunk in any ranking, for rankings that share a scale."""

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        totals: dict[str, float] = {}
        for hits in rankings:
            for hit in hits:
                totals[hit.chunk.id] = max(hit.score, totals.get(hit.chunk.id, hit.score))
        return _rank_by_total(rankings, totals, score_name)

    return fuse


def round_robin(*weights: int, score_name: str = "round_robin") -> Fuse:
    """Round robin: the rankings take turns, `weight` hits of each at a time; an exhausted one is skipped.

    The score is 1 / position.
    """
    if any(weight != int(weight) for weight in weights):
        raise SettingsError(f"the weights of round_robin are {weights}; they must be whole numbers")

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        counts = map(int, _resolve_weights(weights, rankings))
        turns = [(iter(hits), count) for hits, count in zip(rankings, counts, strict=True)]
        dealt: dict[str, None] = {}
        progress = True
        while progress:
            progress = False
            for hits, count in turns:
                fresh = (hit.chunk.id for hit in hits if hit.chunk.id not in dealt)
                for chunk_id in islice(fresh, count):
                    dealt[chunk_id] = None
                    progress = True
        return _rank_by_total(rankings, {chunk_id: 1 / rank for rank, chunk_id in enumerate(dealt, 1)}, score_name)

    return fuse


def weights_to_turn_counts(*weights: float) -> list[int]:
    """Weights as the number of hits that each ranking deals per turn: 1 for the least positive weight, 0 for 0."""
    smallest = min((weight for weight in weights if weight > 0), default=1.0)
    return [round(weight / smallest) for weight in weights]


def _resolve_weights(weights: Sequence[float], rankings: Sequence[list[Hit]]) -> Sequence[float]:
    """One weight per ranking: those given, checked, or 1 each."""
    if not weights:
        return [1] * len(rankings)
    if len(weights) != len(rankings):
        raise SettingsError(f"{len(weights)} weights were given for {len(rankings)} rankings; give one per ranking")
    if min(weights) < 0:
        raise SettingsError(f"a weight of the fusion is {min(weights)}; it must be at least 0")
    return weights


def _rank_by_total(rankings: Sequence[list[Hit]], totals: Mapping[str, float], score_name: str) -> list[Hit]:
    """One hit per chunk with all its scores and its greatest relevance, best total first."""
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
    """Whether a hit has a greater relevance than another of the same chunk, or numbers that the other lacks."""
    if isnan(hit.relevance) or isnan(other.relevance):
        return not isnan(hit.relevance) or (isnan(other.relevance) and isnan(other.similarity))
    return hit.relevance > other.relevance
