"""Values for the slots of made sentences: each with the ways to write it, and others of its kind that mean something else.

A slot is named after its kind and numbered where a sentence has several: `{person}`, `{days2}`. The first form of a
value is the plain one; any form may stand for any other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final

from studies.support.words import (
    EVENTS,
    FIRST_NAMES,
    GROUPS,
    ITEMS,
    ORGANISATIONS,
    PLACES,
    PRODUCTS,
    ROLES,
    SURNAMES,
    TEAMS,
)

MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SMALL: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_FREQUENCIES: Final = (
    ("daily", "every day", "once a day", "each day"),
    ("weekly", "every week", "once a week", "each week"),
    ("monthly", "every month", "once a month", "each month"),
    ("quarterly", "every three months", "four times a year", "each quarter"),
    ("yearly", "every year", "once a year", "annually", "every twelve months"),
    ("twice a year", "every six months", "half-yearly"),
    ("twice a week", "two times a week"),
    ("twice a day", "two times a day", "every twelve hours"),
    ("every two weeks", "once a fortnight", "every fortnight"),
    ("hourly", "every hour", "once an hour"),
    ("every two years", "every other year"),
)
_DURATIONS: Final = (  # each row means one length of time
    ("7 days", "a week", "one week", "seven days"),
    ("14 days", "two weeks", "a fortnight", "fourteen days"),
    ("21 days", "three weeks"),
    ("12 months", "a year", "one year", "twelve months"),
    ("6 months", "half a year", "six months"),
    ("18 months", "a year and a half", "one and a half years"),
    ("24 months", "two years"),
    ("30 minutes", "half an hour", "thirty minutes"),
    ("90 minutes", "an hour and a half", "one and a half hours", "1.5 hours"),
    ("15 minutes", "a quarter of an hour", "fifteen minutes"),
    ("60 minutes", "one hour", "an hour"),
    ("48 hours", "two days"),
    ("72 hours", "three days"),
    ("120 seconds", "two minutes", "2 minutes"),
    ("10 years", "a decade", "ten years"),
    ("3 months", "three months", "a quarter"),
)
_FRACTIONS: Final = {50: "half", 25: "a quarter", 75: "three quarters", 20: "a fifth", 10: "a tenth"}
_CURRENCIES: Final = (("£", "pounds", "GBP"), ("$", "dollars", "USD"), ("€", "euros", "EUR"))


@dataclass(frozen=True, slots=True)
class Value:
    """What a slot is filled with: the forms that mean the same."""

    forms: tuple[str, ...]

    def pick(self, rng: Random) -> str:
        """One form; the plain one half of the time."""
        return self.forms[0] if rng.random() < 0.5 else rng.choice(self.forms)


def make_value(kind: str, rng: Random) -> Value:
    """A value of a kind."""
    return Value(_MAKERS[kind](rng))


def make_other(kind: str, value: Value, rng: Random) -> Value:
    """Another value of the kind; of a number often one that is close or looks alike."""
    for _ in range(20):
        other = make_value(kind, rng)
        if not set(other.forms) & set(value.forms):
            return other
    return Value(("something else",))


def spell_number(number: int) -> str:
    """A number in words up to twenty, in digits above."""
    return SMALL[number] if number < len(SMALL) else f"{number:,}"


def list_kinds() -> frozenset[str]:
    """The kinds that a slot may have."""
    return frozenset(_MAKERS)


def _person(rng: Random) -> tuple[str, ...]:
    first, last = rng.choice(FIRST_NAMES), rng.choice(SURNAMES)
    draw = rng.random()
    if draw < 0.5:
        return (f"{first} {last}", f"{first} {last}", last)
    if draw < 0.8:
        return (first,)
    return (last, f"Dr {last}") if draw < 0.9 else (f"{rng.choice(('Ms', 'Mr'))} {last}", last)


def _days(rng: Random) -> tuple[str, ...]:
    if rng.random() < 0.55:
        return rng.choice(_DURATIONS)
    number = rng.choice((*range(2, 20), 20, 25, 28, 30, 35, 40, 45, 50, 60, 80, 90, 100, 180, 365))
    unit = rng.choice(("days", "days", "working days", "weeks", "months", "years", "hours", "minutes", "seconds"))
    return (f"{number} {unit}", f"{spell_number(number)} {unit}")


def _money(rng: Random) -> tuple[str, ...]:
    sign, word, code = rng.choice(_CURRENCIES)
    draw = rng.random()
    if draw < 0.15:
        number = rng.choice((1.2, 1.5, 2.4, 3.1, 4.9, 6.5, 8.3, 12.7, 54.2, 18.6))
        whole = f"{int(number * 1_000_000):,}"
        return (f"{sign}{number} million", f"{number} million {code}", f"{sign}{whole}", f"{number} million {word}")
    number = rng.choice((5, 8, 12, 15, 20, 25, 35, 40, 50, 60, 75, 80, 100, 120, 150, 200, 250, 300, 400, 450, 500, 650,
                         750, 800, 900, 1000, 1200, 1500, 1800, 2000, 2400, 2500, 3000, 5000, 7500, 10000, 12500, 25000))  # fmt: skip
    return (f"{sign}{number:,}", f"{number:,} {word}", f"{code} {number:,}", f"{number} {code}", f"{number:,} {word}")


def _percent(rng: Random) -> tuple[str, ...]:
    number = rng.choice(
        (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 22, 25, 30, 35, 40, 45, 50, 55, 60, 70, 75, 80, 90, 95)
    )
    forms = [f"{number}%", f"{number} %", f"{number} percent", f"{number} per cent"]
    if number in _FRACTIONS:
        forms.append(_FRACTIONS[number])
    return tuple(forms)


def _time(rng: Random) -> tuple[str, ...]:
    hour, minute = rng.randrange(6, 23), rng.choice((0, 0, 0, 15, 30, 45))
    half, twelve = ("am" if hour < 12 else "pm"), (hour - 1) % 12 + 1
    short = f"{twelve} {half}" if not minute else f"{twelve}:{minute:02} {half}"
    forms = [f"{hour}:{minute:02}", short, f"{twelve}:{minute:02} {half[0]}.m."]
    if hour == 12 and not minute:
        forms.append("noon")
    if minute == 30:
        forms.append(f"half past {SMALL[twelve]}" + (" in the morning" if hour < 12 else " in the afternoon"))
    elif not minute and hour != 12:
        forms.append(f"{SMALL[twelve]} in the {'morning' if hour < 12 else 'afternoon' if hour < 18 else 'evening'}")
    return tuple(forms)


def _date(rng: Random) -> tuple[str, ...]:
    day, month, year = rng.randrange(1, 29), rng.randrange(12), rng.randrange(1995, 2034)
    name = MONTHS[month]
    if rng.random() < 0.4:
        return (f"{day} {name}", f"{name} {day}", f"the {_ordinal(day)} of {name}")
    return (
        f"{day} {name} {year}",
        f"{name} {day}, {year}",
        f"{year}-{month + 1:02}-{day:02}",
        f"{day} {name[:3]} {year}",
    )


def _ordinal(number: int) -> str:
    return f"{number}{'th' if 10 < number < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _count(rng: Random) -> tuple[str, ...]:
    number = rng.choice((*range(2, 21), *range(2, 13), 24, 25, 30, 36, 40, 48, 50, 60, 75, 80, 100, 120, 150, 200, 250, 300,
                         400, 500, 640, 750, 900, 1200, 1500, 2000, 3500, 5000, 12000))  # fmt: skip
    return (f"{number:,}", spell_number(number), f"{number:,}") + (("a dozen",) if number == 12 else ())


def _scaled(
    units: tuple[tuple[str, str, int, str], ...], numbers: tuple[float, ...]
) -> Callable[[Random], tuple[str, ...]]:
    """Makes quantities: (short unit, long unit, how many of the small unit, small unit)."""

    def make(rng: Random) -> tuple[str, ...]:
        short, long, factor, small = rng.choice(units)
        number = rng.choice(numbers)
        forms = [f"{number:g} {short}", f"{number:g} {long}", f"{number:g}{short}"]
        if factor:
            forms.append(f"{number * factor:,.0f} {small}")
        return tuple(forms)

    return make


_NUMBERS: Final = (
    0.5,
    1.5,
    2,
    2.5,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    12,
    14,
    15,
    16,
    18,
    20,
    24,
    25,
    30,
    32,
    40,
    42,
    45,
    50,
    55,
    60,
    64,
)


def _chosen(words: tuple[str, ...]) -> Callable[[Random], tuple[str, ...]]:
    def make(rng: Random) -> tuple[str, ...]:
        return tuple(rng.choice(words).split("|"))

    return make


_MAKERS: Final[Mapping[str, Callable[[Random], tuple[str, ...]]]] = MappingProxyType(
    {
        "person": _person,
        "role": _chosen(ROLES),
        "team": _chosen(TEAMS),
        "group": _chosen(GROUPS),
        "org": _chosen(ORGANISATIONS),
        "place": _chosen(PLACES),
        "product": _chosen(PRODUCTS),
        "item": _chosen(ITEMS),
        "event": _chosen(EVENTS),
        "days": _days,
        "often": lambda rng: rng.choice(_FREQUENCIES),
        "money": _money,
        "percent": _percent,
        "time": _time,
        "date": _date,
        "weekday": lambda rng: (rng.choice(WEEKDAYS),),
        "month": lambda rng: (rng.choice(MONTHS),),
        "year": lambda rng: (str(rng.randrange(1950, 2033)),),
        "n": _count,
        "mass": _scaled(
            (
                ("kg", "kilograms", 1000, "grams"),
                ("g", "grams", 0, ""),
                ("mg", "milligrams", 0, ""),
                ("tonnes", "tons", 0, ""),
            ),
            _NUMBERS,
        ),
        "length": _scaled(
            (
                ("km", "kilometres", 1000, "metres"),
                ("m", "metres", 100, "cm"),
                ("cm", "centimetres", 10, "mm"),
                ("miles", "miles", 0, ""),
            ),
            _NUMBERS,
        ),
        "volume": _scaled((("l", "litres", 1000, "ml"), ("ml", "millilitres", 0, "")), _NUMBERS),
        "heat": _scaled((("°C", "degrees", 0, ""), ("degrees Celsius", "°C", 0, "")), _NUMBERS),
        "storage": _scaled(
            (("GB", "gigabytes", 1000, "MB"), ("MB", "megabytes", 0, ""), ("TB", "terabytes", 1000, "GB")), _NUMBERS
        ),
        "power": _scaled(
            (
                ("kW", "kilowatts", 1000, "watts"),
                ("W", "watts", 0, ""),
                ("dB", "decibels", 0, ""),
                ("V", "volts", 0, ""),
            ),
            _NUMBERS,
        ),
    }
)
