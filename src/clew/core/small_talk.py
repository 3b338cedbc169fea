"""Small talk: messages that greet, thank, react or chat about oneself, and ask for nothing.

Chat about the day or lunch may share words with a page. Only the lack of a question shows that the page is no answer.
"""

import re

from clew.core.languages import FUNCTION_WORDS
from clew.core.patterns import compile_pattern
from clew.core.sentences import split_sentences
from clew.core.text import tokenize_words
from clew.core.words import load_words

MAX_WORDS = 15  # a longer message has content
MIN_CONTENT_WORDS = 2  # for a message without a number: a single word is mostly a reaction

_FUNCTION_WORDS = frozenset[str]().union(*FUNCTION_WORDS.values())
_SOCIAL = load_words("social")
_SOCIAL_WORDS, _SOCIAL_PHRASES = _SOCIAL["words"], _SOCIAL["phrases"]
_WISHES = compile_pattern(  # their nouns can be a subject elsewhere: a day off, a job
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
_POSSIBLE_WORDS = (  # a superset of the words of small talk: a quick test, since most messages have another word
    _FUNCTION_WORDS | _SOCIAL_WORDS | set(re.findall(r"[a-z]+", f"{_WISHES.pattern} {_COURTESIES.pattern}"))
)
_MARKS = " \n!！。．.~～,，、"  # around a social phrase
_QUESTION = compile_pattern(
    r"[?？؟]|^\W*(?:who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|should|would|will|may|has|have"
    r"(?! (?:a|an|fun|you)\b)|tell|show|explain|find|list|give|describe|help|need|want|looking)\b",
    re.IGNORECASE,
)
# No content: +1, -1 and 1 as votes, emoji by name (:+1:, :skin-tone-2:), keycaps.
_VOTES = compile_pattern(r"(?<!\S)[+-]1(?=[^\w%°]*(?:\s|$))|^\s*1[\s!.]*$|(?<!\w):[+\w-]+:(?!\w)|\d\ufe0f?\u20e3")
_ONESELF = compile_pattern(r"\b(?:i|i'm|i’m|im|i'll|i’ll|i've|i’ve|me|my|mine|myself)\b", re.IGNORECASE)
_PERSONAL = compile_pattern(r"\b(?:you|your|yours)\b", re.IGNORECASE)
_POLITE = compile_pattern(r"\byou (?:please |perhaps )?(?:tell|show|explain|help|know|give|find|list)\b", re.IGNORECASE)


def estimate_intent(text: str) -> float:
    """Estimate the probability that a text asks for an answer from documents: 1 except for small talk and chatter.

    For several messages, one per paragraph, return the maximum.
    """
    return max(map(_estimate_intent, text.split("\n\n")))


def _estimate_intent(text: str) -> float:
    words = tokenize_words(text)
    if _is_small_talk(text, words):
        return 0.01
    return 0.35 if _is_chatter(text, words) else 1.0


def is_small_talk(text: str) -> bool:
    """Return whether a message has no words, or only greets, thanks or reacts ("how are you?" included)."""
    return _is_small_talk(text, tokenize_words(text))


def has_content(text: str) -> bool:
    """Return whether a message means something by itself, unlike "ok", "+1" or an emoji."""
    text = _VOTES.sub(" ", text)
    words = tokenize_words(text)
    has_words = sum(word not in _FUNCTION_WORDS for word in words) >= MIN_CONTENT_WORDS
    return (has_words or any(map(str.isdigit, text))) and not _is_small_talk(text, words)


def is_question(text: str) -> bool:
    """Return whether a message is a question, by its question mark or first word."""
    return bool(_QUESTION.search(text))


def asks_for_answer(text: str) -> bool:
    """Return whether a part of a conversation asks what texts may answer: not what the other does or likes."""
    said = [paragraph[start:end] for paragraph in text.split("\n\n") for start, end in split_sentences(paragraph)]
    return any(is_question(each) and not _PERSONAL.search(_POLITE.sub("", each)) for each in said)


def _is_small_talk(text: str, words: list[str]) -> bool:
    if not any(map(str.isalpha, words)) and not any(map(str.isdigit, text)):
        return True
    if text.strip(_MARKS) in _SOCIAL_PHRASES:
        return True
    if text.isascii() and not _POSSIBLE_WORDS.issuperset(words):
        return False  # some word has content, and no pattern below removes it
    rest = _COURTESIES.sub(" ", _WISHES.sub(" ", text))
    if rest != text:
        words = tokenize_words(rest)
    if len(words) > MAX_WORDS or (rest == text and is_question(text)):
        return False
    said = [word for word in words if word not in _FUNCTION_WORDS]
    is_social = any(word in _SOCIAL_WORDS for word in words) or rest != text  # "no" is a function word, too
    return is_social and all(word in _SOCIAL_WORDS for word in said)


def _is_chatter(text: str, words: list[str]) -> bool:
    """Return whether a short message asks nothing and is personal or social: "sorry, my train is late"."""
    if len(words) > MAX_WORDS or is_question(text):
        return False
    said = [word for word in words if word not in _FUNCTION_WORDS]
    return bool(_ONESELF.search(text)) or 2 * sum(word in _SOCIAL_WORDS for word in said) >= max(1, len(said))
