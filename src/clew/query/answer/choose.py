"""Which passages of a context answer a question without a model, in which order, and how likely they do.

A reader, which was trained to tell an answer from what is merely close to it, and the reranker, which says what a text
is about, read the hits of each passage. Their log-odds and those of the relevance together order the passages: any one
of them puts the right one first less often. The part that they find best is marked. What the reader says of the best
hit and of the marked part is the confidence. Where it does not know the language, the reranker reads alone, and the
confidence is the relevance refined by it, as after the strategy `rerank`. `python -m studies.quoted` measures this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.answer import AnswerPart
from clew.core.protocols import Reranker
from clew.core.types import Hit
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.quote import Part, list_parts, quote_part
from clew.query.rank.calibrate import refine_relevance
from clew.query.search.rerank import score_texts

READ_HITS = 10  # of all passages, the most relevant
READ_PARTS = 24  # of a passage, the nearest to its best hit
MIN_CHANCE = 0.001  # chances are clipped to this distance from 0 and 1
MAX_LAG = 6.0  # in summed log-odds, behind the first passage, of one that is shown after it
# Fitted on the contexts that are kept for choosing and on the sample: of the log-odds of a passage, against 1 for those
# of its relevance; of its parts, against 1 for what the reader says; and of what answers first, against all else.
READER_WEIGHT, RERANKER_WEIGHT = 2.2, 3.3
MESSAGE_WEIGHT, TOPIC_WEIGHT = 0.5, 0.8  # of a whole message, and of the reranker on a part of a page
OFFSET, HIT_WEIGHT, PART_WEIGHT = 2.2, 0.55, 0.47


@dataclass(frozen=True, slots=True)
class QuestionReader:
    """Reads texts for one question: the reranker, and the reader where it knows the language."""

    question: str
    reranker: Reranker
    reader: Reranker | None = None

    def read(self, texts: Sequence[str]) -> list[float]:
        """The log-odds that each text answers."""
        return self._score(self.reader or self.reranker, texts)

    def read_topics(self, texts: Sequence[str]) -> list[float]:
        """The log-odds by the reranker beside a reader; 0 where it reads alone."""
        return self._score(self.reranker, texts) if self.reader else [0.0] * len(texts)

    def _score(self, model: Reranker, texts: Sequence[str]) -> list[float]:
        scores = score_texts(model, self.question, texts) if texts else []
        return [to_log_odds(model.calibrate(score)) for score in scores]


@dataclass(frozen=True, slots=True)
class Choice:
    """The quoted passages, best first, and the chance that the first answers."""

    parts: tuple[AnswerPart, ...] = ()
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class _ReadPassage:
    """A passage with its best hit, what was read of that hit, and the log-odds that order it."""

    passage: NumberedPassage
    hit: Hit
    read: float
    odds: float


def choose_passages(reader: QuestionReader, passages: Sequence[NumberedPassage], *, max_passages: int) -> Choice:
    """Quote the passages that answer best, each with its best part marked."""
    ranked = _rank_passages(reader, passages)
    quoted: list[AnswerPart] = []
    confidence = 0.0
    for each in ranked:
        found = _find_best_part(reader, each)
        if found is None:
            continue
        part, odds = found
        if not quoted:
            confidence, first = _estimate_confidence(reader, each, odds), each.odds
        elif each.odds < first - MAX_LAG:
            break
        quoted.append(quote_part(each.passage, part))
        if len(quoted) == max_passages:
            break
    return Choice(tuple(quoted), confidence)


def find_best_spans(
    reader: QuestionReader, passages: Sequence[NumberedPassage], *, count: int
) -> list[tuple[int, int]]:
    """The spans of the parts that answer best, of whichever passage, and not far behind the first."""
    parts = [part for passage in passages for part in list_parts(passage)]
    odds = reader.read([part.text for part in parts])
    least = max(odds, default=0.0) - MAX_LAG
    order = sorted((place for place, each in enumerate(odds) if each >= least), key=lambda place: -odds[place])
    return [(parts[place].start, parts[place].end) for place in order[:count]]


def to_log_odds(chance: float) -> float:
    """The log-odds of a chance, clipped so that they are finite."""
    clipped = min(max(chance, MIN_CHANCE), 1 - MIN_CHANCE)
    return math.log(clipped / (1 - clipped))


def _rank_passages(reader: QuestionReader, passages: Sequence[NumberedPassage]) -> list[_ReadPassage]:
    """The passages in the order of relevance and reading together; only those of the most relevant hits."""
    pairs = [(each, hit) for each in passages for hit in each.passage.chunks if not math.isnan(hit.relevance)]
    pairs = pairs or [(each, each.passage.chunks[0]) for each in passages]  # of a strategy that tells no relevance
    pairs = sorted(pairs, key=lambda pair: -pair[1].score)[:READ_HITS]
    texts = [hit.chunk.index_text for _, hit in pairs]
    best: dict[int, _ReadPassage] = {}
    for (passage, hit), read, topic in zip(pairs, reader.read(texts), reader.read_topics(texts), strict=True):
        relevance = 0.0 if math.isnan(hit.relevance) else to_log_odds(hit.relevance)
        odds = relevance + READER_WEIGHT * read + RERANKER_WEIGHT * topic
        known = best.get(passage.number)
        if known is None or odds > known.odds:
            best[passage.number] = _ReadPassage(passage, hit, read, odds)
    return sorted(best.values(), key=lambda each: (-each.odds, each.passage.number))


def _find_best_part(reader: QuestionReader, read: _ReadPassage) -> tuple[Part, float] | None:
    """The part of a passage that answers best, of those nearest to its best hit, and its log-odds; None without any."""
    parts = sorted(list_parts(read.passage), key=lambda part: _measure_distance(part, read.hit))[:READ_PARTS]
    odds = reader.read([part.text for part in parts])
    if not parts:
        return None
    if parts[0].message < 0:
        topics = reader.read_topics([part.text for part in parts])
        ranks = [own + TOPIC_WEIGHT * topic for own, topic in zip(odds, topics, strict=True)]
    else:
        whole = {hit.chunk.start: hit.chunk for hit in read.passage.passage.chunks}
        starts = [max(start for start in whole if start <= part.start) for part in parts]
        texts = dict.fromkeys(whole[start].index_text for start in starts)
        chunks = dict(zip(texts, reader.read(list(texts)), strict=True))
        ranks = [
            own + MESSAGE_WEIGHT * chunks[whole[start].index_text] for own, start in zip(odds, starts, strict=True)
        ]
    place = max(range(len(parts)), key=lambda place: ranks[place])
    return parts[place], odds[place]


def _measure_distance(part: Part, hit: Hit) -> int:
    """How far a part is from a hit, in characters; 0 inside."""
    return max(hit.chunk.start - part.end, part.start - hit.chunk.end, 0)


def _estimate_confidence(reader: QuestionReader, read: _ReadPassage, part: float) -> float:
    """The chance that a passage answers."""
    if reader.reader is None:
        chance = 1 / (1 + math.exp(-read.read))
        return chance if math.isnan(read.hit.relevance) else refine_relevance(read.hit.relevance, chance)
    return 1 / (1 + math.exp(-(OFFSET + HIT_WEIGHT * read.read + PART_WEIGHT * part)))
