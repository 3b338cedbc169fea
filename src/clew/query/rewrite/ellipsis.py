"""Does a question need the conversation before it? Decided by the question alone: by what it leaves out or points to.

A pronoun is no reason where the question itself says what it stands for ("Is herpes lethal, and how is it
transmitted?"), nor where it stands for nothing ("Is it possible to …").
"""

import re

from clew.core.text import tokenize_words
from clew.query.rewrite.keywords import extract_content_words

_FOLLOW_UP_OPENING = re.compile(r"\W*(?:(?:what|how) about|and|or|but|why not)\b", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:it|they|them|he|him|she)\b", re.IGNORECASE)
_POSSESSIVE = re.compile(r"\b(?:its|their|theirs|his|her|hers)\b", re.IGNORECASE)
# Where "that" begins neither a relative clause nor one with a subject of its own.
_THAT = re.compile(
    r"(?:^|\b(?:is|was|does|did|do|about|of|with|for|like|explain|show|why|how|by|to|and)\s)\W*that\b", re.IGNORECASE
)
# Before a pronoun, the beginning of another clause than that of what it stands for.
_CLAUSE = re.compile(
    r"[,;:.?!]|\b(?:and|or|but|if|when|where|while|because|since|so|that|which|who|after|before|once|then|than|as)\b",
    re.IGNORECASE,
)
# "Is it possible to …", "How long does it take to …", "it is true that …": it stands for what follows.
_EXPLETIVE = re.compile(r"\bit(?:'s|’s)?\s+(?:[\w'’]+\s+){1,3}(?:to|that|for|when|if)\b", re.IGNORECASE)
# After an article or a possessive, "it" is a name, not a pronoun: the IT department.
_IT_AS_NAME = re.compile(r"\b(?:the|an|our|your|my|their|his|her|whose)\s+it\b", re.IGNORECASE)
_DEMONSTRATIVE = re.compile(
    r"\b(?:this|these|those)\b(?!\s+(?:who|which|that|season|year|week|month|day|days|century|decade|time|morning|"
    r"afternoon|evening|summer|winter|spring|autumn|fall)\b)",
    re.IGNORECASE,
)
_COMPARING = re.compile(r"\b(?:more|another|same|similar|other|others|else|examples?)\b", re.IGNORECASE)
_ASKS_WHAT_IT_IS = re.compile(r"\W*(?:what|who)\s*(?:is|are|was|were|'s|’s)\s+(?!the\b)", re.IGNORECASE)
_QUESTION_WORD = re.compile(r"\W*(?:who|what|when|where|why|which|whose|how)\b", re.IGNORECASE)
_NAME = re.compile(r"\S\s+[A-Z]\w")  # a capital that does not begin the text
_MIN_WORDS = 4  # below which a question that is no sentence is one of a conversation
_MIN_CONTENT_WORDS = 2


def is_elliptic(question: str) -> bool:
    """Whether the question cannot be understood without what was said before it.

    It is short and no whole question, has hardly any content word, opens as a follow-up ("what about …", "and …"), or
    has a pronoun or demonstrative for something that it does not name. These words are English; the counts hold for
    every language.
    """
    if _FOLLOW_UP_OPENING.match(question):
        return True
    if len(question.split()) == 1:  # one word, or a script without spaces
        return len(tokenize_words(question)) < _MIN_WORDS
    content = extract_content_words(question)
    asks_what_it_is = bool(content) and _ASKS_WHAT_IT_IS.match(question) is not None
    if len(content) < _MIN_CONTENT_WORDS and not asks_what_it_is:
        return True
    is_whole = asks_what_it_is or _QUESTION_WORD.match(question) is not None
    if len(question.split()) < _MIN_WORDS and not is_whole:
        return True
    return _points_outside(question) or (len(content) <= _MIN_CONTENT_WORDS and bool(_COMPARING.search(question)))


def _points_outside(question: str) -> bool:
    """Whether a pronoun or demonstrative stands for something that the question does not name before it."""
    plain = _EXPLETIVE.sub(" ", _IT_AS_NAME.sub(" ", question))
    if _DEMONSTRATIVE.search(plain):
        return True
    if (possessive := _POSSESSIVE.search(plain)) and not extract_content_words(plain[: possessive.start()]):
        return True
    pronoun = _PRONOUN.search(plain) or _THAT.search(plain)
    return pronoun is not None and not _has_antecedent(plain[: pronoun.start()])


def _has_antecedent(before: str) -> bool:
    """Whether what stands before a pronoun names something, in another clause than the pronoun's."""
    ends = [found.start() for found in _CLAUSE.finditer(before)]
    if not ends:
        return False
    clause = before[: ends[-1]]
    return len(extract_content_words(clause)) >= _MIN_CONTENT_WORDS or _NAME.search(clause) is not None
