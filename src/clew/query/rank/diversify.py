"""Diversity of hits: near-duplicate removal, maximal marginal relevance, and coverage of all queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from clew.core.errors import SettingsError
from clew.core.protocols import Step
from clew.core.types import Hit, Matrix, Query, Vector

FetchVectors = Callable[[Sequence[str]], Mapping[str, Vector]]  # of chunks by id; a missing one is left out

DUPLICATE_COSINE = 0.92  # from which two chunks count as duplicates
DEFAULT_BALANCE = 0.7


def drop_near_duplicates(fetch_vectors: FetchVectors, *, threshold: float = DUPLICATE_COSINE) -> Step:
    """A step that drops each hit whose cosine to a kept hit of a better score is at least the threshold."""
    if not -1 <= threshold <= 1:
        raise SettingsError(f"threshold is {threshold}; it must be between -1 and 1")

    def by_meaning(_: Query, hits: list[Hit]) -> list[Hit]:
        cosines = _compute_cosines(hits, fetch_vectors)
        kept: list[int] = []
        for position in sorted(range(len(hits)), key=lambda position: -hits[position].score):
            # A chunk without a vector has cosine 0 to all; the rounding of float32 must not decide.
            if not kept or cosines[position, kept].max() < threshold - 1e-6:
                kept.append(position)
        return [hits[position] for position in sorted(kept)]

    return by_meaning


def mmr(fetch_vectors: FetchVectors, *, balance: float = DEFAULT_BALANCE) -> Step:
    """A step that orders hits by maximal marginal relevance, λ being `balance`: λ · score - (1 - λ) · redundancy.

    The redundancy of a hit is its greatest cosine to those before it. The hits keep their scores; the marginal
    relevance is added to `scores`. Where a score exceeds 1, all are first divided by the greatest.
    Carbonell and Goldstein, "The Use of MMR", 1998.
    """
    if not 0 <= balance <= 1:
        raise SettingsError(f"mmr is {balance}; it must be between 0 and 1")

    def mmr(_: Query, hits: list[Hit]) -> list[Hit]:
        cosines = _compute_cosines(hits, fetch_vectors)
        scores = np.array([hit.score for hit in hits])
        relevance = balance * scores / max(1.0, scores.max(initial=0.0))
        redundancy = np.zeros(len(hits))  # the greatest cosine to a chosen hit; none is chosen yet
        remaining = list(range(len(hits)))
        chosen: list[Hit] = []
        while remaining:
            values = relevance[remaining] - (1 - balance) * redundancy[remaining]
            at = int(np.argmax(values))
            position = remaining.pop(at)
            hit = hits[position]
            redundancy = np.maximum(redundancy, cosines[position]) if chosen else cosines[position]
            chosen.append(replace(hit, scores={**hit.scores, "mmr": float(values[at])}))
        return chosen

    return mmr


def order_by_coverage(hits: Sequence[Hit], rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The hits in rounds: each query's best document before any query's second, and so on; within a round by score.

    A document that is best for two queries serves both. A further hit of the same document waits a round. The hits keep
    their scores.
    """
    rounds: dict[str, int] = {}
    for ranking in rankings:
        for position, document in enumerate(dict.fromkeys(hit.chunk.doc_id for hit in ranking)):
            rounds[document] = min(position, rounds.get(document, position))
    last = max(rounds.values(), default=0) + 1
    keyed: list[tuple[int, float, str, Hit]] = []
    seen: dict[str, int] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id)):
        document = hit.chunk.doc_id
        seen[document] = seen.get(document, -1) + 1
        keyed.append((rounds.get(document, last) + seen[document], -hit.score, hit.chunk.id, hit))
    return [each[3] for each in sorted(keyed, key=lambda each: each[:3])]


def _compute_cosines(hits: Sequence[Hit], fetch_vectors: FetchVectors) -> Matrix:
    """The cosine of each hit with each; 0 where a vector is missing."""
    known = fetch_vectors([hit.chunk.id for hit in hits]) if hits else {}
    width = len(next(iter(known.values()))) if known else 1
    blank = np.zeros(width, np.float32)
    rows = np.array([known.get(hit.chunk.id, blank) for hit in hits], np.float32).reshape(len(hits), width)
    return np.asarray(rows @ rows.T, np.float32)
