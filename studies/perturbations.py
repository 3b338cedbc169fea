"""Perturbations that make a true sentence false: what the verification of answers must reject.

Each takes a sentence and its supporting passages, and returns the sentence with one thing changed, or an empty string
if there is nothing of that kind to change. Replacements come from the passages where possible: a number or a name that
occurs nowhere is easy to detect.
"""

import re
from calendar import month_name as MONTH_NAMES  # noqa: N812
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

Perturbation = Callable[[str, str, Random], str]

_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|[.,]\d)")
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_UNITS = "days weeks months years hours minutes miles kilometers feet meters pounds dollars percent million billion"
_UNIT = re.compile(rf"(?<=\d )(?:{_UNITS.replace(' ', '|')})\b")
_MONTHS = [*MONTH_NAMES[1:]]
_MONTH = re.compile(rf"\b(?:{'|'.join(_MONTHS)})\b")
_DAY = re.compile(rf"\b(?:{'|'.join(_MONTHS)}) (\d\d?)\b|\b(\d\d?) (?:{'|'.join(_MONTHS)})\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*\b")
_LONG_WORD = re.compile(r"\b[a-z]{6,}\b")
_VERB = re.compile(r"\b(?:is|are|was|were|can|could|will|would|should|must|may|has|have|had|does|did)\b")
_NEGATION = re.compile(r"\s+(?:not|never)\b|n['’]t\b")
_OPPOSITES: Final = MappingProxyType(
    {
        "before": "after",
        "after": "before",
        "first": "last",
        "last": "first",
        "more": "less",
        "less": "more",
        "increase": "decrease",
        "increased": "decreased",
        "highest": "lowest",
        "largest": "smallest",
        "oldest": "youngest",
        "north": "south",
        "south": "north",
        "east": "west",
        "west": "east",
        "northern": "southern",
        "southern": "northern",
        "male": "female",
        "won": "lost",
        "began": "ended",
        "always": "never",
        "above": "below",
        "early": "late",
        "all": "some",
    }
)
_OPPOSITE = re.compile(rf"\b(?:{'|'.join(_OPPOSITES)})\b")


def increment_number(sentence: str, _: str, rng: Random) -> str:
    """Adds one to a number."""
    return _replace_one(_NUMBER, sentence, rng, lambda found: _add_one(found[0]))


def swap_number(sentence: str, passages: str, rng: Random) -> str:
    """Replaces a number with another of the passages."""
    others = sorted(set(_NUMBER.findall(passages)) - set(_NUMBER.findall(sentence)))
    return _replace_one(_NUMBER, sentence, rng, lambda _: rng.choice(others)) if others else ""


def swap_year(sentence: str, passages: str, rng: Random) -> str:
    """Replaces a year with another of the passages."""
    others = sorted(set(_YEAR.findall(passages)) - set(_YEAR.findall(sentence)))
    return _replace_one(_YEAR, sentence, rng, lambda _: rng.choice(others)) if others else ""


def shift_day(sentence: str, _: str, rng: Random) -> str:
    """Replaces a date with the day after."""

    def shift(found: re.Match[str]) -> str:
        day = found[1] or found[2]
        return found[0].replace(day, _add_one(day))

    return _replace_one(_DAY, sentence, rng, shift)


def shift_month(sentence: str, _: str, rng: Random) -> str:
    """Replaces a month with the next."""
    return _replace_one(_MONTH, sentence, rng, lambda found: _MONTHS[(_MONTHS.index(found[0]) + 1) % 12])


def swap_unit(sentence: str, _: str, rng: Random) -> str:
    """Replaces a unit with another."""
    return _replace_one(_UNIT, sentence, rng, lambda found: rng.choice([u for u in _UNITS.split() if u != found[0]]))


def percent_to_points(sentence: str, _: str, rng: Random) -> str:
    """Replaces percent with percentage points."""
    return _replace_one(re.compile(r"(?<=\d)(?:%| percent\b)"), sentence, rng, lambda _: " percentage points")


def swap_name(sentence: str, passages: str, rng: Random) -> str:
    """Replaces a name with another of the passages."""
    others = sorted(set(_NAME.findall(passages)) - {name for name in _NAME.findall(passages) if name in sentence})
    return _replace_one(_NAME, sentence, rng, lambda _: rng.choice(others)) if others else ""


def invent_name(sentence: str, _: str, rng: Random) -> str:
    """Replaces a name with one that occurs nowhere."""
    return _replace_one(_NAME, sentence, rng, lambda _: rng.choice(("Zebedee", "Quentin Marsh", "Xanadu")))


def swap_word(sentence: str, passages: str, rng: Random) -> str:
    """Replaces a long word with another of the passages, which only its meaning reveals."""
    others = sorted({word for word in _LONG_WORD.findall(passages) if word not in sentence})
    return _replace_one(_LONG_WORD, sentence, rng, lambda _: rng.choice(others)) if others else ""


def invent_word(sentence: str, _: str, rng: Random) -> str:
    """Replaces a long word with one that occurs nowhere."""
    return _replace_one(_LONG_WORD, sentence, rng, lambda _: rng.choice(("bewitched", "anvils", "velvet", "purloined")))


def exchange_names(sentence: str, _: str, rng: Random) -> str:
    """Exchanges two names."""
    names = list(dict.fromkeys(_NAME.findall(sentence)))
    if len(names) < 2:
        return ""
    one, other = rng.sample(names, 2)
    return re.sub(
        rf"\b(?:{re.escape(one)}|{re.escape(other)})\b", lambda found: other if found[0] == one else one, sentence
    )


def negate(sentence: str, _: str, rng: Random) -> str:
    """Adds a "not" after a verb."""
    return "" if _NEGATION.search(sentence) else _replace_one(_VERB, sentence, rng, lambda found: f"{found[0]} not")


def drop_negation(sentence: str, _: str, rng: Random) -> str:
    """Removes a "not" or "never"."""
    return _replace_one(_NEGATION, sentence, rng, lambda _: "")


def invert_word(sentence: str, _: str, rng: Random) -> str:
    """Replaces a word with its opposite."""
    return _replace_one(_OPPOSITE, sentence, rng, lambda found: _OPPOSITES[found[0]])


PERTURBATIONS: Final[Mapping[str, Perturbation]] = MappingProxyType(
    {
        perturbation.__name__: perturbation
        for perturbation in (
            *(increment_number, swap_number, swap_year, shift_day, shift_month, swap_unit, percent_to_points),
            *(swap_name, invent_name, exchange_names, negate, drop_negation, invert_word, swap_word, invent_word),
        )
    }
)


def _replace_one(pattern: re.Pattern[str], text: str, rng: Random, replacement: Callable[[re.Match[str]], str]) -> str:
    """The text with one random match replaced; empty if there is none."""
    found = list(pattern.finditer(text))
    if not found:
        return ""
    one = rng.choice(found)
    return text[: one.start()] + replacement(one) + text[one.end() :]


def _add_one(number: str) -> str:
    bare = number.replace(",", "")
    if "." in bare:
        return f"{float(bare) + 1:.{len(bare.partition('.')[2])}f}"
    return f"{int(bare) + 1:,}" if "," in number else str(int(bare) + 1)
