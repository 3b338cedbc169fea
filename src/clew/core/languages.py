"""The languages that are known, by code, and their words (`core/words`) for the analyser."""

from types import MappingProxyType
from typing import Final

from clew.core.words import load_words

# code -> snowball algorithm: every one of PyStemmer.
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
    """The words of a table row."""
    return frozenset(text.split())


# Languages that are told apart and not stemmed, since there is no stemmer for them.
UNSTEMMED: Final = _parse_words(
    "af am az be bg bn bo bs cy gl gu he hr is ka kk km kn ko ky la lo lv mk ml mn mr ms mt my or pa ps si sk sl sq sw "
    "te tg th tl tt ug uk ur uz vi zh ja"
)
LANGUAGES: Final = frozenset(STEMMERS) | UNSTEMMED
# What our embedders know; others may have an attribute `languages`.
EMBEDDER_LANGUAGES: Final = MappingProxyType(
    {
        "bge-small": _parse_words("en"),
        "wordllama": _parse_words("en"),
        "multilingual": _parse_words("ar de en es fr it ja ko nl pl pt ru th tr zh"),
    }
)


def find_known_languages(embedder: object) -> frozenset[str]:
    """The languages that an embedder knows; none where that is not known."""
    found = getattr(embedder, "languages", None) or EMBEDDER_LANGUAGES.get(str(getattr(embedder, "name", "")))
    return frozenset(found or ())


# The languages that rerankers know, by their names; of others it is not known, and "overlap" is no model.
RERANKER_LANGUAGES: Final = MappingProxyType({"ms-marco-minilm": _parse_words("en"), "overlap": _parse_words("")})

FUNCTION_WORDS: Final = MappingProxyType(load_words("function"))
# Words too common to be terms: function words, and those of more languages.
STOP_WORDS: Final = MappingProxyType({**FUNCTION_WORDS, **load_words("stop")})

_SENTENCE: Final = load_words("sentence")
MEANINGFUL_FUNCTION_WORDS: Final = _SENTENCE["meaningful"]
TITLE_ABBREVIATIONS: Final = _SENTENCE["titles"]
NUMBER_ABBREVIATIONS: Final = _SENTENCE["numbers"]
TRAILING_ABBREVIATIONS: Final = _SENTENCE["trailing"]
MONTHS: Final = _SENTENCE["months"]
NAME_PARTICLES: Final = _SENTENCE["particles"]

# Letters, letter groups and endings that are typical of a language, for texts without function words. They are a guess,
# so they only add candidates. A space is the edge of a word. Tuned on German and English questions.
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
