"""Facts of a text that must match exactly: numbers with units, dates, codes and names.

A number is compared by value, however it is written: 1,200 and 1200, ninety and 90, 5 million and 5,000,000. A date is
its year, month and day, as far as given. "At least 5" and "at most 5" are different facts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from clew.core.languages import FUNCTION_WORDS
from clew.core.text import extract_terms, tokenize_words
from clew.core.words import load_lines, load_words

Key = tuple[str | int | None, ...]

_LINES = {name: [line.split() for line in lines] for name, lines in load_lines("facts").items()}
UNITS = {word: words[0] for words in _LINES["units"] for word in words}
WEEKDAYS = {word: words[0] for words in _LINES["weekdays"] for word in words}
VALUES, SCALES, ORDINALS, MONTHS = (
    {word: int(value) for value, *words in _LINES[name] for word in words}
    for name in ("values", "scales", "ordinals", "months")
)
BASE_UNITS = {unit: (smaller, int(times)) for unit, smaller, times in _LINES["base"]}  # two weeks and 14 days are equal

SET = "set"  # the bound of an assigned number: attempts=3 is three, and up to three
_NUMERIC = frozenset({"number", "year"})
_MONTH = "|".join(sorted((name.capitalize() for name in MONTHS), key=len, reverse=True))
_DATE = re.compile(
    rf"\b(?P<y1>\d{{4}})-(?P<m1>\d\d)-(?P<d1>\d\d)(?![\d-])"
    rf"|\b(?P<d2>\d\d?)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<m2>{_MONTH})\b(?:,?\s+(?P<y2>\d{{4}})\b)?"
    rf"|\b(?P<m3>{_MONTH})\b\.?(?:\s+(?P<d3>\d\d?)(?:st|nd|rd|th)?(?!\d|[.,:]\d))?(?:,?\s+(?P<y3>\d{{4}})\b)?"
)
_DAY_BEFORE = re.compile(r"(?<!\d)(\d\d?)\.?\s*(?:-|–|to|bis|until)\s*$")
_DAY_AFTER = re.compile(r"\s*(?:-|–|to|bis|until)\s*(\d\d?)(?![\d:.,]\d|\d)")
_AMBIGUOUS_MONTHS = frozenset({"May", "March", "Mar", "Mai", "Jun", "Sep", "Dec"})  # also a verb or an abbreviation
_NUMBER_WORD = rf"(?:{'|'.join((*VALUES, *SCALES))})"
_WORDS = re.compile(rf"\b{_NUMBER_WORD}(?:[\s-]+(?:and\s+)?{_NUMBER_WORD})*\b", re.IGNORECASE)
_ORDINAL = re.compile(rf"\b(?:{'|'.join(ORDINALS)})\b", re.IGNORECASE)
_CODE = re.compile(r"(?<!\w)(?:[^\W\d_]+[-_.]?\d[\w-]*|\d+-[A-Z]{1,3})(?!\w)")  # E-4417, v2, 123-A
_NUMBER = re.compile(r"(?P<sign>[$€£¥])?(?P<digits>\d+(?:[.,:]\d+)*)(?:(?:st|nd|rd|th|s)\b)?")
_TIME = re.compile(r"(?P<hour>[01]?\d|2[0-3])(?::(?P<minute>[0-5]\d))?")
_CLOCK = re.compile(r"\s?(?P<meridiem>[ap])\.?\s?m\b\.?", re.IGNORECASE)
_SCALE = re.compile(rf"[\s-]?({'|'.join(SCALES)})\b", re.IGNORECASE)
_UNIT = re.compile(r"[\s-]?(?:(?P<points>percentage[\s-]points?\b)|(?P<unit>per\s+cent\b|%|°\s?[CF]?\b|[^\W\d_]+))")
_RANGE = re.compile(r"\s*(?:-|–|to|and|or|bis|und)\s*\d+(?:[.,]\d+)*")
_NOUN = re.compile(r"\s([a-zß-ÿ]{3,})\b")
_BOUND = re.compile(
    "|".join(rf"(?P<{name}>(?:{'|'.join(map(' '.join, _LINES[name]))})\s*$)" for name in ("least", "most")),
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:…]|[“\"„«‘>#*•|-]|\n)[\s“\"„«‘>#*•|(-]*$")
_MEASURES = frozenset(word for word in UNITS if len(word) > 3)
_COMMON = frozenset[str]().union(*(FUNCTION_WORDS[code] for code in ("en", "de", "fr", "es")))
_OPENERS, _NOT_NAMES = (load_words("facts")[name] for name in ("openers", "not names"))
_SINGULAR = re.compile(
    r"\s+(?:(?:never|always|also|often|then)\s+)?(?:is|was|has|does|[a-z]{2,}[^su\W]s)\b"
)  # what follows a singular noun
_OBJECT = re.compile(
    r"\s+(?:the|an?|your|our|their|its|it|them|this|these|those|any|every|each)\b"
)  # what follows a verb
_ENDINGS = ("s", "ing", "ly", "ed", "tion", "ment", "ness", "ity", "ance", "ence", "able", "ure", "ism")


@dataclass(frozen=True, slots=True)
class Fact:
    """A number, year, date, weekday, code or name at its position in a text."""

    kind: str
    key: Key
    text: str
    start: int
    end: int
    unit: str = ""
    bound: str = ""
    counted: str = ""  # the noun after a number without a unit

    @property
    def value_in_base_unit(self) -> tuple[Key, str]:
        """The value converted to its base unit, and that unit: 14 days equal two weeks."""
        unit, times = BASE_UNITS.get(self.unit, (self.unit, 1))
        return tuple(part * times if isinstance(part, int) else part for part in self.key), unit

    def agrees_with(self, other: "Fact") -> bool:
        """Return whether the other fact says the same, or the same with more detail."""
        if self.kind == "year" and other.kind == "date":
            return self.key[0] == other.key[0]
        if self.kind != other.kind and not {self.kind, other.kind} <= _NUMERIC:
            return False
        if self.kind == "date":
            return all(mine is None or mine == theirs for mine, theirs in zip(self.key, other.key, strict=True))
        bound = self.bound in ("", SET) or other.bound in (self.bound, SET)
        if bool(self.unit) != bool(other.unit):
            return bound and self.key == other.key and not (self.counted or other.counted)
        return bound and self.value_in_base_unit == other.value_in_base_unit


@lru_cache(maxsize=2048)  # every sentence of an answer is checked against the same few passages
def find_facts(text: str) -> tuple[Fact, ...]:
    """Return the numbers, dates, codes and names of a text in order; the first word of a sentence is no name."""
    found: list[Fact] = []
    for find in (_find_dates, _find_codes, _find_numbers, _find_number_words, _find_names):
        found += [fact for fact in find(text) if all(fact.end <= one.start or one.end <= fact.start for one in found)]
    return tuple(sorted(found, key=lambda each: each.start))


def find_sentence_facts(sentence: str) -> tuple[Fact, ...]:
    """Return the facts of a sentence, including its first word if that looks like a name."""
    first = find_opening_name(sentence)
    is_label = first is not None and sentence.startswith(":", first.end)  # "Deadline: 15 minutes"
    return (first, *find_facts(sentence)) if first and not is_label else find_facts(sentence)


def find_opening_name(text: str, low: int = 0, high: int | None = None) -> Fact | None:
    """Return a sentence's first word if it looks like a name: no known word, and without the ending of a common one."""
    found = _NAME.search(text, low, len(text) if high is None else high)
    if found is None or not found[0][0].isupper() or not _starts_sentence(text, found.start()):
        return None
    word = found[0].casefold()
    known = _COMMON | _OPENERS | _NOT_NAMES | WEEKDAYS.keys() | MONTHS.keys() | VALUES.keys() | ORDINALS.keys()
    if word.endswith(("n't", "n’t")) or _OBJECT.match(text, found.end()):  # "Don't", "Call the harbour"
        return None
    is_common = word in known or len(word) < 2 or word.endswith(_ENDINGS)
    if is_common and (word in known or word[-1] != "s" or not _SINGULAR.match(text, found.end())):
        return None
    return _make_name_fact(found)


