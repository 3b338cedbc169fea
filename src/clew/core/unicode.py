"""Unicode composition in linear time: what every analyser of text begins with."""

import re
import unicodedata

MAX_MARKS = 30  # combining marks in a row, as in the Stream-Safe Text Format (UAX 15): no script needs more
_LONG_RUN = re.compile(rf"[^\w\s\x00-\x7f]{{{MAX_MARKS + 1},}}")  # marks are no word characters


def compose(text: str) -> str:
    """The text in NFKC; combining marks beyond 30 in a row, which take quadratic time to be sorted, are dropped."""
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
