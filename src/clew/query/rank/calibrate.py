"""Relevance: the chance that a chunk answers a query, from signals that mean the same for every query and collection.

There are two signals: `meaning`, the cosine on the scale of the collection's calibration (0 unrelated, 1 as near as a
sentence to its own chunk), and `words`, the mean of the weighted share of the query's terms and of BM25 over its
maximum. The chance is the product of two logistic functions, which grow with every signal:

- the chance that a text with these signals answers a query at all;
- the chance that this hit does, by its own signals and their distance above or below the level of the field.

The signals of a hit alone say little: a cosine that is outstanding among handbook pages is usual among near copies. The
level of the field is the mean of the third to twentieth best signal of different texts among all that may be seen. The
best other hit is no measure: a message that repeats the question matches better than any answer.

A text in another language than the question lacks its words, which says nothing. It counts with the words that its
meaning predicts: within a language both are about proportional (`python -m studies.across_languages`).

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
EXPECTED_WORDS, EXPECTED_SHARE = 0.43, 0.5  # per unit of meaning, for a hit whose words cannot match


class Evidence(NamedTuple):
    """The signals of hits, a column each; `foreign` marks hits in another language than the question."""

    meaning: Signal
    words: Signal
    share: Signal
    foreign: NDArray[np.bool_] | None = None  # None: there are none

    def expect_words(self, foreign: NDArray[np.bool_]) -> "Evidence":
        """Return the evidence with hits marked as foreign: each has at least the words that its meaning predicts."""
        meaning = np.where(foreign, np.clip(self.meaning, 0.0, 1.0), 0.0)
        words = np.maximum(self.words, EXPECTED_WORDS * meaning)
        return Evidence(self.meaning, words, np.maximum(self.share, EXPECTED_SHARE * meaning), foreign)

    def measure_field(self, places: Sequence[int] | NDArray[np.intp] | None = None) -> "Field":
        """Measure the level of the field from the best of all hits, or of the hits at these places."""
        signals = (self.meaning, LEAST_MEANING), (self.words, LEAST_WORDS)
        chosen = np.arange(len(self.meaning)) if places is None else np.array(places, np.intp)
        pairs = np.column_stack([self.meaning[chosen], self.words[chosen]]).round(SAME_DIGITS)
        distinct = chosen[np.unique(pairs, axis=0, return_index=True)[1]]  # copies of a text count once
        return Field(*(_find_level(signal[distinct], least) for signal, least in signals))


class Field(NamedTuple):
    """The level of the field: typical best signals of all that may be seen, with which hits are compared."""

    meaning: float
    words: float


def expect_meaning(meaning: Signal, share: Signal) -> Signal:
    """Return the meaning of hits; without a vector yet, their share of the terms, which is about as great."""
    return np.where(np.isnan(meaning), share, meaning)


@dataclass(frozen=True, slots=True)
class AnswerWeights:
    """Weights of the chance that a text answers at all: its meaning, its share of the terms, their product."""

    constant: float = -5.01
    meaning: float = 3.11
    share: float = 10.05
    both: float = 15.73


@dataclass(frozen=True, slots=True)
class HitWeights:
    """Weights of the chance that a hit is the answer: its signals, and their distance from the level of the field."""

    constant: float = -2.88
    meaning: float = 0.21
    words: float = 0.5
    meaning_above: float = 2.95
    meaning_below: float = 4.3
    words_above: float = 11.9
    words_below: float = 14.6


ANSWER_DEPTH = 10  # hits from which to estimate the chance of an answer, however many are shown
ANSWER = "answer"  # the name of the score that `estimate_answers` computes
MATCH = "match"  # the name of the score that `estimate_match` computes
PART = "part"  # the name of the score with the number of the conversation's query that found a hit
ANSWER_WEIGHTS = AnswerWeights()
HIT_WEIGHTS = HitWeights()
FIELD = slice(2, 20)  # the third to twentieth best; one more text moves their mean by an eighteenth of its lead
LEAST_MEANING, LEAST_WORDS = 0.3, 0.15  # minimum of a signal in the field, so that a few pages are judged like many
SEMANTIC_WEIGHT = 0.4  # the default of the settings, for which the weights are fitted
SAME_DIGITS = 6  # by which signals are compared: equal ones count as the same text
_MEANING, _WORDS = [0, 2, 3], [1, 4, 5]  # columns of `compare_evidence`


def estimate_relevance(
    evidence: Evidence,
    field: Field,
    *,
    intent: float = 1.0,
    semantic_weight: float | Signal = SEMANTIC_WEIGHT,
    words_trust: float | Signal = 1.0,
    answer: AnswerWeights = ANSWER_WEIGHTS,
    hit: HitWeights = HIT_WEIGHTS,
) -> Signal:
    """Return the relevance of the hits of one query in their field.

    intent: The chance that the query wants an answer.
    semantic_weight: The weight of meaning against words, of each hit or of all; only the default is calibrated.
    words_trust: A value below 1 lets words count less, of each hit or of all.
    """
    by_meaning, by_words = _weigh_signals(semantic_weight, words_trust)
    weights = hit.meaning, hit.words, hit.meaning_above, hit.meaning_below, hit.words_above, hit.words_below
    terms = compare_evidence(evidence, field) * weights
    this_one = hit.constant + by_meaning * terms[:, _MEANING].sum(axis=1) + by_words * terms[:, _WORDS].sum(axis=1)
    at_all = estimate_answers(evidence, semantic_weight=semantic_weight, words_trust=words_trust, weights=answer)
    relevances: Signal = intent * at_all * squash(this_one)
    return relevances


def estimate_answers(
    evidence: Evidence,
    *,
    semantic_weight: float | Signal = SEMANTIC_WEIGHT,
    words_trust: float | Signal = 1.0,
    weights: AnswerWeights = ANSWER_WEIGHTS,
) -> Signal:
    """Return the chance that each text answers a query at all, by its own signals.

    It tells whether there is an answer. Relevance does not: texts about as near as the answer lower it.
    """
    by_meaning, by_words = _weigh_signals(semantic_weight, words_trust)
    meaning, share, both = pair_evidence(evidence).T
    by_both = by_words * (weights.share * share + weights.both * both)
    return squash(weights.constant + by_meaning * weights.meaning * meaning + by_both)


def _weigh_signals(semantic_weight: float | Signal, words_trust: float | Signal) -> tuple[Signal, Signal]:
    """Return the factors of meaning and of words, 1 by default."""
    by_words = words_trust * (1 - np.asarray(semantic_weight)) / (1 - SEMANTIC_WEIGHT)
    return np.asarray(semantic_weight) / SEMANTIC_WEIGHT, by_words


def estimate_match(evidence: Evidence, place: int) -> float:
    """Estimate from 0 to 1 how well the hit at a place matches: its evidence over that of a perfect match.

    The factors of messages (age, channel) multiply it. Relevance would be too steep for them: of two messages nearly as
    near to a question, it gives most of the chance to the nearer one, whatever their age.
    """
    meaning, share, weights = max(float(evidence.meaning[place]), 0.0), float(evidence.share[place]), ANSWER_WEIGHTS
    found = weights.meaning * meaning + (weights.share + weights.both * meaning) * share
    most = weights.meaning + weights.share + weights.both
    return min((1 + found) / (1 + most), 1.0)  # never 0: a factor can lift any


def pair_evidence(evidence: Evidence) -> NDArray[np.float64]:
    """Return a row for each hit: its meaning, its share of the terms, and their product; none is below 0."""
    meaning = np.maximum(evidence.meaning, 0.0)
    return np.column_stack([meaning, evidence.share, meaning * evidence.share])


def compare_evidence(evidence: Evidence, field: Field) -> NDArray[np.float64]:
    """Return a row for each hit: meaning, words, and the distance of each above and below the level of the field.

    A hit has 0 for the distance on the other side; distances below are negative.
    """
    compared = np.empty((len(evidence.meaning), 6))
    for column, (own, level) in enumerate(zip(evidence[:2], field, strict=True)):
        compared[:, column] = own
        np.maximum(own - level, 0.0, out=compared[:, 2 + 2 * column])
        np.minimum(own - level, 0.0, out=compared[:, 3 + 2 * column])
    return compared


def estimate_answer_chances(hits: Iterable[Hit]) -> dict[float, float]:
    """Estimate for each query of a conversation, by number, the chance of an answer: the greatest of its ten best hits.

    Chances of different queries are not combined: they are not chances of one answer.
    """
    found: dict[float, list[float]] = {}
    for hit in sort_by_relevance(hits):
        found.setdefault(get_part(hit), []).append(hit.scores.get(ANSWER, get_relevance(hit)))
    return {part: max(chances[:ANSWER_DEPTH]) for part, chances in found.items()}


def get_part(hit: Hit) -> float:
    """Return the number of the query that found a hit; 0 where there was only one."""
    return hit.scores.get(PART, 0.0)


def refine_relevance(relevance: float, reranked: float) -> float:
    """Return the relevance after reranking: the mean of both chances as log odds; nan stays nan."""
    return 1 / (1 + math.exp(-(_log_odds(relevance) + _log_odds(reranked)) / 2))


def get_match(hit: Hit) -> float:
    """Return the match of a hit, or its relevance where none was computed."""
    return hit.scores.get(MATCH, hit.relevance)


def get_relevance(hit: Hit) -> float:
    """Return the number that compares hits across lists: the relevance, or the score if none was computed."""
    return hit.score if math.isnan(hit.relevance) else hit.relevance


def sort_by_relevance(hits: Iterable[Hit]) -> list[Hit]:
    """Sort hits by relevance, equal ones by similarity, then by chunk id."""

    def sort_key(hit: Hit) -> tuple[float, float, str]:
        return -get_relevance(hit), 0.0 if math.isnan(hit.similarity) else -hit.similarity, hit.chunk.id

    return sorted(hits, key=sort_key)


def squash(log_odds: Signal) -> Signal:
    """Turn log odds into a chance: 1 / (1 + e^-x)."""
    return np.asarray(1 / (1 + np.exp(-np.maximum(log_odds, -700))), np.float64)


def _log_odds(chance: float) -> float:
    bounded = min(max(chance, 1e-9), 1 - 1e-9) if chance == chance else chance
    return math.log(bounded / (1 - bounded))


def _find_level(signal: Signal, least: float) -> float:
    """Return the mean of the signals at the ranks of the field, each at least `least`."""
    best = np.full(FIELD.stop, least)
    found = np.sort(signal)[::-1][: FIELD.stop]
    best[: len(found)] = np.maximum(found, least)
    return float(best[FIELD].mean())
