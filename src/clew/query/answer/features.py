"""Which part of the hits is shown first: what a candidate is scored by, and the weights of that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clew.core.protocols import Reranker
from clew.core.types import Hit
from clew.query.answer.candidates import Candidate
from clew.query.answer.facts import find_facts
from clew.query.answer.question import names_asked_kind
from clew.query.search.rerank import score_texts

MIN_PROBABILITY = 0.001  # probabilities are clipped to this distance from 0 and 1
TOPIC_PARTS = 8  # parts that the reranker reads beside a reader
EXACT = frozenset({"date", "code"})  # facts that a part must state as the question does


@dataclass(frozen=True, slots=True)
class SelectionWeights:
    """The weights of the features of a candidate, against 1 for the log-odds of the part itself.

    `python -m studies.selection` fits and tests them on public sets: those fitted on the other sets are no better on a
    set than these. The relevance of the hit, the cosine of the part, its length, the messages before it and a second
    model (late interaction) add nothing to them. `topic` was chosen on written contexts and the sample.
    """

    chunk: float = 1.2
    kind: float = 0.5
    facts: float = 1.0
    distance: float = 0.3
    topic: float = 0.84


@dataclass(frozen=True, slots=True)
class CandidateFeatures:
    """What a candidate is scored by.

    `part` and `chunk` are the reader's log-odds of the candidate and of its chunk (the reranker's, where that reads);
    `kind` is 1 where it has the kind of fact that is asked for, -1 where it lacks it; `facts` is 1 where it states the
    dates and codes of the question that any candidate states; `distance` is the number of messages between a question
    and it; `topic` the reranker's log-odds of it and of its chunk, beside a reader, which looks less at what a text is
    about.
    """

    part: float
    chunk: float
    kind: int
    facts: int
    distance: int
    topic: float = 0.0


WEIGHTS = SelectionWeights()


def score_candidates(rows: Sequence[CandidateFeatures], weights: SelectionWeights = WEIGHTS) -> list[float]:
    """The log-odds of each candidate."""
    return [
        each.part
        + weights.chunk * each.chunk
        + weights.kind * each.kind
        + weights.facts * each.facts
        - weights.distance * each.distance
        + weights.topic * each.topic
        for each in rows
    ]


def compute_features(
    question: str,
    candidates: Sequence[Candidate],
    hits: Sequence[Hit],
    reranker: Reranker,
    probabilities: Sequence[float] | None = None,
    *,
    topics: Reranker | None = None,
) -> list[CandidateFeatures]:
    """The features of each candidate; `probabilities` are the reranker's of the hits, where they are known.

    A reply that was not found is read as a chunk of its own. `topics`: the reranker that is asked for the topic beside
    a reader.
    """
    if probabilities is None:
        probabilities = score_chunks(question, hits, reranker)
    found_ids = {hit.chunk.id for hit in hits}
    others = list({each.hit.chunk.id: each.hit for each in candidates if each.hit.chunk.id not in found_ids}.values())
    ids = [hit.chunk.id for hit in (*hits, *others)]
    chances = dict(zip(ids, (*probabilities, *score_chunks(question, others, reranker)), strict=True))
    on_topic = dict(zip(ids, score_chunks(question, (*hits, *others), topics), strict=True)) if topics else {}
    stated = list_stated_facts(question, candidates)
    known = set[int]().union(*stated)
    scores = score_texts(reranker, question, [each.text for each in candidates])
    found = []
    for each, facts, score in zip(candidates, stated, scores, strict=True):
        chunk = each.hit.chunk
        kind = names_asked_kind(question, each.shown, author=str(chunk.meta.get("author") or ""))
        found.append(
            CandidateFeatures(
                to_log_odds(reranker.calibrate(score)),
                to_log_odds(chances[chunk.id]),
                0 if kind is None else 1 if kind else -1,
                int(bool(known) and facts == known),
                max(0, each.distance - 1),
                to_log_odds(on_topic[chunk.id]) if on_topic else 0.0,
            )
        )
    return found if topics is None else _read_topics(question, candidates, found, topics)


def _read_topics(
    question: str, candidates: Sequence[Candidate], rows: Sequence[CandidateFeatures], topics: Reranker
) -> list[CandidateFeatures]:
    """The features with the reranker's log-odds of the likeliest parts in their topic; the others get the least."""
    odds = score_candidates(rows)
    order = sorted(range(len(rows)), key=lambda place: -odds[place])[:TOPIC_PARTS]
    scores = score_texts(topics, question, [candidates[place].text for place in order])
    read = {place: to_log_odds(topics.calibrate(score)) for place, score in zip(order, scores, strict=True)}
    least = min(read.values(), default=0.0)
    return [replace(row, topic=row.topic + read.get(place, least)) for place, row in enumerate(rows)]


def score_chunks(question: str, hits: Sequence[Hit], reranker: Reranker) -> list[float]:
    """The reranker's probability that each hit answers."""
    scores = score_texts(reranker, question, [hit.chunk.index_text for hit in hits]) if hits else []
    return [reranker.calibrate(score) for score in scores]


def to_log_odds(probability: float) -> float:
    """The log-odds of a probability, clipped so that they are finite."""
    clipped = min(max(probability, MIN_PROBABILITY), 1 - MIN_PROBABILITY)
    return math.log(clipped / (1 - clipped))


def list_stated_facts(question: str, candidates: Sequence[Candidate]) -> list[set[int]]:
    """For each candidate, which of the dates and codes of the question it states."""
    exact = [fact for fact in find_facts(question) if fact.kind in EXACT]
    return [
        {place for place, fact in enumerate(exact) if any(fact.is_same_as(other) for other in find_facts(each.text))}
        for each in candidates
    ]
