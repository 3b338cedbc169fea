"""The hard facts of a sentence: numbers with what they measure, dates, codes and names: right or wrong, never near.

A number is its value, however it is written: 1,200 and 1200, ninety and 90, 5 million and 5,000,000. A date is its
year, month and day, as far as it gives them. "At least 5" and "at most 5" are two facts.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from clew.core.languages import FUNCTION_WORDS
from clew.core.text import terms, words
from clew.query.answer.units import (
    BOUNDS,
    MONTHS,
    OPENERS,
    ORDINALS,
    SCALES,
    UNITS,
    VALUES,
    WEEKDAYS,
    WITHIN,
    listed,
)

Key = tuple[str | int | None, ...]

_COUNTED = frozenset({"number", "year"})
_MONTH = "|".join(sorted((name.capitalize() for name in MONTHS), key=len, reverse=True))
_DATE = re.compile(
    rf"\b(?P<y1>\d{{4}})-(?P<m1>\d\d)-(?P<d1>\d\d)(?![\d-])"
    rf"|\b(?P<d2>\d\d?)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<m2>{_MONTH})\b(?:,?\s+(?P<y2>\d{{4}})\b)?"
    rf"|\b(?P<m3>{_MONTH})\b\.?(?:\s+(?P<d3>\d\d?)(?:st|nd|rd|th)?(?!\d|[.,:]\d))?(?:,?\s+(?P<y3>\d{{4}})\b)?"
)
_MAYBE = frozenset({"May", "March", "Mar", "Mai", "Jun", "Sep", "Dec"})  # also a verb, or short for something else
_ONE = rf"(?:{'|'.join((*VALUES, *SCALES))})"
_WORDS = re.compile(rf"\b{_ONE}(?:[\s-]+(?:and\s+)?{_ONE})*\b", re.IGNORECASE)
_ORDINAL = re.compile(rf"\b(?:{'|'.join(ORDINALS)})\b", re.IGNORECASE)
_CODE = re.compile(r"(?<!\w)(?:[^\W\d_]+[-_.]?\d[\w-]*|\d+-[A-Z]{1,3})(?!\w)")  # E-4417, v2, 123-A
_NUMBER = re.compile(r"(?P<sign>[$€£¥])?(?P<digits>\d+(?:[.,:]\d+)*)(?:(?:st|nd|rd|th|s)\b)?")
_TIME = re.compile(r"(?P<hour>[01]?\d|2[0-3])(?::(?P<minute>[0-5]\d))?")
_CLOCK = re.compile(r"\s?(?P<half>[ap])\.?\s?m\b\.?", re.IGNORECASE)
_SCALE = re.compile(rf"[\s-]?({'|'.join(SCALES)})\b", re.IGNORECASE)
_UNIT = re.compile(r"[\s-]?(?:(?P<points>percentage[\s-]points?\b)|(?P<unit>per\s+cent\b|%|°\s?[CF]?\b|[^\W\d_]+))")
_RANGE = re.compile(r"\s*(?:-|–|to|and|or|bis|und)\s*\d+(?:[.,]\d+)*")
_THING = re.compile(r"\s([a-zß-ÿ]{3,})\b")
_BOUND = re.compile("|".join(rf"(?P<{name}>(?:{words})\s*$)" for name, words in BOUNDS.items()), re.IGNORECASE)
_NAME = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_BEGIN = re.compile(r"(?:^|[.!?:…]|[“\"„«‘>#*•|-]|\n)[\s“\"„«‘>#*•|(-]*$")
_MEASURES = frozenset(word for word in UNITS if len(word) > 3)
_COMMON = frozenset[str]().union(*(FUNCTION_WORDS[code] for code in ("en", "de", "fr", "es")))
_NO_NAMES = frozenset(listed("ad bc bce ce am pm ii iii iv vi vii viii ix st dr mr mrs ms"))
_SINGULAR = re.compile(
    r"\s+(?:(?:never|always|also|often|then)\s+)?(?:is|was|has|does|[a-z]{2,}[^su\W]s)\b"
)  # what follows one
_OBJECT = re.compile(r"\s+(?:the|an?|your|our|their|its|it|them|this|these|those|any|every|each)\b")  # of what one does
_ENDINGS = ("s", "ing", "ly", "ed", "tion", "ment", "ness", "ity", "ance", "ence", "able", "ure", "ism")


@dataclass(frozen=True, slots=True)
class Fact:
    """A number, year, date, weekday, code or name at its place in a text; those of one kind may be mixed up."""

    kind: str
    key: Key
    text: str
    start: int
    end: int
    unit: str = ""
    bound: str = ""
    counted: str = ""  # the word after a number that has no unit

    @property
    def measure(self) -> tuple[Key, str]:
        """How much it is: 14 days are two weeks."""
        unit, times = WITHIN.get(self.unit, (self.unit, 1))
        return tuple(part * times if isinstance(part, int) else part for part in self.key), unit

    def agrees(self, other: "Fact") -> bool:
        """Whether the other says the same, or the same and more."""
        if self.kind == "year" and other.kind == "date":
            return self.key[0] == other.key[0]
        if self.kind != other.kind and not {self.kind, other.kind} <= _COUNTED:
            return False
        if self.kind == "date":
            return all(mine is None or mine == theirs for mine, theirs in zip(self.key, other.key, strict=True))
        bound = not self.bound or self.bound == other.bound
        if bool(self.unit) != bool(other.unit):
            return bound and self.key == other.key and not (self.counted or other.counted)
        return bound and self.measure == other.measure

    def same(self, other: "Fact") -> bool:
        """Whether the other is about the same: names are that have a word in common."""
        if self.kind == other.kind == "name":
            return not set(self.key).isdisjoint(other.key)
        return self.agrees(other)


@lru_cache(maxsize=2048)  # every sentence of an answer is held against the same few passages
def facts(text: str) -> tuple[Fact, ...]:
    """The facts of a text in their order; a word that begins a sentence is no name here, since it may be any word."""
    found: list[Fact] = []
    for kind in (_dates, _codes, _numbers, _worded, _capitals):
        found += [fact for fact in kind(text) if all(fact.end <= one.start or one.end <= fact.start for one in found)]
    return tuple(sorted(found, key=lambda each: each.start))


def facts_of(sentence: str) -> tuple[Fact, ...]:
    """The facts of a sentence, its first word among them if that looks like a name."""
    first = opening(sentence)
    return (first, *facts(sentence)) if first else facts(sentence)


def opening(text: str, low: int = 0, high: int | None = None) -> Fact | None:
    """The first word of a sentence if it looks like a name: bare, and not in a form that common words have."""
    found = _NAME.search(text, low, len(text) if high is None else high)
    if found is None or not found[0][0].isupper() or not _begins(text, found.start()):
        return None
    word = found[0].casefold()
    known = _COMMON | OPENERS | _NO_NAMES | WEEKDAYS.keys() | MONTHS.keys() | VALUES.keys() | ORDINALS.keys()
    if word.endswith(("n't", "n’t")) or _OBJECT.match(text, found.end()):  # "Don't", "Call the harbour"
        return None
    is_common = word in known or len(word) < 2 or word.endswith(_ENDINGS)
    if is_common and (word in known or word[-1] != "s" or not _SINGULAR.match(text, found.end())):
        return None
    return _named(found)


def _dates(text: str) -> list[Fact]:
    found = []
    for match in _DATE.finditer(text):
        year, month, day = (match[f"{part}1"] or match[f"{part}2"] or match[f"{part}3"] for part in "ymd")
        if month in _MAYBE and not year and not day and _begins(text, match.start()):
            continue
        number = int(month) if month.isdecimal() else MONTHS[month.casefold()]
        key = (int(year) if year else None, number, int(day) if day else None)
        found.append(Fact("date", key, match[0], match.start(), match.end()))
    return found


def _codes(text: str) -> list[Fact]:
    return [
        Fact("code", (re.sub(r"[-_.]", "", match[0].casefold()),), match[0], match.start(), match.end())
        for match in _CODE.finditer(text)
    ]


def _numbers(text: str) -> list[Fact]:
    found = []
    for match in _NUMBER.finditer(text):
        end, value = match.end(), _value(match["digits"])
        if isinstance(value, float) and (scale := _SCALE.match(text, end)):
            end, value = scale.end(), value * SCALES[scale[1].casefold()]
        unit = UNITS.get(match["sign"] or "", "") or _unit(text, end) or _range_unit(text, end)
        if (hour := _hour(match["digits"], half := _CLOCK.match(text, end))) is not None:
            end, value, unit = half.end() if half else end, hour, "clock"
        is_year = isinstance(value, float) and not unit and 1000 <= value < 2100 and match["digits"].isdecimal()
        key = int(value) if isinstance(value, float) and value.is_integer() else str(value)
        kind = "year" if is_year else "number"
        more = "" if unit else _counted_thing(text, end)
        found.append(Fact(kind, (key,), text[match.start() : end], match.start(), end, unit, _bound(text, match), more))
    return found


def _hour(digits: str, half: re.Match[str] | None) -> float | str | None:
    """The time of day by the 24 hours, 06:00 like 6 am; None for what is none."""
    found = _TIME.fullmatch(digits)
    if found is None or (half is None and found["minute"] is None):
        return None
    hour = int(found["hour"])
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half["half"] in "pP" else 0)
    return float(hour) if found["minute"] in (None, "00") else f"{hour}:{found['minute']}"


def _value(digits: str) -> float | str:
    """The value of digits; a version is only the same as itself."""
    plain = re.sub(r",(?=\d{3}(?!\d))", "", digits)
    if ":" in plain or plain.count(".") + plain.count(",") > 1:
        return plain.lstrip("0")
    return float(plain.replace(",", "."))


def _worded(text: str) -> list[Fact]:
    found = []
    for match in _WORDS.finditer(text):
        parts = re.findall(rf"\b{_ONE}\b", match[0].casefold())
        if parts == ["one"] or all(part in SCALES for part in parts):
            continue  # "one of them", "hundreds", "a million"
        value = (_counted(parts),)
        found.append(
            Fact("number", value, match[0], match.start(), match.end(), _unit(text, match.end()), _bound(text, match))
        )
    for match in _ORDINAL.finditer(text):
        found.append(Fact("number", (ORDINALS[match[0].casefold()],), match[0], match.start(), match.end()))
    return found


def _counted(parts: list[str]) -> int:
    """The value of number words in their order."""
    total = part_of = 0
    for part in parts:
        if part in SCALES:
            part_of = max(part_of, 1) * SCALES[part]
            if SCALES[part] > 100:
                total, part_of = total + part_of, 0
        else:
            part_of = part_of * 12 if part == "dozen" and part_of else part_of + VALUES[part]
    return total + part_of


def _unit(text: str, at: int) -> str:
    """What a number measures in, one word aside ("90 calendar days"); what is counted is a word like any other."""
    match = _UNIT.match(text, at)
    if match is None:
        return ""
    if (thing := _counted_thing(text, at)) and thing not in UNITS and (later := _UNIT.match(text, match.end())):
        match = later if later["unit"] and later["unit"].casefold() in _MEASURES else match
    return (
        "points"
        if match["points"]
        else UNITS.get(re.sub(r"\s", "", match["unit"]).casefold().replace("percent", "%"), "")
    )


def _range_unit(text: str, at: int) -> str:
    """The unit of the first number of a range, which stands after the second."""
    match = _RANGE.match(text, at)
    return _unit(text, match.end()) if match else ""


def _counted_thing(text: str, at: int) -> str:
    """The word after a number, if it is one that says something."""
    match = _THING.match(text, at)
    return "" if match is None or match[1] in _COMMON or match[1] == "per" else match[1]


def _bound(text: str, match: re.Match[str]) -> str:
    found = _BOUND.search(text[max(0, match.start() - 20) : match.start()])
    return (found.lastgroup or "") if found else ""


def _capitals(text: str) -> list[Fact]:
    own = words(text)
    is_german = len(FUNCTION_WORDS["de"].intersection(own)) > len(FUNCTION_WORDS["en"].intersection(own))
    found: list[Fact] = []
    for match in _NAME.finditer(text):
        word = match[0].casefold()
        if not match[0][0].isupper():
            continue
        if word in WEEKDAYS:
            found.append(Fact("weekday", (WEEKDAYS[word],), match[0], match.start(), match.end()))
        elif is_german or len(word) < 2 or word in _COMMON | _NO_NAMES or _begins(text, match.start()):
            continue  # German writes every noun so
        else:
            one = _named(match)
            if found and found[-1].kind == "name" and text[found[-1].end : one.start] == " ":  # Ada Lovelace is one
                last = found.pop()
                one = Fact("name", (*last.key, *one.key), f"{last.text} {one.text}", last.start, one.end)
            found.append(one)
    return found


def _begins(text: str, at: int) -> bool:
    """Whether a sentence, a quote or an item of a list begins there."""
    return _BEGIN.search(text[max(0, at - 12) : at]) is not None if at < 12 or "\n" not in text[at - 12 : at] else True


def _named(match: re.Match[str]) -> Fact:
    bare = re.sub(r"['’]s?$", "", match[0])
    return Fact("name", (min(terms(bare), default=bare.casefold()),), bare, match.start(), match.end())
