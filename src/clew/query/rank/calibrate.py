"""Relevance: the chance that a chunk answers a query, from signals that mean the same for every query and collection.

Two signals: `meaning`, the cosine on the scale of the collection's calibration (0 unrelated, 1 as near as a sentence to
its own chunk), and `words`, the mean of the weighted share of the query's terms and of BM25 over its greatest possible.
The chance has two factors, each a logistic function that grows with every signal of the chunk:

- that the query has an answer here at all, by the best signals of any hit;
- that this hit is it: by its own signals, and by how far each stands above the level of the field, or below it.

Alone, the signals of a hit say little: a cosine that is outstanding among handbook pages is usual among near copies.
The level of the field is the mean of the third to fifth best signal of different texts. The best other hit would not
do: a message that repeats the question matches better than any answer.

That a text in another language than the question lacks its words says nothing. Its words are those to expect of its
meaning: in the question's own language they are about proportional to it (`python -m studies.across_languages`).

The weights are fitted on judged sets and tested on sets left out of the fit: `python -m studies.relevance`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Hit

Signal = NDArray[np.float64]  # a number for each hit
EXPECTED_WORDS, EXPECTED_SHARE = 0.43, 0.5  # of the meaning of a hit, where words cannot match


class Evidence(NamedTuple):
    """The signals of hits, a column each; `texts` tells copies of the same text apart from others.

    `foreign` are those in another language than the question, whose words are expected; empty if there are none.
    """

    meaning: Signal
    words: Signal
    share: Signal
    texts: Sequence[str]
    foreign: Sequence[bool] = ()

    def take(self, order: Sequence[int] | NDArray[np.intp]) -> "Evidence":
        """The evidence of the hits at these places, in this order."""
        texts = [self.texts[place] for place in order]
        foreign = [self.foreign[place] for place in order] if self.foreign else ()
        return Evidence(self.meaning[order], self.words[order], self.share[order], texts, foreign)

    def expect_words(self, foreign: Sequence[bool]) -> "Evidence":
        """The evidence where these hits are in another language: they have the words to expect, if not more."""
        meaning = np.where(foreign, np.clip(self.meaning, 0.0, 1.0), 0.0)
        words = np.maximum(self.words, EXPECTED_WORDS * meaning)
        return Evidence(self.meaning, words, np.maximum(self.share, EXPECTED_SHARE * meaning), self.texts, foreign)


@dataclass(frozen=True, slots=True)
class AnswerWeights:
    """Weights of the chance that any hit answers: the best meaning, the best share of terms, the best of both."""

    constant: float = -5.14
    meaning: float = 3.5
    share: float = 6.91
    both: float = 15.76


@dataclass(frozen=True, slots=True)
class HitWeights:
    """Weights of the chance that a hit is the answer: its signals, and their distance from the level of the field."""

    constant: float = -2.18
    meaning: float = 1.13
    words: float = 0.84
    meaning_above: float = 4.43
    meaning_below: float = 2.98
    words_above: float = 17.29
    words_below: float = 7.36


ANSWER_DEPTH = 10  # hits that the chance of an answer is estimated from, however many are shown
MATCH = "match"  # the name of the score that `estimate_match` computes
ANSWER_WEIGHTS = AnswerWeights()
HIT_WEIGHTS = HitWeights()
FIELD = slice(2, 5)  # the third to fifth best, which one or two texts that repeat the question hardly move
ALL = slice(None)


def estimate_relevance(
    evidence: Evidence,
    *,
    first: int | None = None,
    places: Sequence[int] | None = None,
    intent: float = 1.0,
    answer: AnswerWeights = ANSWER_WEIGHTS,
    hit: HitWeights = HIT_WEIGHTS,
) -> list[float]:
    """The relevance of the `first` hits of one query (None: of all), or of those at `places`, given that of all.

    `intent` is the chance that the query wants an answer.
    """
    has_answer = intent * squash(sum_answer_evidence(evidence, answer))
    weights = hit.meaning, hit.words, hit.meaning_above, hit.meaning_below, hit.words_above, hit.words_below
    compared = compare_evidence(evidence, slice(first) if places is None else list(places))
    is_answer = hit.constant + (compared * weights).sum(axis=1)
    return [has_answer * squash(each) for each in is_answer.tolist()]


def sum_answer_evidence(evidence: Evidence, weights: AnswerWeights = ANSWER_WEIGHTS) -> float:
    """The log odds that any of the hits answers."""
    meaning, share, both = find_best_evidence(evidence)
    return weights.constant + weights.meaning * meaning + weights.share * share + weights.both * both


def estimate_match(evidence: Evidence) -> list[float]:
    """How well each hit matches by its own signals alone, from 0 to 1: its evidence over that of a perfect match.

    It is the base for the factors of messages. Relevance would be too steep for it: of two messages that are nearly as
    near to a question, it gives most of the chance to the nearer one, whatever their age.
    """
    meaning, weights = np.maximum(evidence.meaning, 0.0), ANSWER_WEIGHTS
    found = weights.meaning * meaning + (weights.share + weights.both * meaning) * evidence.share
    most = weights.meaning + weights.share + weights.both
    matches: list[float] = np.minimum((1 + found) / (1 + most), 1.0).tolist()  # never 0: a factor can lift any
    return matches


def find_best_evidence(evidence: Evidence) -> tuple[float, float, float]:
    """The best meaning, the best share of terms, and the best product of both, of any hit."""
    meaning, share = np.maximum(evidence.meaning, 0.0), evidence.share
    return _find_highest(meaning), _find_highest(share), _find_highest(meaning * share)


def compare_evidence(evidence: Evidence, places: slice | list[int] = ALL) -> NDArray[np.float64]:
    """Return a row for each hit at these places: meaning, words, and how far each is above or below the field's level.

    What is not above is 0, and what is not below.
    """
    own_meaning, own_words = evidence.meaning[places], evidence.words[places]
    compared = np.empty((len(own_meaning), 6))
    for column, own, signal in ((0, own_meaning, evidence.meaning), (1, own_words, evidence.words)):
        distance = own - _find_level(signal, evidence.texts)
        compared[:, column] = own
        np.maximum(distance, 0.0, out=compared[:, 2 + 2 * column])
        np.minimum(distance, 0.0, out=compared[:, 3 + 2 * column])
    return compared


def estimate_answer_chance(hits: Iterable[Hit]) -> float:
    """The chance that one of the ten most relevant hits answers, if each does so by its relevance, independently."""
    chances = sorted((hit.relevance for hit in hits if not math.isnan(hit.relevance)), reverse=True)
    return 1.0 - math.prod(1.0 - chance for chance in chances[:ANSWER_DEPTH])


def refine_relevance(relevance: float, reranked: float) -> float:
    """The relevance after a reranker has read the hit: the mean of both chances as log odds; nan stays nan."""
    return squash((_log_odds(relevance) + _log_odds(reranked)) / 2)


def get_match(hit: Hit) -> float:
    """The match of a hit, or its relevance where none was computed."""
    return hit.scores.get(MATCH, hit.relevance)


def get_relevance(hit: Hit) -> float:
    """What a hit is compared by across lists: its relevance, or its score where none was computed."""
    return hit.score if math.isnan(hit.relevance) else hit.relevance


def sort_by_relevance(hits: Iterable[Hit]) -> list[Hit]:
    """The hits by relevance, equal ones by similarity, then by chunk id."""

    def sort_key(hit: Hit) -> tuple[float, float, str]:
        return -get_relevance(hit), 0.0 if math.isnan(hit.similarity) else -hit.similarity, hit.chunk.id

    return sorted(hits, key=sort_key)


def squash(log_odds: float) -> float:
    """The chance of log odds: 1 / (1 + e^-x)."""
    if log_odds < -700:
        return 0.0
    return 1 / (1 + math.exp(-log_odds))


def _log_odds(chance: float) -> float:
    bounded = min(max(chance, 1e-9), 1 - 1e-9) if chance == chance else chance
    return math.log(bounded / (1 - bounded))


def _find_level(signal: Signal, texts: Sequence[str]) -> float:
    """Return the mean of the signals at the ranks of `FIELD`, copies of a text counting once; at least 0 each."""
    best: dict[str, float] = {}
    for place in np.argsort(-signal, kind="stable").tolist():
        best.setdefault(texts[place], max(0.0, float(signal[place])))
        if len(best) == FIELD.stop:
            break
    return sum(list(best.values())[FIELD]) / (FIELD.stop - FIELD.start)


def _find_highest(signal: Signal) -> float:
    return float(signal.max(initial=0.0))
