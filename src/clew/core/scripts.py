"""Scripts and the languages that are written in them."""

from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from types import MappingProxyType
from typing import Final

# The first letter of each block, in order; a block ends where the next begins. "" has no letters that count.
_BLOCKS: Final = (
    (0x0000, "Latn"), (0x0370, "Grek"), (0x0400, "Cyrl"), (0x0530, "Armn"), (0x0590, "Hebr"), (0x0600, "Arab"),
    (0x0700, ""), (0x0750, "Arab"), (0x0780, ""), (0x08A0, "Arab"), (0x0900, "Deva"), (0x0980, "Beng"),
    (0x0A00, "Guru"), (0x0A80, "Gujr"), (0x0B00, "Orya"), (0x0B80, "Taml"), (0x0C00, "Telu"), (0x0C80, "Knda"),
    (0x0D00, "Mlym"), (0x0D80, "Sinh"), (0x0E00, "Thai"), (0x0E80, "Laoo"), (0x0F00, "Tibt"), (0x1000, "Mymr"),
    (0x10A0, "Geor"), (0x1100, "Hang"), (0x1200, "Ethi"), (0x13A0, ""), (0x1780, "Khmr"), (0x1800, "Mong"),
    (0x18B0, ""), (0x1E00, "Latn"), (0x1F00, "Grek"), (0x2000, ""), (0x3005, "Hani"), (0x3008, ""),
    (0x3041, "Kana"), (0x3100, ""), (0x3400, "Hani"), (0xA000, ""), (0xAC00, "Hang"), (0xD7B0, ""),
    (0xF900, "Hani"), (0xFB00, ""), (0x20000, "Hani"), (0x40000, ""),
)  # fmt: skip
# Written without spaces, or with words that particles are attached to.
UNSPACED: Final = frozenset({"Hani", "Kana", "Hang", "Thai", "Laoo", "Khmr", "Mymr"})
UNSPACED_WEIGHT = 3  # a character of these scripts says as much as so many letters
_STARTS: Final = tuple(start for start, _ in _BLOCKS)

# Where one language is the only one of its script, or by far the usual one: that of a word of this script in a text of
# another. What is not here has no language to assume.
USUAL_LANGUAGE: Final = MappingProxyType(
    {
        "Latn": "en", "Grek": "el", "Cyrl": "ru", "Armn": "hy", "Hebr": "he", "Arab": "ar", "Deva": "hi", "Beng": "bn",
        "Guru": "pa", "Gujr": "gu", "Orya": "or", "Taml": "ta", "Telu": "te", "Knda": "kn", "Mlym": "ml", "Sinh": "si",
        "Thai": "th", "Laoo": "lo", "Tibt": "bo", "Mymr": "my", "Geor": "ka", "Hang": "ko", "Ethi": "am", "Khmr": "km",
        "Mong": "mn", "Hani": "zh", "Kana": "ja",
    }
)  # fmt: skip
# The languages of scripts that several share; every other language of the detector is written in Latin letters.
SHARED_SCRIPTS: Final = MappingProxyType(
    {
        "Cyrl": frozenset({"ru", "uk", "bg", "be", "mk", "sr", "kk", "ky", "mn", "tg", "tt"}),
        "Arab": frozenset({"ar", "fa", "ur", "ps", "ckb", "ug", "arz"}),
        "Deva": frozenset({"hi", "mr", "ne", "sa"}),
        "Hebr": frozenset({"he", "yi"}),
    }
)
_SCRIPTS_OF: Final = MappingProxyType(
    {
        **{code: frozenset({script}) for script, code in USUAL_LANGUAGE.items()},
        **{code: frozenset({script}) for script, codes in SHARED_SCRIPTS.items() for code in codes},
        "sr": frozenset({"Cyrl", "Latn"}),
        "zh": frozenset({"Hani"}),
        "ja": frozenset({"Hani", "Kana"}),
        "ko": frozenset({"Hang", "Hani"}),
    }
)
_LATIN: Final = frozenset({"Latn"})


@lru_cache(maxsize=1 << 12)
def find_script(letter: str) -> str:
    """The ISO 15924 code of the script of a letter; "" where it has none of those that are known."""
    return _BLOCKS[bisect_right(_STARTS, ord(letter)) - 1][1]


def list_scripts(language: str) -> frozenset[str]:
    """The scripts that a language is written in."""
    return _SCRIPTS_OF.get(language, _LATIN)


def count_scripts(text: str) -> Counter[str]:
    """How many letters of a text are in each script."""
    if text.isascii():
        return Counter({"Latn": sum(map(str.isalpha, text))})
    return Counter(script for letter in text if letter.isalpha() and (script := find_script(letter)))
