"""Newer statements that replace older ones: the same subject, a later time, and another fact of the same kind."""

from collections.abc import Sequence
from datetime import UTC, datetime

from clew.core.text import extract_terms
from clew.core.time import assume_utc
from clew.query.answer.candidates import Candidate
from clew.query.answer.facts import Fact, find_facts

MIN_SHARED = 0.5  # share of the shorter statement's terms, without its facts, that the other must have
_CHANGING = frozenset({"number", "year", "date", "weekday", "code"})


def find_superseded(
    chosen: Sequence[Candidate], ranked: Sequence[Candidate], *, max_sentences: int
) -> list[tuple[Candidate, int | None]]:
    """The chosen candidates, each with the position of the one that replaces it; the newest of a subject first."""
    if not chosen:
        return []
    first, *rest = chosen
    rivals = [each for each in ranked if each is not first and states_another_fact(first, each)]
    newest = max([first, *rivals], key=lambda each: _get_time(each) or datetime.min.replace(tzinfo=UTC))
    if not rivals:
        return [(each, None) for each in chosen]
    others = [each for each in rest if each is not newest and each not in rivals]
    older = [each for each in (first, *rivals) if each is not newest][: max(1, max_sentences - 1)]
    found: list[tuple[Candidate, int | None]] = [(newest, None), *((each, 0) for each in older)]
    return [*found, *((each, None) for each in others)][: max(max_sentences, 2)]


def states_another_fact(one: Candidate, other: Candidate) -> bool:
    """Whether two statements of different times are on one subject and give it different facts."""
    if _get_time(one) is None or _get_time(other) is None or _get_time(one) == _get_time(other):
        return False
    mine, theirs = _find_changing_facts(one), _find_changing_facts(other)
    kinds = {each.kind for each in mine} & {each.kind for each in theirs}
    if not kinds or any(each.is_same_as(fact) for each in mine for fact in theirs if each.kind in kinds):
        return False
    left, right = _extract_subject(one, mine), _extract_subject(other, theirs)
    return bool(left and right) and len(left & right) >= MIN_SHARED * min(len(left), len(right))


def _find_changing_facts(candidate: Candidate) -> list[Fact]:
    return [fact for fact in find_facts(candidate.shown) if fact.kind in _CHANGING]


def _extract_subject(candidate: Candidate, facts: Sequence[Fact]) -> set[str]:
    own = extract_terms(candidate.shown).keys()
    return set(own - extract_terms(" ".join(fact.text for fact in facts)).keys()) if facts else set(own)


def _get_time(candidate: Candidate) -> datetime | None:
    at = candidate.hit.chunk.at
    return assume_utc(at) if at else None
