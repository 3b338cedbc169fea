"""Several rankings into one. Each way is a function that makes a Fuse; equal scores are ordered by chunk id."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from statistics import fmean

from clew.core.errors import SettingsError
from clew.core.protocols import Fuse
from clew.core.types import Hit
from clew.query.rank.dedupe import by_chunk

Normalise = Callable[[Sequence[float]], list[float]]
Sure = Callable[[list[Hit]], float]  # how far a ranking can be trusted, from 0 to 1
_LEAST = 0.01  # of trust in a ranking that has hits: it still says which they are
_LOOKED_AT = 50  # hits that tell how far the first stands out: as many, however deep the search


def minmax(scores: Sequence[float]) -> list[float]:
    """The scores stretched over 0 to 1; where all are equal there is nothing to tell apart, and each is 1."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if high == low:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]


def as_they_are(scores: Sequence[float]) -> list[float]:
    """The scores themselves, for rankings that already share a scale."""
    return list(scores)


def convex(*weights: float, normalise: Normalise = minmax, by: str = "convex") -> Fuse:
    """The weighted sum of normalised scores; a chunk that a ranking does not hold has 0 there.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023.
    """

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        totals: dict[str, float] = {}
        for hits, weight in zip(rankings, _weights(weights, rankings), strict=True):
            once = by_chunk(hits)
            for hit, score in zip(once, normalise([hit.score for hit in once]), strict=True):
                totals[hit.chunk.id] = totals.get(hit.chunk.id, 0.0) + weight * score
        return _ranked(rankings, totals, by)

    return fuse


def confident(*weights: float, sure: Sequence[Sure], sharpness: float = 2.0, by: str = "confident") -> Fuse:
    """As `convex`, with weights of the moment: each ranking's is multiplied by how sure it is of itself.

    No fixed weight is right everywhere: words lead astray where every text has them, meaning where the model does not
    know the language. `sure` tells for each ranking, from 0 to 1, how far it can be trusted for this question; the
    share of a ranking is its weight times that to the power of `sharpness`.
    """
    if sharpness < 0:
        raise SettingsError(f"sharpness is {sharpness}; it must be at least 0")

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        given = _weights(weights, rankings)
        trusted = [weight * tell(hits) ** sharpness for weight, tell, hits in zip(given, sure, rankings, strict=True)]
        total = sum(trusted)
        return convex(*([each / total for each in trusted] if total else given), by=by)(rankings)

    return fuse


def nearness(floor: float) -> Sure:
    """How near the first of a ranking by cosine is, from unrelated (`floor`, the embedder's own) to the same."""

    def tell(hits: list[Hit]) -> float:
        best = max((hit.score for hit in hits), default=floor)
        return max((best - floor) / (1 - floor), _LEAST) if hits else 0.0

    return tell


def contrast(hits: list[Hit]) -> float:
    """How far the first of a ranking by words stands out: 1 minus the mean of those after it over the first.

    BM25 has a true zero, no word shared, and so its scores may be divided. As the spread of scores is used to predict
    how well a query does: Shtok and others, "Predicting Query Performance by Query-Drift Estimation", 2012.
    """
    first, *others = sorted((hit.score for hit in hits), reverse=True)[:_LOOKED_AT] or [0.0]
    if first <= 0:
        return 0.0
    return max(1 - fmean(others) / first, _LEAST) if others else 1.0


def rrf(*weights: float, k: int = 60, by: str = "rrf") -> Fuse:
    """The weighted sum of 1 / (k + rank), ranks counted from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet", 2009.
    """
    if k < 0:
        raise SettingsError(f"k of rrf is {k}; it must be at least 0")

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        totals: dict[str, float] = {}
        for hits, weight in zip(rankings, _weights(weights, rankings), strict=True):
            for rank, hit in enumerate(by_chunk(hits), 1):
                totals[hit.chunk.id] = totals.get(hit.chunk.id, 0.0) + weight / (k + rank)
        return _ranked(rankings, totals, by)

    return fuse


def best(*, by: str = "best") -> Fuse:
    """Each chunk under the greatest score that any ranking gave it, for rankings that share a scale."""

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        totals: dict[str, float] = {}
        for hit in (hit for hits in rankings for hit in hits):
            totals[hit.chunk.id] = max(hit.score, totals.get(hit.chunk.id, hit.score))
        return _ranked(rankings, totals, by)

    return fuse


def round_robin(*weights: int, by: str = "round_robin") -> Fuse:
    """The rankings dealt out in turn, `weight` hits of each at a time; one that is exhausted is passed over.

    The score is 1 / position.
    """
    if any(weight != int(weight) for weight in weights):
        raise SettingsError(f"the weights of round_robin are {weights}; they must be whole numbers")

    def fuse(rankings: Sequence[list[Hit]]) -> list[Hit]:
        turns = [(iter(hits), int(weight)) for hits, weight in zip(rankings, _weights(weights, rankings), strict=True)]
        dealt: dict[str, None] = {}
        going = True
        while going:
            going = False
            for hits, weight in turns:
                fresh = (hit.chunk.id for hit in hits if hit.chunk.id not in dealt)
                for chunk_id in islice(fresh, weight):
                    dealt[chunk_id] = None
                    going = True
        return _ranked(rankings, {chunk_id: 1 / place for place, chunk_id in enumerate(dealt, 1)}, by)

    return fuse


def turns(*weights: float) -> list[int]:
    """Shares as the hits that each ranking deals at a time: the least share deals one, none deals none."""
    least = min((weight for weight in weights if weight > 0), default=1.0)
    return [round(weight / least) for weight in weights]


def _weights(weights: Sequence[float], rankings: Sequence[list[Hit]]) -> Sequence[float]:
    """One weight a ranking: those given, or 1 each."""
    if not weights:
        return [1] * len(rankings)
    if len(weights) != len(rankings):
        raise SettingsError(f"{len(weights)} weights were given for {len(rankings)} rankings; give one each")
    if any(weight < 0 for weight in weights):
        raise SettingsError(f"a weight is {min(weights)}; it must be at least 0")
    return weights


def _ranked(rankings: Sequence[list[Hit]], totals: Mapping[str, float], by: str) -> list[Hit]:
    """One hit a chunk with all the scores that led there, best total first."""
    merged: dict[str, Hit] = {}
    scores: dict[str, dict[str, float]] = {}
    for hit in (hit for hits in rankings for hit in hits):
        merged.setdefault(hit.chunk.id, hit)
        known = scores.setdefault(hit.chunk.id, {})
        for name, score in hit.scores.items():
            known[name] = max(score, known.get(name, score))
    order = sorted(totals, key=lambda chunk_id: (-totals[chunk_id], chunk_id))
    return [Hit(merged[i].chunk, totals[i], {**scores[i], by: totals[i]}) for i in order]
