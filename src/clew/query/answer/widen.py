"""A part of an answer with the sentences beside it, where it is not clear which of them answers."""

import math
from collections.abc import Sequence
from dataclasses import replace

from clew.query.answer.candidates import Candidate, make_candidate
from clew.query.answer.facts import Fact, find_facts

MAX_CHARS = 400  # of a widened part
SHARE = 0.95  # of the weight of the chunk's candidates at which a part is clear enough
SHARPNESS = 2.0  # of the log-odds in the weights


def widen_part(
    question: str, part: Candidate, candidates: Sequence[Candidate], odds: Sequence[float], *, max_sentences: int
) -> Candidate:
    """The part, with the likelier of its neighbours in the chunk added until they hold most of the weight.

    It has `max_sentences` at most. `odds` are the log-odds of the candidates by themselves. Rows of a table stay alone:
    their neighbours are about something else, as is what has another number or name than the question and the part.
    """
    asked = find_facts(question)
    rows = [
        (each, value)
        for each, value in zip(candidates, odds, strict=True)
        if each is part or (_can_join(each, part) and not _is_about_another(each, part, asked))
    ]
    if part.is_row or len(rows) < 2:
        return part
    best = max(value for _, value in rows)
    weights = [(each, math.exp(SHARPNESS * (value - best))) for each, value in rows]
    total = sum(weight for _, weight in weights)
    low, high = part.start, part.end
    for _ in range(max_sentences - 1):
        inside = sum(weight for each, weight in weights if low <= each.start and each.end <= high)
        beside = [
            pair
            for pair in weights
            if _is_beside(pair[0], low, high) and max(high, pair[0].end) - min(low, pair[0].start) <= MAX_CHARS
        ]
        if not beside or inside >= SHARE * total:
            break
        added = max(beside, key=lambda pair: pair[1])[0]
        low, high = min(low, added.start), max(high, added.end)
    if (low, high) == (part.start, part.end):
        return part
    offset = part.hit.chunk.start
    wider = make_candidate(part.hit, low - offset, high - offset)
    return replace(wider, replies_to=part.replies_to, distance=part.distance)


def _can_join(one: Candidate, part: Candidate) -> bool:
    return one.hit.chunk.id == part.hit.chunk.id and not one.is_row


def _is_about_another(one: Candidate, part: Candidate, asked: Sequence[Fact]) -> bool:
    """Whether a candidate has another number, code or name where the part has the one that is asked about."""
    mine, theirs = find_facts(part.shown), find_facts(one.shown)
    for fact in asked:
        alike = [each for each in theirs if each.kind == fact.kind]
        if any(map(fact.is_same_as, mine)) and alike and not any(map(fact.is_same_as, alike)):
            return True
    return False


def _is_beside(one: Candidate, low: int, high: int) -> bool:
    """Whether nothing but white space lies between a candidate and a span of its document."""
    chunk = one.hit.chunk
    start, end = (one.end, low) if one.end <= low else (high, one.start)
    return start <= end and not chunk.text[start - chunk.start : end - chunk.start].strip()
