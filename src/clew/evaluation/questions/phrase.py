"""Headings and titles as people ask for them: "Swapping" of "On-call rotation" is "How does swapping work in …?".

English alone: a heading in another language stays as it is, and is asked as key words.
"""

import re
from collections import Counter

from clew.core.detect import detect_language
from clew.core.text import extract_terms, tokenize_words

MIN_TERMS = 3  # of a heading that says what it is about by itself


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASKS = _list_words(
    "how what when where which who whom whose why whether is are can may do does should must could will was were"
)
_TO = {
    "how": "How do I",
    "what": "What should I",
    "when": "When should I",
    "where": "Where do I",
    "which": "Which do I",
}
_BEFORE = _list_words("about after at before behind between by during for from if on under until when while with")
_VERBS = _list_words(
    "add adopt allow apply ask assign attach avoid become build buy cancel choose clean close collect combine "
    "compare configure connect convert create customise customize debug define delete deploy describe detect "
    "disable edit enable ensure evaluate extend fetch find fix generate get give go handle hide improve include "
    "inject inspect install integrate invite keep learn make manage measure merge migrate monitor move optimise "
    "optimize organise organize override pick prepare prevent protect provide publish reach read recover reduce "
    "register remove rename render renew replace require reset restart restore reuse rotate run save secure "
    "select send separate serve set specify submit synchronise synchronize tell understand uninstall validate "
    "verify write"
)
# These are nouns, too, unless something like an article comes after them.
_NOUN_OR_VERB = _list_words(
    "access back book call change check control copy download export format help import limit list load log open "
    "order pass pay plan print query release report request return review scale schedule search share show sign "
    "start stop store stream support switch test track train transfer try turn update upgrade upload use view "
    "watch work"
)
_AFTER_VERB = _list_words("a all an any each every for from in it my on our one out the these to up with your")
_NO_GERUNDS = _list_words(
    "bring building ceiling during evening everything king meeting morning nothing offering ring something "
    "spring string thing wedding"
)
# Headings that say where in a page something is, and nothing of what.
_STRUCTURE = _list_words(
    "abstract also acknowledgements acknowledgments actions appendix background basics changelog changes comments "
    "conclusion conclusions contents credits description detail details example examples faq further general "
    "index info information introduction intro links list lists misc miscellaneous more note notes other others "
    "overview preamble preface readme reading reference references related remarks resources result results see "
    "summary table terms text tips title tldr todo usage"
)
_ENGLISH = re.compile(r"[a-z']+", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def says_something(heading: str) -> bool:
    """Whether a heading names something that can be asked for: not "Overview", a version, a date or an identifier."""
    words = [word.casefold() for word in tokenize_words(heading)]
    told = [word for word in words if len(word) > 2 and word.isalpha() and word not in _STRUCTURE]
    is_code = len(heading.split()) == 1 and (heading[:1].islower() or not heading.replace("-", "").isalpha())
    return bool(told) and not is_code


def phrase_heading(heading: str, above: str, text: str) -> str:
    """The question that a heading below another one asks in English, or the heading after the other where it is not.

    `above` is named where the heading says little by itself. Words that the text writes small are written so.
    """
    terms = extract_terms(heading).keys()
    above = above if len(terms) < MIN_TERMS and not extract_terms(above).keys() <= terms else ""
    if detect_language(f"{heading}\n{text}"[:600]) != "en" or not _ENGLISH.match(heading):
        return f"{above}: {heading}" if above else heading
    heading, *rest = heading.rstrip(" .:").partition("?")
    asked = heading + "".join(rest[:1]) if rest[0] else ""
    written = Counter(_WORD.findall(text))
    phrase, place = _write_small(heading, written), _write_small(above, written)
    suffix = f" in {place}?" if place else "?"
    if asked:
        return f"{asked[:-1]}{suffix}"
    first, _, others = phrase.partition(" ")
    word, second = first.casefold(), others.partition(" ")[0]
    if second == "to" and word in _TO:
        return f"{_TO[word]}{others[2:]}{suffix}"
    if word in _ASKS:
        return f"{first[:1].upper()}{phrase[1:]}{suffix}"
    if word.endswith("ing") and len(word) > 4 and word not in _NO_GERUNDS:
        return f"How does {_lower_first(phrase)} work{suffix}"
    if others and (word in _VERBS or (word in _NOUN_OR_VERB and second.casefold() in _AFTER_VERB)):
        return f"How do I {_lower_first(phrase)}{suffix}"
    return f"What {'happens' if word in _BEFORE else 'about'} {phrase}{suffix}"


def _write_small(phrase: str, written: Counter[str]) -> str:
    """The phrase with the words small that the text mostly writes so; names and abbreviations stay."""
    return " ".join(
        word.lower()
        if word[1:].islower() and written[word.strip(",;").lower()] >= max(1, written[word.strip(",;")])
        else word
        for word in phrase.split()
    )


def _lower_first(phrase: str) -> str:
    return phrase if phrase[:2].isupper() else phrase[:1].lower() + phrase[1:]
