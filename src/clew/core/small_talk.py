"""Recognises small talk: messages that greet, thank, react or tell of oneself, and ask for nothing.

What a message says of the day or of lunch may well match a page by its words; only that it asks for nothing tells that
the page is no answer.
"""

import re

from clew.core.languages import FUNCTION_WORDS
from clew.core.patterns import compile_pattern
from clew.core.text import tokenize_words
from clew.core.words import load_words

MAX_WORDS = 15  # a longer message says something
MIN_CONTENT_WORDS = 2  # of a message with content and no number: one alone is mostly a reaction, in whatever words

_FUNCTION_WORDS = frozenset[str]().union(*FUNCTION_WORDS.values())
_SOCIAL = load_words("social")
_SOCIAL_WORDS, _SOCIAL_PHRASES = _SOCIAL["words"], _SOCIAL["phrases"]
_WISHES = compile_pattern(  # of words that are a subject elsewhere: a day off, a job
    r"\b(?:good|nice|great|lovely|wonderful|happy|safe|merry|well|brilliant|excellent|what a)\s+"
    r"(?:day|week|weekend|night|one|job|work|luck|trip|flight|birthday|christmas|holidays?|time|question|point|idea)\b",
    re.IGNORECASE,
)
_COURTESIES = compile_pattern(
    r"\b(?:how (?:are|is|was|were) (?:you|things|it|everyone|everything|your)|how's (?:it|everything|life|your)|"
    r"what(?:'s| is|’s) (?:up|new)|are you (?:there|ok|okay|around)|how do you do|you (?:still )?there|"
    r"long time no see|no problem|"
    r"is this (?:thing )?on|wrong (?:window|chat|channel|person)|tell me a joke|plans for (?:the|your) weekend)\b",
    re.IGNORECASE,
)
_POSSIBLE_WORDS = (  # of small talk; a superset, for most messages have another word
    _FUNCTION_WORDS | _SOCIAL_WORDS | set(re.findall(r"[a-z]+", f"{_WISHES.pattern} {_COURTESIES.pattern}"))
)
_MARKS = " \n!！。．.~～,，、"  # around such a phrase
_QUESTION = compile_pattern(
    r"[?？؟]|^\W*(?:who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|should|would|will|may|has|have"
    r"(?! (?:a|an|fun|you)\b)|tell|show|explain|find|list|give|describe|help|need|want|looking)\b",
    re.IGNORECASE,
)
# What says nothing: +1, -1 and 1 as votes, emoji by name (:+1:, :skin-tone-2:), keycaps.
_VOTES = compile_pattern(r"(?<!\S)[+-]1(?=[^\w%°]*(?:\s|$))|^\s*1[\s!.]*$|(?<!\w):[+\w-]+:(?!\w)|\d\ufe0f?\u20e3")
_ONESELF = compile_pattern(r"\b(?:i|i'm|i’m|im|i'll|i’ll|i've|i’ve|me|my|mine|myself)\b", re.IGNORECASE)


def estimate_intent(text: str) -> float:
    """Estimate the chance that a text wants an answer from documents: 1 for anything but small talk and chatter.

    Of several messages, one to a paragraph, it is that of the one that most likely wants one.
    """
    return max(map(_estimate_intent, text.split("\n\n")))


def _estimate_intent(text: str) -> float:
    words = tokenize_words(text)
    if _is_small_talk(text, words):
        return 0.01
    return 0.35 if _is_chatter(text, words) else 1.0


def is_small_talk(text: str) -> bool:
    """Return whether a message has no words, or only greets, thanks or reacts; a question must be a courtesy."""
    return _is_small_talk(text, tokenize_words(text))


def has_content(text: str) -> bool:
    """Return whether a message says something of its own: "ok", "+1" and an emoji only refer to what they answer."""
    text = _VOTES.sub(" ", text)
    words = tokenize_words(text)
    has_words = sum(word not in _FUNCTION_WORDS for word in words) >= MIN_CONTENT_WORDS
    return (has_words or any(map(str.isdigit, text))) and not _is_small_talk(text, words)


def is_question(text: str) -> bool:
    """Return whether a message asks, by its mark or by its first word."""
    return bool(_QUESTION.search(text))


def _is_small_talk(text: str, words: list[str]) -> bool:
    if not any(map(str.isalpha, words)) and not any(map(str.isdigit, text)):
        return True
    if text.strip(_MARKS) in _SOCIAL_PHRASES:
        return True
    if text.isascii() and not _POSSIBLE_WORDS.issuperset(words):
        return False  # a word that is of a subject, and stays whatever is cut out
    rest = _COURTESIES.sub(" ", _WISHES.sub(" ", text))
    if rest != text:
        words = tokenize_words(rest)
    if len(words) > MAX_WORDS or (rest == text and is_question(text)):
        return False
    said = [word for word in words if word not in _FUNCTION_WORDS]
    is_social = any(word in _SOCIAL_WORDS for word in words) or rest != text  # "no" is a function word, too
    return is_social and all(word in _SOCIAL_WORDS for word in said)


def _is_chatter(text: str, words: list[str]) -> bool:
    """Return whether a short message asks nothing and tells of oneself, or is social: "sorry, my train is late"."""
    if len(words) > MAX_WORDS or is_question(text):
        return False
    said = [word for word in words if word not in _FUNCTION_WORDS]
    return bool(_ONESELF.search(text)) or 2 * sum(word in _SOCIAL_WORDS for word in said) >= max(1, len(said))
