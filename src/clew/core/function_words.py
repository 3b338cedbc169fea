"""The language of a text, guessed by its function words and by the letters of its words; see `clew.core.text`."""

from collections.abc import Sequence

from clew.core.languages import FUNCTION_WORDS, LETTER_PATTERNS
from clew.core.pattern import compile_pattern

_LATIN_LANGUAGES = tuple(LETTER_PATTERNS)
_LETTER_REGEXES = {code: compile_pattern(pattern) for code, pattern in LETTER_PATTERNS.items()}
_ALL_FUNCTION_WORDS = frozenset[str]().union(*FUNCTION_WORDS.values())
_LONG_TEXT = 12  # distinct pieces; so long a text without function words is code or a table: English is assumed


def is_function_word(piece: str) -> bool:
    """Whether a piece is a function word of any language."""
    return piece in _ALL_FUNCTION_WORDS


def guess_languages(pieces: Sequence[str]) -> tuple[str, ...]:
    """The candidate languages: one if the function words decide, else English and those that the letters look like."""
    common = _ALL_FUNCTION_WORDS.intersection(pieces)
    votes = {code: len(common & FUNCTION_WORDS[code]) for code in _LATIN_LANGUAGES}
    best = max(votes.values())
    top = tuple(code for code in _LATIN_LANGUAGES if votes[code] == best)
    if best and top == ("en",):
        return top
    # Two more than English, and a tenth of the text: variable names in code (a, e, i, no, de) do not make it Italian.
    if best >= votes["en"] + 2 and 10 * sum(map(FUNCTION_WORDS[top[0]].__contains__, pieces)) >= len(pieces):
        return top
    distinct = dict.fromkeys(pieces)  # in order: the letters of neighbours count
    if len(distinct) >= _LONG_TEXT:
        return ("en",)
    padded = f" {' '.join(distinct)} "
    looks = {code: 3 * votes[code] + len(_LETTER_REGEXES[code].findall(padded)) for code in _LATIN_LANGUAGES}
    strongest = max(looks[code] for code in _LATIN_LANGUAGES if code != "en")
    if 5 * looks["en"] >= 4 * strongest:
        return ("en",)
    return ("en", *(code for code in _LATIN_LANGUAGES if code != "en" and 5 * looks[code] >= 3 * strongest))
