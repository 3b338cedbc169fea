"""The terms of a query, in the languages that the collection has.

A few words do not tell their language: the detector takes "Die Hard" for German and "handbook" for Russian. A stored
text is longer, so its language is known, and the collection counts them. A query is therefore analysed in the main
languages of the collection, and where it is long enough to be sure of in one of these alone. Of the terms that a word
has in several languages, those that no chunk has are left out, so that a word counts once and finds the texts of each.
"""

import re
from collections import Counter

from clew.core.analyse import DEFAULT, UNKNOWN, analyse_query, analyse_text
from clew.core.detect import rank_languages
from clew.core.protocols import Store
from clew.core.scripts import count_scripts, list_scripts
from clew.core.stop_words import STOP_WORDS
from clew.core.text import Terms, extract_terms

MAIN_SHARE = 0.05  # of the chunks: a language with fewer is searched if the query is in it
MAX_LANGUAGES = 8
MIN_STOP_WORDS, MIN_PROBABILITY = 2, 0.9  # of a query that is sure to be in one of several languages of a script


_WORD = re.compile(r"[^\W\d_]+")


class QueryAnalyser:
    """Makes the terms of queries to one collection; `language` is that of the settings."""

    def __init__(self, store: Store, *, language: str) -> None:
        self._store, self._language = store, language

    def extract_terms(self, text: str) -> Terms:
        """The terms of a query and how often each occurs in it."""
        languages, own = self.choose_languages(text)
        if not languages:  # indexed before languages were kept
            return extract_terms(text, language=self._language, is_query=True)
        words = analyse_query(text, languages, own=own)
        unsure = sorted({term for terms in words if len(terms) > 1 for term in terms})
        counts = self._store.count_terms(unsure, at_most=1) if unsure else []
        absent = {term for term, count in zip(unsure, counts, strict=True) if not count}
        found = Counter[str]()
        for terms, count in words.items():
            for term in [term for term in terms if term not in absent] or terms[:1]:
                found[term] += count
        return found

    def extract_text_terms(self, text: str, query: str) -> Terms:
        """The terms of a text that is not stored, as a summary, in the languages of a query to compare it with."""
        languages, _ = self.choose_languages(query)
        if not languages:
            return extract_terms(text, language=self._language)
        found: dict[str, int] = {}
        for code in languages:
            found |= analyse_text(text, code)
        return found

    def choose_languages(self, text: str) -> tuple[tuple[str, ...], str]:
        """The languages to analyse a query in, and its own where that is sure; none if the collection has none."""
        if self._language != "auto":
            return (self._language,), self._language
        counts = self._store.language_counts()
        if not counts:
            return (), ""
        total = sum(counts.values())
        if counts.keys() <= {DEFAULT, UNKNOWN}:
            return (DEFAULT,), ""
        main = [
            code
            for code in sorted(counts, key=lambda code: (-counts[code], code))
            if counts[code] >= MAIN_SHARE * total
        ]
        ranked = rank_languages(text)
        own = ranked[0][0] if ranked and ranked[0][1] >= MIN_PROBABILITY and _has_stop_words(text, ranked[0][0]) else ""
        if own in main:
            chosen = [own]
        else:
            scripts = set(count_scripts(text))
            readable = [code for code in main if code == UNKNOWN or list_scripts(code) & scripts]
            chosen = [*readable[:MAX_LANGUAGES], *(code for code, _ in ranked if code in counts)] or main[:1]
        chosen += [UNKNOWN] if UNKNOWN in counts else []
        return tuple(dict.fromkeys(DEFAULT if code == UNKNOWN else code for code in chosen)), own


def _has_stop_words(text: str, language: str) -> bool:
    """Whether a text has so many stop words of a language, or needs none, since its script tells the language."""
    if "Latn" not in list_scripts(language):
        return True
    return len(STOP_WORDS.get(language, frozenset()).intersection(_WORD.findall(text.casefold()))) >= MIN_STOP_WORDS
