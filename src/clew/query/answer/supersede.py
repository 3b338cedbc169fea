"""Newer statements that replace older ones: the same subject, a later time, and another fact of the same kind.

A page without a stated date is taken to be older than a message that announces a change of what it says: its file's
time says when it was copied, not when it was written.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from clew.core.text import extract_terms
from clew.core.time import assume_utc
from clew.query.answer.candidates import Candidate
from clew.query.answer.facts import Fact, find_facts

MIN_SHARED = 0.5  # share of the shorter statement's terms, without its facts, that the other must have
MIN_TERMS = 2  # that a message which announces a change shares with the page
MAX_RIVALS = 5  # candidates after the first among which a message may announce a change of it
_CHANGING = frozenset({"number", "year", "date", "weekday", "code"})
_STATED_DATES = ("updated", "date")  # of a page's metadata
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
CHANGE = re.compile(
    r"\b(?:from (?:now on|today|tomorrow|next|this|(?:mon|tues|wednes|thurs|fri)day|\d{1,2}\b|(?:the )?"
    rf"(?:{_MONTH}))|starting|as of|no longer|not any ?more|instead\b|rather than|used to be|until further notice"
    r"|(?:it|that|last|which) was|was \d|now\b|goes (?:up|down)|new (?:rule|date|time|place|price|limit)|back to"
    r"|tak(?:e|es|ing) over|took over|more expensive|cheaper"
    r"|small change|correction|update:"
    r"|lower(?:s|ed|ing)\b|(?:mov|chang|rais|shift|increas|decreas|extend|postpon)(?:e|es|ed|ing)?\b"
    r"|ab (?:sofort|heute|morgen|jetzt)|nicht mehr|statt|künftig|désormais|à partir|au lieu|ya no|a partir|en vez|agora"
    r"|vanaf)",
    re.IGNORECASE,
)


def find_superseded(
    question: str,
    chosen: Sequence[Candidate],
    likely: Sequence[Candidate],
    ranked: Sequence[Candidate],
    *,
    max_sentences: int,
) -> list[tuple[Candidate, int | None]]:
    """The chosen candidates, each with the position of the one that replaces it; the newest of a subject first.

    Statements that replace the first are looked for among the `likely` candidates, announcements among the first
    `ranked` ones.
    """
    if not chosen:
        return []
    first, *rest = chosen
    rivals = [each for each in likely if each is not first and states_another_fact(first, each)]
    if not rivals:
        rivals = [each for each in ranked[: MAX_RIVALS + 1] if announces_change(each, first, question)][:1]
    newest = max([first, *rivals], key=lambda each: get_time(each) or datetime.min.replace(tzinfo=UTC))
    if not rivals:
        return [(each, None) for each in chosen]
    others = [each for each in rest if each is not newest and each not in rivals]
    older = [each for each in (first, *rivals) if each is not newest][: max(1, max_sentences - 1)]
    found: list[tuple[Candidate, int | None]] = [(newest, None), *((each, 0) for each in older)]
    return [*found, *((each, None) for each in others)][: max(max_sentences, 2)]


def states_another_fact(one: Candidate, other: Candidate) -> bool:
    """Whether two statements of different times are on one subject and give it different facts."""
    if get_time(one) is None or get_time(other) is None or get_time(one) == get_time(other):
        return False
    mine, theirs = find_changing_facts(one), find_changing_facts(other)
    kinds = {each.kind for each in mine} & {each.kind for each in theirs}
    if not kinds or any(each.is_same_as(fact) for each in mine for fact in theirs if each.kind in kinds):
        return False
    left, right = extract_subject(one, mine), extract_subject(other, theirs)
    return bool(left and right) and len(left & right) >= MIN_SHARED * min(len(left), len(right))


def announces_change(message: Candidate, page: Candidate, question: str) -> bool:
    """Whether a message says that a fact of a page, which is not dated later, is now another of the same kind.

    It states the old fact too, or has a word of change and two terms of the page; and it names what the question names
    of the page.
    """
    told, stated = get_time(message), get_time(page)
    if not is_message(message) or is_message(page) or told is None or (stated is not None and stated >= told):
        return False
    old, new = find_changing_facts(page), find_changing_facts(message)
    pairs = [(before, after) for before in old for after in new if are_alike(before, page, after, message)]
    if not any(not before.is_same_as(after) for before, after in pairs):
        return False
    around = message.hit.chunk.index_text.casefold()
    named = [fact.text for fact in find_facts(question) if fact.kind in ("name", "code") and fact.text in page.text]
    if any(name.casefold() not in around for name in named):
        return False
    if any(before.key == after.key for before in old for after in new if before.kind == after.kind == "number"):
        return True
    shared = extract_subject(message, new) & (extract_terms(page.text).keys() - _extract_fact_terms(old))
    return CHANGE.search(message.shown) is not None and len(shared) >= MIN_TERMS


def are_alike(one: Fact, here: Candidate, other: Fact, there: Candidate) -> bool:
    """Whether two facts measure the same: dates, days, or numbers with one unit, counted noun or word before them."""
    if one.kind != other.kind or one.kind == "code":
        return False
    if one.kind != "number":
        return True
    if one.unit or other.unit:
        return one.unit == other.unit
    before, after = _get_word_before(one, here), _get_word_before(other, there)
    return bool(one.counted and one.counted == other.counted) or bool(before and before == after)


def _get_word_before(fact: Fact, candidate: Candidate) -> str:
    words = candidate.shown[: fact.start].split()
    return words[-1].casefold().strip("(,:") if words else ""


def is_message(candidate: Candidate) -> bool:
    """Whether a candidate is said in a conversation."""
    return bool(candidate.hit.chunk.meta.get("message"))


def find_changing_facts(candidate: Candidate) -> list[Fact]:
    """The facts of a candidate that may be other ones later."""
    return [fact for fact in find_facts(candidate.shown) if fact.kind in _CHANGING]


def extract_subject(candidate: Candidate, facts: Sequence[Fact]) -> set[str]:
    """The terms of a candidate without those of its facts."""
    return set(extract_terms(candidate.shown).keys() - _extract_fact_terms(facts))


def _extract_fact_terms(facts: Sequence[Fact]) -> set[str]:
    return set(extract_terms(" ".join(fact.text for fact in facts))) if facts else set()


def get_time(candidate: Candidate) -> datetime | None:
    """When a message was sent; of a page, only a date that it states."""
    at, meta = candidate.hit.chunk.at, candidate.hit.document.meta
    is_stated = is_message(candidate) or any(meta.get(key) for key in _STATED_DATES)
    return assume_utc(at) if at and is_stated else None
