"""The choice and order of passages that answer a question without a model, and the confidence of the answer.

Two models score the hits of each passage: the reader, trained to tell an answer from a text that is merely close to it,
and the reranker, which scores the subject. Passages are ordered by the sum of both log-odds and those of the relevance;
any one alone puts the right passage first less often. The best-scored part of the best hit is marked. The confidence
combines the sum with the reader's score of the marked part. If the reader does not know the language, the reranker
scores alone, and the confidence is the relevance refined by it, as after the strategy `rerank`. `python -m
studies.quoted` measures this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.answer import AnswerPart
from clew.core.protocols import Reranker
from clew.core.types import Chunk, Hit
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.quote import Part, list_parts, quote_part
from clew.query.search.rank import score_texts

READ_HITS = 10  # of all passages, those with the best scores
READ_PARTS = 24  # of a passage, the nearest to its best hit
MIN_CHANCE = 0.001  # chances are clipped to this distance from 0 and 1
MAX_LAG = 4.0  # in log-odds, behind the first passage, within which others are shown
MAX_PART_LAG = 6.0  # … and within which an agent reads parts
# Of the confidence: a constant, and the weights of the passage's log-odds and of the reader's on the marked part.
OFFSET, HIT_WEIGHT, PART_WEIGHT = 1.5, 0.2, 0.5
MESSAGE_WEIGHT, TOPIC_WEIGHT = 0.5, 0.8  # of the whole message, and of the reranker on a page, in the choice of a part


@dataclass(frozen=True, slots=True)
class QuestionReader:
    """The models that score texts for one question: the reranker, and the reader if it knows the language.

    A follow-up is read as `turns`: the question before it, then the question as asked. Only the reader was trained on
    turns, so it reads alone, in place of the reranker too.
    """

    question: str
    reranker: Reranker
    reader: Reranker | None = None
    turns: str = ""

    def read(self, texts: Sequence[str]) -> list[float]:
        """Return the log-odds that each text answers."""
        if self.reader is None:
            return self._score(self.reranker, self.question, texts)
        return self._score(self.reader, self.turns or self.question, texts)

    def read_topics(self, texts: Sequence[str], odds: Sequence[float]) -> list[float]:
        """Return the log-odds to add to the reader's: the reranker's, or for a follow-up the reader's again."""
        if self.reader is None:
            return [0.0] * len(texts)
        return list(odds) if self.turns else self._score(self.reranker, self.question, texts)

    def _score(self, model: Reranker, question: str, texts: Sequence[str]) -> list[float]:
        scores = score_texts(model, question, texts) if texts else []
        return [to_log_odds(model.calibrate(score)) for score in scores]


@dataclass(frozen=True, slots=True)
class Choice:
    """The quoted passages, best first, and the chance that the first answers."""

    parts: tuple[AnswerPart, ...] = ()
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class _ReadPassage:
    """A passage with its best hit, and the log-odds of that hit."""

    passage: NumberedPassage
    hit: Hit
    odds: float


def choose_passages(reader: QuestionReader, passages: Sequence[NumberedPassage], *, max_passages: int) -> Choice:
    """Quote the passages that answer best, each with its best part marked."""
    quoted: list[AnswerPart] = []
    best = confidence = 0.0
    for each in _rank_passages(reader, passages):
        if len(quoted) == max_passages or (quoted and each.odds < best - MAX_LAG):
            break
        found = _find_best_part(reader, each)
        if found is None:
            continue
        part, odds = found
        if not quoted:
            best, confidence = each.odds, _estimate_confidence(reader, each, odds)
        quoted.append(quote_part(each.passage, part, (each.hit.chunk.start, each.hit.chunk.end)))
    return Choice(tuple(quoted), confidence)


def find_best_spans(
    reader: QuestionReader, passages: Sequence[NumberedPassage], *, count: int
) -> list[tuple[int, int]]:
    """Return the spans of the parts that answer best, over all passages, within MAX_PART_LAG of the first."""
    parts = [part for passage in passages for part in list_parts(passage)]
    odds = reader.read([part.text for part in parts])
    least = max(odds, default=0.0) - MAX_PART_LAG
    order = sorted((place for place, each in enumerate(odds) if each >= least), key=lambda place: -odds[place])
    return [(parts[place].start, parts[place].end) for place in order[:count]]


def to_log_odds(chance: float) -> float:
    """Return the log-odds of a chance, clipped so that they are finite."""
    clipped = min(max(chance, MIN_CHANCE), 1 - MIN_CHANCE)
    return math.log(clipped / (1 - clipped))


def _rank_passages(reader: QuestionReader, passages: Sequence[NumberedPassage]) -> list[_ReadPassage]:
    """Rank the passages by the log-odds of their best hits; read only the hits with the best scores."""
    pairs = [(each, hit) for each in passages for hit in each.passage.chunks if not math.isnan(hit.relevance)]
    pairs = pairs or [(each, each.passage.chunks[0]) for each in passages]  # the strategy gives no relevance
    most = 2 * READ_HITS if reader.turns else READ_HITS  # without the reranker, in the same time
    pairs = sorted(pairs, key=lambda pair: -_rate(pair[1]))[:most]
    texts = [hit.chunk.index_text for _, hit in pairs]
    best: dict[int, _ReadPassage] = {}
    read = reader.read(texts)
    for (passage, hit), own, topic in zip(pairs, read, reader.read_topics(texts, read), strict=True):
        odds = own + topic + (0.0 if math.isnan(hit.relevance) else to_log_odds(hit.relevance))
        known = best.get(passage.number)
        if known is None or odds > known.odds:
            best[passage.number] = _ReadPassage(passage, hit, odds)
    return sorted(best.values(), key=lambda each: (-each.odds, each.passage.number))


def _rate(hit: Hit) -> float:
    """Return the relevance, which hits of several searches share, or the score where there is none."""
    return hit.score if math.isnan(hit.relevance) else hit.relevance


def _find_best_part(reader: QuestionReader, read: _ReadPassage) -> tuple[Part, float] | None:
    """Return the best part of the best hit, or of the messages nearest to it, and the log-odds of that part."""
    chunk = read.hit.chunk
    parts = list_parts(read.passage, (chunk.start, chunk.end)) or list_parts(read.passage)
    parts = sorted(parts, key=lambda part: _measure_distance(part, chunk))[:READ_PARTS]
    if not parts:
        return None
    odds = reader.read([part.text for part in parts])
    if parts[0].message < 0:
        topics = reader.read_topics([part.text for part in parts], odds)
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


def _measure_distance(part: Part, chunk: Chunk) -> int:
    """Return the distance of a part from a chunk in characters; 0 inside."""
    return max(chunk.start - part.end, part.start - chunk.end, 0)


def _estimate_confidence(reader: QuestionReader, read: _ReadPassage, part: float) -> float:
    """Estimate the chance that a passage answers, from its log-odds and the reader's on the marked part."""
    if reader.reader is None:
        odds = read.odds if math.isnan(read.hit.relevance) else read.odds / 2
    else:
        odds = OFFSET + HIT_WEIGHT * read.odds + PART_WEIGHT * part
    return 1 / (1 + math.exp(-odds))
