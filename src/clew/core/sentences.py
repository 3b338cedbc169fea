"""Sentences: where one ends and the next begins, in prose, lists and chats."""

import re

from clew.core.languages import (
    FUNCTION_WORDS,
    MONTHS,
    NAME_PARTICLES,
    NUMBER_ABBREVIATIONS,
    TITLE_ABBREVIATIONS,
    TRAILING_ABBREVIATIONS,
)
from clew.core.patterns import compile_pattern

_ALL_FUNCTION_WORDS = frozenset[str]().union(*FUNCTION_WORDS.values())
_CLOSERS = r"(?:[\"'”’»›)\]}*_`」』】）]|\[\d+\])*+"
_BOUNDARY = compile_pattern(
    rf"(?P<full>[。！？｡।॥؟۔]+{_CLOSERS})|(?<![.!?…])(?P<stop>[.!?…]++){_CLOSERS}(?=\s|\Z)"
    r"|^\#{1,6}\s[^\n]*|\n(?=[^\S\n]*(?:\n|(?:[-*+•‣▪–]|\d{1,3}[.)]|\#{1,6}|>)\s|\|))",  # heading, blank line, item
    re.MULTILINE,
)
_MAY_BE_BOUNDARY = compile_pattern(r"[.!?…\n#。！？｡।॥؟۔]")  # the first character of a boundary: a fast first test
# The usual end of a sentence: a word, a full stop, a capital. Decisive unless the word is an abbreviation.
_LETTERS = 5
_PLAIN_END = compile_pattern(rf"(?<=[a-z]{{{_LETTERS}}})\.(?=\s+[A-Z])")
_ABBREVIATION_ENDS = {word[-_LETTERS:] for word in (*TITLE_ABBREVIATIONS, *TRAILING_ABBREVIATIONS)}
_NEXT_WORD = compile_pattern(r"[\s\"'“‘„«‹»(\[{¿¡*_`]*(\w+)")
_LAST_WORD = compile_pattern(r"[^\s\"'“‘„«‹(\[{]*$")
_NAME_BEFORE_INITIAL = compile_pattern(r"\b[^\W\d_a-z]\w+\s+[^\W\d_a-z]$")  # Ursula K
_MAX_NAME_CHARS = 64  # examined around a full stop: a bound keeps the time linear in the text
_INITIALS = compile_pattern(r"[^\W\d_](?:\.[^\W\d_])*")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans (start, end) of the sentences in order; they cover every non-space character once."""
    cuts = [0]
    passed = 0
    for candidate in _MAY_BE_BOUNDARY.finditer(text):
        at = candidate.start()
        if at < passed:
            continue
        if _PLAIN_END.match(text, at) and text[at - _LETTERS : at].casefold() not in _ABBREVIATION_ENDS:
            passed = at + 1
            cuts.append(passed)
            continue
        mark = _BOUNDARY.match(text, at)
        if mark is None:
            continue
        passed = mark.end()
        if not mark["stop"] or _ends_sentence(text, cuts[-1], mark):
            cuts.append(passed)
    spans: list[tuple[int, int]] = []
    for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        inside = text[start:end].strip()
        if inside:
            start += text[start:end].index(inside)
            spans.append((start, start + len(inside)))
    return spans


def _ends_sentence(text: str, start: int, mark: re.Match[str]) -> bool:
    """Return whether a full stop (or ! ? …) ends the sentence that begins at `start`."""
    following = _NEXT_WORD.match(text, mark.end())
    if not following:
        return True
    word = _LAST_WORD.search(text, max(start, mark.start() - 32), mark.start())
    last = word.group() if word else ""
    name, after = last.casefold(), following[1]
    full = mark["stop"] == "."
    if full and (
        name in TITLE_ABBREVIATIONS or (mark.start() - start < 9 and text[start : mark.start()].strip().isdecimal())
    ):
        return False  # "Dr. No", "1. Install"
    if after[0].islower():
        # In a chat, if one sentence begins in lower case, the next one may, too.
        first = _NEXT_WORD.match(text, start, start + _MAX_NAME_CHARS)
        chat = first is not None and first[1][0].islower()
        return chat and mark["stop"] in (".", "!", "?") and not _is_abbreviation(last)
    if not full:
        return True
    if after[0].isdecimal() and name in NUMBER_ABBREVIATIONS:
        return False
    if after.casefold() in MONTHS and last.isdecimal() and len(last) < 3:
        return False
    if after.casefold() in NAME_PARTICLES and _NAME_BEFORE_INITIAL.search(
        text[max(start, mark.start() - _MAX_NAME_CHARS) : mark.start()]
    ):
        return False  # "Ursula K. Le Guin"
    return not _is_abbreviation(last) or after.casefold() in _ALL_FUNCTION_WORDS


def _is_abbreviation(last: str) -> bool:
    """Return whether the word before a full stop is an initial or abbreviation, so that the sentence may continue."""
    if len(last) == 1:
        return last.isupper()
    return last.casefold() in TRAILING_ABBREVIATIONS or ("." in last and _INITIALS.fullmatch(last) is not None)
