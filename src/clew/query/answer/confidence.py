"""Answer confidence: the probability that the hits answer the question, by which an answer abstains.

There is always a best hit, even where the collection holds no answer. The reader tells an answer from what is close to
it, so what it says of the best chunk and of the best part decides. A reranker judges the topic of a text more than
whether it answers: with it the margin of the best hit over other documents on the topic counts, by meaning and words at
once. `python -m studies.confidence` fits the reranker's weights; `python -m studies.reader.asked` judges the reader's.
"""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from clew.core.text import extract_terms
from clew.core.types import Hit

PROBE_HITS = 20
OTHER_DOCUMENTS = 10  # documents that the best one is compared with
NO_PART = -7.0  # the log-odds of the best part where there is none
MIN_PROBABILITY = 0.05  # the reranker's probabilities are clipped to this distance from 0 and 1


@dataclass(frozen=True, slots=True)
class ConfidenceWeights:
    """The weights of the signals in the log-odds; `words` weighs the terms of a hit against its cosine."""

    margin: float
    reranker: float
    offset: float
    words: float
    part: float = 0.0


# Rounded from a fit of these signals (3.11, 0.80, -1.01) on the sample handbook, XQuAD in English and German, CoSQA and
# ClapNQ, 80 to 100 questions each, with and without the documents that answer. `words` is set by hand: from 0.4 to 1
# it makes no difference.
WEIGHTS = ConfidenceWeights(margin=3.0, reranker=0.8, offset=-1.0, words=0.6)
# Fitted on the near misses and the answered questions of the written contexts that were kept for choosing. There the
# margin speaks against an answer, since a near miss shares more words with its passage, and where the evidence was
# taken out it speaks for one: it has no weight. The offset (2.0 by the fit) makes the odds of 0.5 those of 0.4, from
# which `ask` answers whatever reads.
READER_WEIGHTS = ConfidenceWeights(margin=0.0, reranker=0.38, part=0.48, offset=1.6, words=0.6)
NEUTRAL_MARGIN = -WEIGHTS.offset / WEIGHTS.margin  # that leaves the decision to the reranker


@dataclass(frozen=True, slots=True)
class Probe:
    """The best hits of a hybrid search for the question, whatever strategy the answer itself uses.

    `background` is the cosine of unrelated texts.
    """

    hits: Sequence[Hit]
    query_terms: Set[str]
    background: float = 0.0
    language: str = "auto"


@dataclass(frozen=True, slots=True)
class ConfidenceSignals:
    """The inputs of the confidence: the margin of the best hit, the log-odds of the best chunk and of the best part."""

    margin: float
    reranker: float
    part: float = 0.0


def compute_signals(
    probe: Probe,
    probabilities: Iterable[float],
    parts: Iterable[float] = (),
    *,
    word_weight: float = WEIGHTS.words,
    min_probability: float = MIN_PROBABILITY,
) -> ConfidenceSignals:
    """The signals of a probe, of the probabilities of the chunks that are read, and of the log-odds of their parts."""
    best = min(max(max(probabilities, default=0.0), min_probability), 1 - min_probability)
    margin = compute_margin(probe, word_weight=word_weight)
    return ConfidenceSignals(margin, math.log(best / (1 - best)), max(parts, default=NO_PART))


def compute_margin(probe: Probe, *, word_weight: float = WEIGHTS.words) -> float:
    """The mean of how far the best hit scores above each of the next ten documents, by their best hits.

    Other documents, because all chunks of one that answers are near. Where fewer were found, what is not known of the
    others counts as `NEUTRAL_MARGIN`: in a collection of three pages nothing follows from the lack of a fourth.
    """
    best: dict[str, float] = {}
    for hit in probe.hits[:PROBE_HITS]:
        score = score_evidence(hit, probe, word_weight=word_weight)
        best[hit.chunk.doc_id] = max(best.get(hit.chunk.doc_id, 0.0), score)
    first, *others = sorted(best.values(), reverse=True) or [0.0]
    leads = [first - other for other in others[:OTHER_DOCUMENTS]]
    return (sum(leads) + (OTHER_DOCUMENTS - len(leads)) * NEUTRAL_MARGIN) / OTHER_DOCUMENTS


def score_evidence(hit: Hit, probe: Probe, *, word_weight: float = WEIGHTS.words) -> float:
    """The cosine of a hit from background (0) to 1, plus `word_weight` times the share of query terms that it has.

    A hit without a cosine counts as background. Terms are not weighted by rarity: that changed nothing, and small talk
    ("hey folks") is rare in a handbook.
    """
    near = max((hit.scores.get("semantic", probe.background) - probe.background) / (1 - probe.background), 0.0)
    shared = probe.query_terms & extract_terms(hit.chunk.index_text, language=probe.language).keys()
    return near + word_weight * len(shared) / max(len(probe.query_terms), 1)


def compute_confidence(signals: ConfidenceSignals, weights: ConfidenceWeights = WEIGHTS) -> float:
    """The probability that the hits answer the question: a logistic regression over the signals."""
    odds = weights.margin * signals.margin + weights.reranker * signals.reranker + weights.offset
    odds += weights.part * signals.part
    return 0.5 * (1 + math.tanh(0.5 * odds))
