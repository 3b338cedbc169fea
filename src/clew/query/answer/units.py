"""Word tables for `facts`: units, number words, months, weekdays, bounds."""

from types import MappingProxyType
from typing import Final


def split_word_list(text: str) -> list[str]:
    """The words of a text separated by white space."""
    return text.split()


def _map_to_first_word(rows: str) -> dict[str, str]:
    """Each word of a row mapped to the first word of the row."""
    return {word: row.split()[0] for row in rows.strip().splitlines() for word in row.split()}


UNITS: Final = MappingProxyType(
    _map_to_first_word(
        """
        percent % pct prozent
        points point pp
        millisecond milliseconds ms
        second seconds sec secs s sekunde sekunden
        minute minutes min mins minuten
        hour hours hr hrs h stunde stunden
        day days tag tage tagen
        week weeks woche wochen
        month months monat monate monaten
        quarter quarters
        year years yr yrs jahr jahre jahren
        decade decades
        century centuries
        millimeter millimeters millimetre millimetres mm
        centimeter centimeters centimetre centimetres cm
        meter meters metre metres m
        kilometer kilometers kilometre kilometres km
        inch inches
        foot feet ft
        yard yards
        mile miles mi
        acre acres
        hectare hectares ha
        gram grams g
        kilogram kilograms kilo kilos kg
        tonne tonnes ton tons t
        ounce ounces oz
        pound pounds lb lbs £ gbp
        liter liters litre litres l
        gallon gallons
        dollar dollars $ usd
        euro euros € eur
        cent cents
        yen ¥ jpy
        rupee rupees
        franc francs
        degree degrees °
        celsius °c c
        fahrenheit °f f
        volt volts v
        watt watts w
        kilowatt kilowatts kw
        byte bytes b
        kilobyte kilobytes kb
        megabyte megabytes mb
        gigabyte gigabytes gb
        terabyte terabytes tb
        knot knots
        time times
        person people persons
        """
    )
)
VALUES: Final = MappingProxyType(
    {
        word: value
        for value, word in enumerate(
            split_word_list(
                "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
                "seventeen eighteen nineteen"
            )
        )
    }
    | {
        word: 10 * value
        for value, word in enumerate(
            split_word_list("twenty thirty forty fifty sixty seventy eighty ninety"),
            2,
        )
    }
    | {"dozen": 12}
)
SCALES: Final = MappingProxyType(
    {"hundred": 100, "thousand": 1000, "k": 1000, "million": 10**6, "billion": 10**9, "bn": 10**9, "trillion": 10**12}
)
# Without "first" and "second", which are seldom used for counting.
ORDINALS: Final = MappingProxyType(
    {
        word: value
        for value, word in enumerate(
            split_word_list("third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth"),
            3,
        )
    }
)
MONTHS: Final = MappingProxyType(
    {
        name: number
        for number, row in enumerate(
            (
                "january jan januar",
                "february feb februar",
                "march mar märz",
                "april apr",
                "may mai",
                "june jun juni",
                "july jul juli",
                "august aug",
                "september sep sept",
                "october oct oktober",
                "november nov",
                "december dec dezember",
            ),
            1,
        )
        for name in row.split()
    }
)
WEEKDAYS: Final = MappingProxyType(
    _map_to_first_word(
        """
        monday mondays montag montags
        tuesday tuesdays dienstag dienstags
        wednesday wednesdays mittwoch mittwochs
        thursday thursdays donnerstag donnerstags
        friday fridays freitag freitags
        saturday saturdays samstag samstags
        sunday sundays sonntag sonntags
        """
    )
)
# Conversion to a smaller unit: two weeks and 14 days are the same number of minutes.
BASE_UNITS: Final = MappingProxyType(
    {
        "hour": ("minute", 60),
        "day": ("minute", 24 * 60),
        "week": ("minute", 7 * 24 * 60),
        "year": ("month", 12),
        "decade": ("month", 120),
        "century": ("month", 1200),
    }
)
# Words that may begin a sentence, are no names, and are in no list of function words: first connectives, then
# imperatives.
OPENERS: Final = frozenset(
    split_word_list(
        "however therefore thus moreover furthermore also yes no overall instead today please note everyone everybody "
        "someone anyone nobody people staff finally besides meanwhile otherwise indeed perhaps maybe later together "
        "although though because since while whereas unlike despite according when where if as once until both either "
        "neither another others one two never always often sometimes now then soon still yet even most many several "
        "whoever whatever whenever wherever whether except afterwards beforehand anything everything nothing something "
        "add allow announce answer apply approach arrange ask attach avoid book bring build buy call cancel change "
        "check choose click close collect compare complete confirm connect contact continue copy count create cut "
        "declare delete do email ensure enter explain fill find finish follow forward get give go hand have hold "
        "inform install join keep leave let lift load look make mention move must need notify open order pack page pay "
        "phone place plan press print pull push put read receive record refer remember remove repair replace reply "
        "report request restart return review run save say search see select send set share show sign start stay stop "
        "store submit switch take talk tell telephone throw touch treat try turn update upload use visit wait wash "
        "watch wear work write full half short long large small new old further less more"
    )
)
# Words before a number that make it a lower or an upper bound.
BOUNDS: Final = MappingProxyType(
    {
        "least": r"at least|no less than|no fewer than|not less than|a minimum of|minimum|more than|over|above|exceeds?"
        r"|exceeding|≥|>=|>|mindestens|mehr als",
        "most": r"at most|up to|no more than|not more than|a maximum of|maximum|less than|fewer than|under|below|within"
        r"|≤|<=|<|höchstens|weniger als",
    }
)


def sum_number_words(parts: list[str]) -> int:
    """The value of a sequence of number words."""
    total = part_of = 0
    for part in parts:
        if part in SCALES:
            part_of = max(part_of, 1) * SCALES[part]
            if SCALES[part] > 100:
                total, part_of = total + part_of, 0
        else:
            part_of = part_of * 12 if part == "dozen" and part_of else part_of + VALUES[part]
    return total + part_of