def _find_dates(text: str) -> list[Fact]:
    found = []
    for match in _DATE.finditer(text):
        year, month, day = (match[f"{part}1"] or match[f"{part}2"] or match[f"{part}3"] for part in "ymd")
        if month in _AMBIGUOUS_MONTHS and not year and not day and _starts_sentence(text, match.start()):
            continue
        number = int(month) if month.isdecimal() else MONTHS[month.casefold()]
        key = (int(year) if year else None, number, int(day) if day else None)
        found.append(Fact("date", key, match[0], match.start(), match.end()))
        if day and (other := _find_other_day(text, match)):
            found.append(Fact("date", (*key[:2], int(other[1])), other[1], other.start(1), other.end(1)))
    return found


def _find_other_day(text: str, match: re.Match[str]) -> re.Match[str] | None:
    """Return the other day of a range in one month: that before the date ("18–21 May") or after it ("May 18 to 21")."""
    if match["d2"]:
        return _DAY_BEFORE.search(text, max(0, match.start() - 8), match.start())
    return _DAY_AFTER.match(text, match.end()) if match["d3"] and not match["y3"] else None


def _find_codes(text: str) -> list[Fact]:
    return [
        Fact("code", (re.sub(r"[-_.]", "", match[0].casefold()),), match[0], match.start(), match.end())
        for match in _CODE.finditer(text)
    ]


def _find_numbers(text: str) -> list[Fact]:
    found = []
    for match in _NUMBER.finditer(text):
        end, value = match.end(), _parse_number(match["digits"])
        if isinstance(value, float) and (scale := _SCALE.match(text, end)):
            end, value = scale.end(), value * SCALES[scale[1].casefold()]
        unit = UNITS.get(match["sign"] or "", "") or _find_unit_after(text, end) or _find_range_unit(text, end)
        if (hour := _parse_time(match["digits"], meridiem := _CLOCK.match(text, end))) is not None:
            end, value, unit = meridiem.end() if meridiem else end, hour, "clock"
        is_year = isinstance(value, float) and not unit and 1000 <= value < 2100 and match["digits"].isdecimal()
        key = int(value) if isinstance(value, float) and value.is_integer() else str(value)
        kind = "year" if is_year else "number"
        noun, bound = "" if unit else _find_counted_noun(text, end), _find_bound_before(text, match)
        found.append(Fact(kind, (key,), text[match.start() : end], match.start(), end, unit, bound, noun))
    return found


