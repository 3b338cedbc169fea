"""Different hits before more of the same: by meaning, by marginal relevance, and by the queries they answer."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clew.core.errors import SettingsError
from clew.core.protocols import Step
from clew.core.trace import step
from clew.core.types import Hit, Matrix, Query, Vector

Vectors = Callable[[Sequence[str]], Mapping[str, Vector]]  # of chunks by their ids, those that are there

THRESHOLD = 0.92  # the cosine from which on two texts say the same
BALANCE = 0.7


def by_meaning(vectors: Vectors, *, threshold: float = THRESHOLD) -> Step:
    """A step that drops each hit whose cosine to a kept hit of a better score is at least the threshold."""
    if not -1 <= threshold <= 1:
        raise SettingsError(f"threshold is {threshold}; it must be between -1 and 1")

    def keep(_: Query, hits: list[Hit]) -> list[Hit]:
        with step("by_meaning") as trace:
            alike = _cosines(hits, vectors)
            kept: list[int] = []
            for place in sorted(range(len(hits)), key=lambda place: -hits[place].score):
                # Nothing is known of a chunk without a vector, and the rounding of float32 must not decide.
                if not kept or alike[place, kept].max() < threshold - 1e-6:
                    kept.append(place)
            told_apart = [hits[place] for place in sorted(kept)]
            trace.set_output(told_apart)
            return told_apart

    return keep


def mmr(vectors: Vectors, *, balance: float = BALANCE) -> Step:
    """A step that orders hits by what each adds: balance · score - (1 - balance) · its greatest cosine to those before.

    The hits keep their scores, and what they were taken for is written beside them. Scores of a scale that passes 1 are
    first divided by the greatest. Carbonell and Goldstein, "The Use of MMR", 1998.
    """
    if not 0 <= balance <= 1:
        raise SettingsError(f"mmr is {balance}; it must be between 0 and 1")

    def order(_: Query, hits: list[Hit]) -> list[Hit]:
        with step("mmr") as trace:
            alike = _cosines(hits, vectors)
            scores = np.array([hit.score for hit in hits])
            relevance = balance * scores / max(1.0, scores.max(initial=0.0))
            nearest = np.zeros(len(hits))  # nothing was taken yet, so there is nothing to be like
            left = list(range(len(hits)))
            taken: list[Hit] = []
            while left:
                values = relevance[left] - (1 - balance) * nearest[left]
                at = int(np.argmax(values))
                place = left.pop(at)
                hit = hits[place]
                nearest = np.maximum(nearest, alike[place]) if taken else alike[place]
                taken.append(Hit(hit.chunk, hit.score, {**hit.scores, "mmr": float(values[at])}))
            trace.set_output(taken)
            return taken

    return order


def coverage(hits: Sequence[Hit], rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The hits so that each query's best document comes before any query's second, and so on; equals by score.

    A document that is best for two queries serves both. A further hit of the same document waits a round. The scores
    stay what they are: how near a hit is, not where it stands.
    """
    rounds: dict[str, int] = {}
    for ranking in rankings:
        for place, document in enumerate(dict.fromkeys(hit.chunk.doc_id for hit in ranking)):
            rounds[document] = min(place, rounds.get(document, place))
    last = max(rounds.values(), default=0) + 1
    keyed: list[tuple[int, float, str, Hit]] = []
    seen: dict[str, int] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id)):
        document = hit.chunk.doc_id
        seen[document] = seen.get(document, -1) + 1
        keyed.append((rounds.get(document, last) + seen[document], -hit.score, hit.chunk.id, hit))
    return [each[3] for each in sorted(keyed, key=lambda each: each[:3])]


def _cosines(hits: Sequence[Hit], vectors: Vectors) -> Matrix:
    """The cosine of each hit with each; 0 where a vector is not there."""
    known = vectors([hit.chunk.id for hit in hits]) if hits else {}
    width = len(next(iter(known.values()))) if known else 1
    blank = np.zeros(width, np.float32)
    rows = np.array([known.get(hit.chunk.id, blank) for hit in hits], np.float32).reshape(len(hits), width)
    return np.asarray(rows @ rows.T, np.float32)
