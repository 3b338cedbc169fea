"""Words that can stand for each other in most sentences (`synonyms.txt`), for true claims in other words.

A claim that is changed in this way is now and then not quite what was said, which is the price of variety.
"""

import re
from pathlib import Path
from random import Random
from typing import Final


def _read_groups() -> dict[str, list[str]]:
    lines = (Path(__file__).parent / "synonyms.txt").read_text("utf-8").splitlines()[1:]
    return {word: others.split(", ") for word, others in (line.split(": ") for line in lines)}


GROUPS: Final = _read_groups()
_PATTERN: Final = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, GROUPS), key=len, reverse=True))})\b")


def vary_words(text: str, rng: Random, *, count: int) -> str:
    """The text with at most so many of its words replaced by others that mean much the same."""
    for _ in range(count):
        found = list(_PATTERN.finditer(text))
        if not found:
            break
        one = rng.choice(found)
        text = text[: one.start()] + rng.choice(GROUPS[one[0]]) + text[one.end() :]
    return text
