"""The patterns by which a follow-up shows that it is one, of the words in `core/words/follow_up.txt`, by language."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from clew.core.pattern import compile_pattern
from clew.core.words import load_patterns

_PATTERNS = load_patterns("follow_up")
_UNSPACED = ("zh", "ja", "ko", "th")


class FollowUpWords(NamedTuple):
    """The patterns of a language."""

    opening: re.Pattern[str]
    pointer: re.Pattern[str] | None
    ending: re.Pattern[str] | None
    weak_ending: re.Pattern[str] | None
    weak_opening: re.Pattern[str] | None


def _compile(code: str) -> FollowUpWords:
    """The patterns of a language: whole words, unless nothing separates its words."""
    found = {part: _PATTERNS.get(f"{code} {part}", "") for part in FollowUpWords._fields}
    start, end, flags = ("", "", 0) if code in _UNSPACED else (r"(?<!\w)", r"(?!\w)", re.IGNORECASE)
    pointer = found["pointer"].replace("$", r"\W*$")

    def make(part: str, before: str, after: str) -> re.Pattern[str] | None:
        return compile_pattern(f"{before}{found[part]}{after}", flags) if found[part] else None

    return FollowUpWords(
        compile_pattern(rf"\W*(?P<word>{found['opening']}){end}", flags),
        compile_pattern(f"{start}(?:{pointer}){end}", flags) if pointer else None,
        make("ending", f"{start}(?:", r")\W*$"),
        make("weak_ending", "(?:", r")\W*$"),
        make("weak_opening", r"\W*(?P<word>", ")"),
    )


FOLLOW_UP_WORDS: Final[Mapping[str, FollowUpWords]] = MappingProxyType(
    {name.split()[0]: _compile(name.split()[0]) for name in _PATTERNS if name.endswith(" opening")}
)
QUESTION_WORD: Final = compile_pattern(rf"\W*(?:{_PATTERNS['question words']})\b", re.IGNORECASE)
UNSHARED_OPENING: Final = compile_pattern(_PATTERNS["unshared openings"])
MODAL: Final = compile_pattern(_PATTERNS["modal verbs"], re.IGNORECASE)
