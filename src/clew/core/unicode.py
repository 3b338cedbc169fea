"""Unicode: composition in linear time, text folded to its visual form, and combining marks."""

import re
import unicodedata

from clew.core.patterns import compile_pattern

MAX_MARKS = 30  # combining marks in a row, as in the Stream-Safe Text Format (UAX 15): no script needs more
# Combining marks that `\w` does not match: accents, and the vowel signs and tones of Arabic, Hebrew, Indic scripts,
# Thai, Lao, Tibetan, Burmese and Khmer.
MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"
    "\u0900-\u0963\u0971-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f18-\u0f39"
    "\u0f71-\u0fbc\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u109d"
    "\u17b4-\u17d3"
)
# Invisible characters: format characters, soft hyphens, joiners, fillers, variation selectors and controls.
INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001107f\U000110bd\U000110cd\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
WORD = rf"\w[\w{MARKS}]*"  # the pattern of a word without hyphens or dots

_LONG_RUN = compile_pattern(rf"[^\w\s\x00-\x7f]{{{MAX_MARKS + 1},}}")  # marks are no word characters
_UNSEEN = compile_pattern(f"[{INVISIBLE}\ufffc\ufffd]")
_IN_LINES = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"  # visible controls: tabs and line ends
_DASHES = "\u2043\u2212\u2796"  # dashes outside the Unicode category Pd
_COLONS = "\u02d0\u02f8\u0589\u05c3\u2236\ua789"


class _Looks(dict[int, str]):
    """The plain form of each character, by code point; filled on first use."""

    def __missing__(self, code: int) -> str:
        look = self[code] = _find_look(chr(code))
        return look


_LOOKS = _Looks()


def fold_look(text: str) -> str:
    """Fold a text to its visual form, for comparisons: no marks or invisible characters, plain ASCII where possible.

    Spaces, hyphens, colons, digits and letters of any width or style become plain ones. Letters of other scripts stay.
    """
    return text.translate(_LOOKS)


def _find_look(char: str) -> str:
    if char in _IN_LINES:
        return char
    category = unicodedata.category(char)
    if category[0] in "MC" or _UNSEEN.match(char):  # marks, controls, format characters, unassigned code points
        return ""
    if category == "Zs":
        return " "
    if category == "Pd" or char in _DASHES:
        return "-"
    if char in _COLONS:
        return ":"
    parts = unicodedata.normalize("NFKD", char)
    plain = "".join(map(_find_look, parts)) if parts != char else char
    return plain if plain.isascii() else char


def compose(text: str) -> str:
    """Compose the text to NFKC; drop combining marks beyond 30 in a row, which take quadratic time to sort."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _LONG_RUN.sub(_drop_marks, text))


def _drop_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for char in run[0]:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)


def widen_to_whole_letters(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a span of a text so that neither edge separates a letter from its marks."""
    while 0 < start < len(text) and is_mark(text[start]):
        start -= 1
    while end < len(text) and is_mark(text[end]):
        end += 1
    return start, end


def is_mark(letter: str) -> bool:
    """Return whether a character belongs to the letter before it: an accent, a vowel sign, a tone."""
    return letter > "\u02ff" and unicodedata.category(letter) in ("Mn", "Mc")
