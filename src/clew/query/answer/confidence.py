"""How likely it is that what was found answers: what stands between finding something and saying it.

There is always a best hit, also where the collection holds no answer, and a reranker tells whether a text is on the
subject more than whether it bears on the question. So it is asked as well how far the best hit stands out of what other
documents say about the subject, by meaning and by words at once. `python -m studies.confidence` fits the weights.
"""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from clew.core.text import terms
from clew.core.types import Hit

LOOKED_AT = 20  # hits
OTHERS = 10  # documents that the best one must stand out of
SURE = 0.05  # a chance of the reranker nearer to 0 or 1 than this says no more than one that is as near


@dataclass(frozen=True, slots=True)
class Weights:
    """What the signals weigh in the log-odds; `words` is what the terms of a hit weigh beside its nearness."""

    standing: float
    reranker: float
    offset: float
    words: float


# Rounded from a fit of these signals (3.11, 0.80, -1.01) on the sample handbook, XQuAD in English and German, CoSQA and
# ClapNQ, 80 to 100 questions each, with and without the documents that answer. That command fits them anew. `words` is
# set by hand: from 0.4 to 1 it makes no difference.
WEIGHTS = Weights(standing=3.0, reranker=0.8, offset=-1.0, words=0.6)


@dataclass(frozen=True, slots=True)
class Look:
    """What a collection shows of a question, however it is searched for an answer: the best hits by meaning and words.

    `asked` are the question's terms, `floor` is the cosine of unrelated texts.
    """

    hits: Sequence[Hit]
    asked: Set[str]
    floor: float = 0.0
    language: str = "auto"


@dataclass(frozen=True, slots=True)
class Signals:
    """What the confidence is made of: how far the best hit stands out, and the reranker's log-odds for the best."""

    standing: float
    reranker: float


def signals(look: Look, chances: Iterable[float], *, words: float = WEIGHTS.words) -> Signals:
    """The signals of a look and of the chances that the reranker gave to what is read for an answer."""
    best = min(max(max(chances, default=0.0), SURE), 1 - SURE)
    return Signals(standing(look, words=words), math.log(best / (1 - best)))


def standing(look: Look, *, words: float = WEIGHTS.words) -> float:
    """How far the best hit is above the next ten documents, each by its best hit; one that is not there has 0.

    Other documents, because the chunks of one that answers are all of them near.
    """
    best: dict[str, float] = {}
    for hit in look.hits[:LOOKED_AT]:
        best[hit.chunk.doc_id] = max(best.get(hit.chunk.doc_id, 0.0), evidence(hit, look, words=words))
    first, *others = sorted(best.values(), reverse=True) or [0.0]
    return first - sum(others[:OTHERS]) / OTHERS


def evidence(hit: Hit, look: Look, *, words: float = WEIGHTS.words) -> float:
    """How near a hit is, from unrelated (0) to the same (1), and `words` times the share of the terms that it holds.

    One that is not among the nearest counts as unrelated. Every term counts alike: to weigh them by how rare they are
    changed nothing, and what people say by the way ("hey folks") is rare in a handbook.
    """
    near = max((hit.scores.get("semantic", look.floor) - look.floor) / (1 - look.floor), 0.0)
    held = look.asked & terms(hit.chunk.embed_text, language=look.language).keys()
    return near + words * len(held) / max(len(look.asked), 1)


def confidence(given: Signals, weights: Weights = WEIGHTS) -> float:
    """The chance, from 0 to 1, that what was found answers: a logistic regression over the signals."""
    odds = weights.standing * given.standing + weights.reranker * given.reranker + weights.offset
    return 0.5 * (1 + math.tanh(0.5 * odds))
