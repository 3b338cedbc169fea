"""Sentences of a model that claim nothing: those that decline to answer, and those that only introduce others."""

import re

from clew.query.answer.facts import find_facts

_DECORATION = re.compile(r"[*_`#>\s]+|[\[【(]\s*\d+\s*[\]】)]|[.!]+$")
_NOT_FOUND = re.compile(r"^not\s+found\b", re.IGNORECASE)
_SOURCES = (
    r"(?:passages?|documents?|sources?|texts?|context|excerpts?|collection|materials?|pages?|information|details?"
    r"|answer)"
)
_LACKS = re.compile(
    r"\b(?:i|we)\s+(?:could|can|was|am|were|did|do)(?:\s*n[o'’]t|not)?\b[^.]{0,40}?"
    rf"\b(?:find|found|see|locate|tell|determine|answer|unable|know)\b[^.]*\b{_SOURCES}\b"
    rf"|\b{_SOURCES}\b[^.]{{0,60}}?\b(?:do(?:es)?|did|is|are|was|were|can|could)?\s*(?:not|n[o'’]t|nothing|no)\b[^.]{{0,60}}?"
    r"\b(?:contain|mention|provide|include|specif\w+|state|say|answer|cover|give|found|available|address|about|on)\b"
    rf"|\b{_SOURCES}\b\s+(?:say|says|contain|contains|mention|mentions|provide|provides|give|gives)\s+(?:nothing|no)\b"
    rf"|\b(?:there\s+is|there['’]s|there\s+are)\s+(?:no|nothing)\b[^.]*\b{_SOURCES}\b"
    rf"|\b(?:no|not\s+enough|insufficient)\s+(?:\w+\s+)?{_SOURCES}\b",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:sure(?: thing)?|certainly|of course|okay|ok|absolutely|gladly|great question|good question"
    r"|(?:i )?hope (?:this|that) helps|let me know if .*|feel free to ask.*)$",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^(?:(?:sure|certainly|of course)\W+)?"
    r"(?:here(?:['’]s|\s+is|\s+are)|based\s+on|according\s+to|in\s+(?:short|summary))\b"
    r"|\b(?:says?|states?|reads?|found|know|shows?|tells?(?:\s+(?:us|you))?|following|follows)\s*:$",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:not|no|nothing|unable|insufficient|cannot)\b|n['’]t\b", re.IGNORECASE)


def declines_to_answer(sentence: str) -> bool:
    """Whether a sentence says that the passages hold no answer, in the words asked for or in the model's own."""
    bare = " ".join(_DECORATION.sub(" ", sentence).split())
    if _NOT_FOUND.match(bare):
        return True
    return bool(_NEGATED.search(bare)) and _LACKS.search(bare) is not None


def introduces(sentence: str) -> bool:
    """Whether a sentence claims nothing: it ends in a colon and states no fact, or is a phrase of courtesy."""
    bare = " ".join(_DECORATION.sub(" ", sentence).split())
    return (bare.endswith(":") and not find_facts(bare)) or _FILLER.match(bare) is not None


def split_lead_in(sentence: str) -> tuple[str, str]:
    """The words that only introduce a sentence, with their colon and their citation, and the sentence; or none."""
    found = re.match(r"[^:\n]{1,120}:(?:\s*[\[【][^\]】\n]{1,20}[\]】])*\s+(?=[^\s\[【])", sentence)
    if found is None:
        return "", sentence
    head = " ".join(_DECORATION.sub(" ", found[0]).split())
    is_lead_in = head.endswith(":") and _LEAD_IN.search(head) and not find_facts(head)
    return (found[0], sentence[found.end() :]) if is_lead_in else ("", sentence)
