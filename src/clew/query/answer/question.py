"""Questions: whether a text asks something, and what a question asks for that texts lack."""

import re
from collections.abc import Sequence
from itertools import chain, filterfalse

from clew.core.languages import is_function_word
from clew.core.text import extract_terms, tokenize_words
from clew.query.answer.facts import find_facts

_MARK = re.compile(r"[?？؟](?:[\s\"'”’»)\]*_`]|:\w+:|[^\w\s.!,;:])*$")
# Without a question mark, as in chats: an interrogative, or a verb before its subject.
_OPENING = re.compile(
    r"(?:(?:so|and|but|ok|okay|hey|hi|also|quick question)\b[\s,:-]*)*"
    r"(?:(?:who|what|when|where|why|how|which|whose)(?:['’]?s|['’]?re)?\s+(?:is|are|was|were|do|does|did|can|could|should|"
    r"would|will|has|have|much|many|long|often|far|\w+s?\s+(?:is|are|do|does|should|can))\b"
    r"|(?:which|what)\s+\w+\s+(?:i|we|you)\b|how\s+to\s+\w+"
    r"|(?:do|does|did|can|could|should|would|will|is|are|has|have)\s+(?:you|we|they|i|anyone|anybody|someone|somebody)\b"
    r"|(?:does\s+)?any(?:one|body)\s+(?:know|knows|have|has|seen|remember|else)\b)",
    re.IGNORECASE,
)
_MAX_UNMARKED_WORDS = 12  # a longer text that only begins like a question says something
_REQUEST = re.compile(
    r"\s*(?:please|kindly|tell|show|list|explain|describe|find|give|name|say|compare|summarise|summarize)\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"\bhow\s+(?:much|many|long|often|far|old|big|large|high|tall|deep|loud|fast|heavy|soon|early|late|wide)\b"
    r"|\bwhat\s+(?:percentage|share|number|amount|price|size|age)\b"
    r"|\b(?:wie\s+(?:viele?|lange|oft|hoch|groß|weit|teuer)|combien|cu[aá]nt[oa]s?|quant[oai]s?)\b",
    re.IGNORECASE,
)
_QUANTITY_WORDS = re.compile(
    r"\b(?:once|twice|daily|weekly|monthly|yearly|hourly|annually|quarterly|none|never|always|every|each|all|half|both|no"
    r"|unlimited|free)\b",
    re.IGNORECASE,
)
# A name with its distinguishing number: Aqua 7, Ring B, E-4417, E52, v2.13.
_NUMBERED = re.compile(r"\b(?P<name>[A-Z][^\W\d_]+(?:[ -][A-Z][^\W\d_]+)?)[ -](?P<number>\d+[A-Za-z]?|[A-Z])\b")
_CODE = re.compile(r"(?<!\w)(?P<name>[A-Z]{1,6})[-_]?(?P<number>\d[\w-]*)")
_VERSION = re.compile(r"(?<![\w.])v?\d+(?:\.\d+){2,}(?![\w.]*\d)")


def is_statement(text: str) -> bool:
    """Return whether a text states something: it ends with a full stop and asks for nothing."""
    return text.rstrip().endswith(".") and not is_question(text) and not _REQUEST.match(text)


def is_question(text: str) -> bool:
    """Return whether a sentence asks something, with a question mark or, if it is short, by how it begins."""
    bare = text.strip()
    if _MARK.search(bare) is not None:
        return True
    return len(bare.split()) <= _MAX_UNMARKED_WORDS and bare[-1:] not in ".!:" and _OPENING.match(bare) is not None


def explain_missing(question: str, texts: Sequence[str]) -> str:
    """Explain what a question asks for and no text has (a code like theirs, an amount); empty if nothing."""
    dates = [fact for fact in find_facts(question) if fact.kind in ("date", "year")]
    for pattern in (_CODE, _NUMBERED):
        for asked in pattern.finditer(question):
            if any(fact.start < asked.end() and asked.start() < fact.end for fact in dates):
                continue  # "January 2024" may be written as 2024-01
            alike = re.compile(rf"\b{re.escape(asked['name'])}[ _-]?(\d+[A-Za-z]?\b|[A-Z]\b|\d[\w-]*)")
            found = [match for text in texts for match in alike.finditer(text)]
            if found and asked["number"].casefold() not in {match[1].casefold() for match in found}:
                return f"{asked[0]} is not mentioned; {found[0][0]} is"
    for version in _VERSION.finditer(question):
        others = [match[0] for text in texts for match in _VERSION.finditer(text)]
        if others and version[0].lstrip("v") not in {each.lstrip("v") for each in others}:
            return f"{version[0]} is not mentioned; {others[0]} is"
    if _AMOUNT.search(question) and texts and not any(map(_states_amount, texts)):
        return "an amount is asked for, and the passages found state none"
    return ""


def explain_unnamed(question: str, texts: Sequence[str]) -> str:
    """Return the name in the question of which no text has a word, as a reason; empty if each is known.

    Abbreviations do not count: a text may spell them out. Names are compared unstemmed as well as stemmed, because a
    stem depends on the language: Paris becomes "pari" in English, but not in French.
    """
    names = [fact.text for fact in find_facts(question) if fact.kind == "name" and not fact.text.isupper()]
    known = set(chain.from_iterable(map(_list_name_words, texts))) if names else set[str]()
    unknown = (name for name in names if (words := _list_name_words(name)) and not words & known)
    return f"{first} is not mentioned" if (first := next(unknown, "")) else ""


def _states_amount(text: str) -> bool:
    """Return whether a text has a number, or a word that says how much or how often."""
    counts = any(map(str.isdigit, text)) or any(each.kind == "number" for each in find_facts(text))
    return counts or _QUANTITY_WORDS.search(text) is not None


def _list_name_words(text: str) -> set[str]:
    """Return the stems of a text, and its words without case and diacritics, function words left out."""
    return {*extract_terms(text), *filterfalse(is_function_word, tokenize_words(text))}
