"""Questions: whether a text asks something, and which kind of fact an answer to it must hold."""

import re

from clew.query.answer.facts import find_facts, find_opening_name

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
_WHO = re.compile(r"\b(?:who|whom|whose|wer|wem|wen|qui|quién|quien|quem|chi)\b", re.IGNORECASE)
_AMOUNT = re.compile(
    r"\bhow\s+(?:much|many|long|often|far|old|big|large|high|tall|deep|loud|fast|heavy|soon|early|late|wide)\b"
    r"|\bwhat\s+(?:percentage|share|number|amount|price|size|age)\b"
    r"|\b(?:wie\s+(?:viele?|lange|oft|hoch|groß|weit|teuer)|combien|cu[aá]nt[oa]s?|quant[oai]s?)\b",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"\b(?:when|what\s+(?:time|day|date|hour|year|month)|(?:which|on\s+what|by\s+which)\s+(?:day|date|month|year)|wann|quand"
    r"|cu[aá]ndo|quando)\b",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:i|i['’](?:m|ll|ve|d)|me|mine|my|myself|ich|mir|mich|moi|je|yo|eu)\b", re.IGNORECASE)
_QUANTITY_WORDS = re.compile(
    r"\b(?:once|twice|daily|weekly|monthly|yearly|hourly|annually|quarterly|none|never|always|every|each|all|half|both|no"
    r"|unlimited|free)\b",
    re.IGNORECASE,
)
_TIMES = frozenset({"date", "weekday", "year"})
_TIME_WORDS = re.compile(
    r"\b(?:today|tomorrow|yesterday|tonight|now|noon|midnight|morning|evening|week|month|year|quarter|after|before|until"
    r"|since|spring|summer|autumn|winter|once|as soon)\b",
    re.IGNORECASE,
)


def is_statement(text: str) -> bool:
    """Whether a text states something: it ends with a full stop and asks for nothing."""
    return text.rstrip().endswith(".") and not is_question(text) and not _REQUEST.match(text)


def is_question(text: str) -> bool:
    """Whether a sentence asks something, with a question mark or, if it is short, by how it begins."""
    bare = text.strip()
    if _MARK.search(bare) is not None:
        return True
    return len(bare.split()) <= _MAX_UNMARKED_WORDS and bare[-1:] not in ".!:" and _OPENING.match(bare) is not None


def asks_who(question: str) -> bool:
    """Whether a question asks for a person."""
    return _WHO.search(question) is not None


def asks_for_amount(question: str) -> bool:
    """Whether a question asks how much, how many, how long or the like."""
    return _AMOUNT.search(question) is not None


def states_amount(text: str) -> bool:
    """Whether a text has a number, or a word that says how much or how often."""
    counts = any(each.kind in ("number", "year") for each in find_facts(text)) or any(map(str.isdigit, text))
    return counts or _QUANTITY_WORDS.search(text) is not None


def names_asked_kind(question: str, text: str, *, author: str = "") -> bool | None:
    """Whether a text holds the kind of fact that is asked for: a person, an amount, a time; None where none is.

    The author of a message is the person where it speaks of "me".
    """
    verdicts = []
    if asks_who(question):
        verdicts.append(
            bool(author and _SELF.search(text))
            or "@" in text
            or any(each.kind == "name" for each in find_facts(text))
            or find_opening_name(text) is not None
        )
    if asks_for_amount(question):
        verdicts.append(states_amount(text))
    if _WHEN.search(question):
        is_time = any(
            each.kind in _TIMES or (each.kind == "number" and each.unit) or each.unit == "clock"
            for each in find_facts(text)
        )
        verdicts.append(is_time or _TIME_WORDS.search(text) is not None)
    return all(verdicts) if verdicts else None
