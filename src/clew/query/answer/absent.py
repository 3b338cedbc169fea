"""What a question asks for and the passages found do not have: a name with a number, a code, an amount."""

import re
from collections.abc import Sequence
from itertools import chain, filterfalse

from clew.core.function_words import is_function_word
from clew.core.text import extract_terms, tokenize_words
from clew.query.answer.facts import find_facts
from clew.query.answer.question import asks_for_amount, states_amount

# A name and what tells it from its like: Aqua 7, Ring B, E-4417, E52, v2.13.
_NUMBERED = re.compile(r"\b(?P<name>[A-Z][^\W\d_]+(?:[ -][A-Z][^\W\d_]+)?)[ -](?P<number>\d+[A-Za-z]?|[A-Z])\b")
_CODE = re.compile(r"(?<!\w)(?P<name>[A-Z]{1,6})[-_]?(?P<number>\d[\w-]*)")
_VERSION = re.compile(r"(?<![\w.])v?\d+(?:\.\d+){2,}(?![\w.]*\d)")
_ASKS_PRICE = re.compile(
    r"\b(?:how\s+much|what)\b[^?]*\b(?:cost|costs|charged?|pays?|paid|earns?|money|cash|fees?|price)\b"
    r"|\bat\s+what\s+price\b",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"[$€£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY|euros?|dollars?|pounds?|cents?|pence|yen|francs?|free|nothing|unpaid|gratis)\b",
    re.IGNORECASE,
)
_ASKS_NUMBER = re.compile(
    r"\bwhat(?:['’]s|\s+is|\s+was)\s+(?!(?:the\s+)?number\s+of)(?:the\s+)?(?:[\w'’-]+\s+){0,3}number\b", re.IGNORECASE
)
_LIST_NUMBER = re.compile(r"(?m)^\s*\d{1,3}[.)]\s")


def explain_absent(question: str, texts: Sequence[str]) -> str:
    """Why the texts cannot hold the answer: what is asked about is not in them, but its like is; empty otherwise."""
    dates = [fact for fact in find_facts(question) if fact.kind in ("date", "year")]
    for pattern in (_CODE, _NUMBERED):
        for asked in pattern.finditer(question):
            if any(fact.start < asked.end() and asked.start() < fact.end for fact in dates):
                continue  # "January 2024" may be written as 2024-01
            alike = re.compile(rf"\b{re.escape(asked['name'])}[ _-]?(\d+[A-Za-z]?\b|[A-Z]\b|\d[\w-]*)")
            found = [match for text in texts for match in alike.finditer(text)]
            numbers = {match[1].casefold() for match in found}
            if found and asked["number"].casefold() not in numbers:
                return f"{asked[0]} is not mentioned; {found[0][0]} is"
    for version in _VERSION.finditer(question):
        others = [match[0] for text in texts for match in _VERSION.finditer(text)]
        if others and version[0].lstrip("v") not in {each.lstrip("v") for each in others}:
            return f"{version[0]} is not mentioned; {others[0]} is"
    if asks_for_amount(question) and texts and not any(map(states_amount, texts)):
        return "an amount is asked for, and the passages found state none"
    return ""


def explain_lacking(question: str, passage: str, part: str) -> str:
    """Which kind of value is asked for that a passage, or the part of it that is shown, does not have; or empty."""
    if _ASKS_PRICE.search(question) and not _MONEY.search(passage):
        return "an amount of money is asked for, and the nearest passage states none"
    if _ASKS_NUMBER.search(question) and not any(map(str.isdigit, _LIST_NUMBER.sub("", part))):
        return "a number is asked for, and the nearest passage states none"
    return ""


def explain_unnamed(question: str, texts: Sequence[str]) -> str:
    """Which name of the question no text has a word of; empty where each is known.

    Abbreviations do not count: a text may spell them out.
    """
    unnamed = (name for name in list_missing_names(question, texts) if not name.isupper())
    return next((f"{name} is not mentioned" for name in unnamed), "")


def list_missing_names(question: str, texts: Sequence[str]) -> list[str]:
    """The names of the question of which no text has a word, be it by its stem or as it is written.

    A name has no language of its own: English makes "pari" of Paris, and French leaves it.
    """
    names = [fact.text for fact in find_facts(question) if fact.kind == "name"]
    known = set(chain.from_iterable(map(_list_name_words, texts))) if names else set[str]()
    return [name for name in names if (words := _list_name_words(name)) and not words & known]


def _list_name_words(text: str) -> set[str]:
    """The stems of a text, and its words as they are written but for case and diacritics, without function words."""
    return {*extract_terms(text), *filterfalse(is_function_word, tokenize_words(text))}