def _parse_time(digits: str, meridiem: re.Match[str] | None) -> float | str | None:
    """Return the time of day on the 24-hour clock (6 am is 06:00); None where it is not a time."""
    found = _TIME.fullmatch(digits)
    if found is None or (meridiem is None and found["minute"] is None):
        return None
    hour = int(found["hour"])
    if meridiem is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if meridiem["meridiem"] in "pP" else 0)
    return float(hour) if found["minute"] in (None, "00") else f"{hour}:{found['minute']}"


def _parse_number(digits: str) -> float | str:
    """Return the value of digits; a version number stays a string."""
    plain = re.sub(r",(?=\d{3}(?!\d))", "", digits)
    if ":" in plain or plain.count(".") + plain.count(",") > 1:
        return plain.lstrip("0")
    return float(plain.replace(",", "."))


def _find_number_words(text: str) -> list[Fact]:
    found = []
    for match in _WORDS.finditer(text):
        parts = re.findall(rf"\b{_NUMBER_WORD}\b", match[0].casefold())
        if parts == ["one"] or all(part in SCALES for part in parts):
            continue  # "one of them", "hundreds", "a million"
        key, unit, bound = (
            (_sum_number_words(parts),),
            _find_unit_after(text, match.end()),
            _find_bound_before(text, match),
        )
        found.append(Fact("number", key, match[0], match.start(), match.end(), unit, bound))
    for match in _ORDINAL.finditer(text):
        found.append(Fact("number", (ORDINALS[match[0].casefold()],), match[0], match.start(), match.end()))
    return found


def _sum_number_words(parts: Sequence[str]) -> int:
    total = part_of = 0
    for part in parts:
        if part in SCALES:
            part_of = max(part_of, 1) * SCALES[part]
            if SCALES[part] > 100:
                total, part_of = total + part_of, 0
        else:
            part_of = part_of * 12 if part == "dozen" and part_of else part_of + VALUES[part]
    return total + part_of


def _find_unit_after(text: str, at: int) -> str:
    """Return the unit after a number, with at most one word between ("90 calendar days"); empty for counted nouns."""
    match = _UNIT.match(text, at)
    if match is None:
        return ""
    if (thing := _find_counted_noun(text, at)) and thing not in UNITS and (later := _UNIT.match(text, match.end())):
        match = later if later["unit"] and later["unit"].casefold() in _MEASURES else match
    if match["points"]:
        return "points"
    return UNITS.get(re.sub(r"\s", "", match["unit"]).casefold().replace("percent", "%"), "")


def _find_range_unit(text: str, at: int) -> str:
    """Return the unit of the first number of a range, which is written after the second."""
    match = _RANGE.match(text, at)
    return _find_unit_after(text, match.end()) if match else ""


def _find_counted_noun(text: str, at: int) -> str:
    """Return the noun after a number; empty for a function word."""
    match = _NOUN.match(text, at)
    return "" if match is None or match[1] in _COMMON or match[1] == "per" else match[1]


def _find_bound_before(text: str, match: re.Match[str]) -> str:
    before = text[max(0, match.start() - 20) : match.start()]
    found = _BOUND.search(before)
    return (found.lastgroup or "") if found else SET if before.endswith("=") else ""


def _find_names(text: str) -> list[Fact]:
    own = tokenize_words(text)
    is_german = len(FUNCTION_WORDS["de"].intersection(own)) > len(FUNCTION_WORDS["en"].intersection(own))
    found: list[Fact] = []
    for match in _NAME.finditer(text):
        word = match[0].casefold()
        if not match[0][0].isupper():
            continue
        if word in WEEKDAYS:
            found.append(Fact("weekday", (WEEKDAYS[word],), match[0], match.start(), match.end()))
        elif is_german or len(word) < 2 or word in _COMMON | _NOT_NAMES or _starts_sentence(text, match.start()):
            continue  # German capitalises every noun
        else:
            one = _make_name_fact(match)
            if found and found[-1].kind == "name" and text[found[-1].end : one.start] == " ":
                last = found.pop()  # "Ada Lovelace" is one name
                one = Fact("name", (*last.key, *one.key), f"{last.text} {one.text}", last.start, one.end)
            found.append(one)
    return found


def _starts_sentence(text: str, at: int) -> bool:
    """Return whether a sentence, a quote or a list item begins there."""
    before = text[max(0, at - 12) : at]
    return (at >= 12 and "\n" in before) or _SENTENCE_START.search(before) is not None


def _make_name_fact(match: re.Match[str]) -> Fact:
    bare = re.sub(r"['’]s?$", "", match[0])
    return Fact("name", (min(extract_terms(bare), default=bare.casefold()),), bare, match.start(), match.end())
