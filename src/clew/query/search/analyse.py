"""The terms of a query, in the languages that the collection has.

A few words do not tell their language: the detector takes "Die Hard" for German and "handbook" for Russian. A stored
text is longer, so its language is known, and the collection counts them. A query is therefore analysed in the main
languages of the collection, and in its own: a German question also finds the German name in an English text. Of the
terms that a word has in several languages, those that no chunk has are left out, so that it counts once in each text.
On XQuAD in three languages in one collection, this is as good as analysing each question in its own language alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from itertools import chain
from string import ascii_lowercase

from clew.core.analyse import DEFAULT, UNKNOWN, analyse_query, analyse_text, list_terms
from clew.core.languages import STOP_WORDS, count_scripts, list_scripts, rank_languages
from clew.core.patterns import compile_pattern
from clew.core.protocols import SearchableStore
from clew.core.text import Terms, extract_terms

MAIN_SHARE = 0.05  # of the chunks: a language with fewer is searched if the query may be in it,
MIN_MINOR_PROBABILITY = 0.1  # at least with this: in two languages a stop word of one is a word of the other
MAX_LANGUAGES = 8
MAX_CORRECTED = 3  # words of a query
MIN_LETTERS = 4  # of a word that is corrected: shorter ones are like too many others, …
MIN_REPLACED = 6  # … and so are those of which any letter may be another, or too much ("paid" is no slip of "aid")
MIN_TWICE = 7  # of one that may have two errors
MAX_COUNTED = 1_000  # chunks that have a word
MAX_TRIED, MAX_READ = 3, 10  # terms that a word may be meant for, and chunks in which each is looked for
MIN_STOP_WORDS, MIN_PROBABILITY = 2, 0.9  # of a query that is sure to be in one of several languages of a script
MIN_LIKELY_WORDS, MIN_LIKELY_PROBABILITY = 3, 0.5  # of one that is likely to be

_WORD = compile_pattern(r"[^\W\d_]+")


class QueryAnalyser:
    """Makes the terms of queries to one collection; `language` is that of the settings.

    It is made for one search, or one batch of them: what it has found out once it keeps.
    """

    def __init__(self, store: SearchableStore, *, language: str) -> None:
        self._store, self._language = store, language
        self._known: dict[str, Terms] = {}
        self._chosen: dict[str, tuple[tuple[str, ...], str]] = {}
        self._counts: Mapping[str, int] | None = None

    def extract_terms(self, text: str) -> Terms:
        """Extract the terms of a query and how often each occurs in it."""
        terms = self._known.get(text)
        if terms is None:
            terms = self._known[text] = self._extract_terms(text)
        return terms

    def _extract_terms(self, text: str) -> Terms:
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

    def correct(self, text: str) -> str:
        """Correct words that the collection lacks to words like them that it has; "" if none is corrected.

        From then on the corrected words are among its terms, at half the weight of the others.
        """
        code, terms = next(iter(self.choose_languages(text)[0]), DEFAULT), self.extract_terms(text)
        words = {word: list_terms(word, code) for word in _WORD.findall(text.casefold()) if _is_correctable(word)}
        own = [(word, made[0]) for word, made in words.items() if len(made) == 1 and made[0] in terms]
        counts = self._store.count_terms([term for _, term in own], at_most=1) if own else []
        absent = [pair for pair, count in zip(own, counts, strict=True) if not count][:MAX_CORRECTED]
        found = [(word, term, near) for word, term in absent if (near := self._find_nearest_word(word, code))]
        if not found:
            return ""
        corrected = {term for _, term, _ in found}
        kept = {term: 2 * count for term, count in terms.items() if term not in corrected}
        self._known[text] = kept | {list_terms(near, code)[0]: 1 for *_, near in found}
        return _replace_words(text, [(word, near) for word, _, near in found])

    def _find_nearest_word(self, word: str, code: str) -> str:
        """Find the word within one edit, or two slips, whose term most chunks have, as it is written; "" if none is.

        It is read in the chunks that may be seen: counts are of hidden ones too, and a term may be of other words.
        """
        for edits in (_list_edits(word), _list_two_edits(word)):
            terms = {edit: made[0] for edit in edits if len(made := list_terms(edit, code)) == 1}
            counts = self._store.count_terms(list(terms.values()), at_most=MAX_COUNTED) if terms else []
            having = sorted({(-count, term) for term, count in zip(terms.values(), counts, strict=True) if count})
            for _, term in having[:MAX_TRIED]:
                hits = self._store.search_terms({term: 1}, MAX_READ)
                written = {each for hit in hits for each in _WORD.findall(hit.chunk.index_text.casefold())}
                if near := next((edit for edit in edits if terms.get(edit) == term and edit in written), ""):
                    return near
        return ""

    def extract_terms_to_compare(self, text: str, query: str) -> Terms:
        """Extract the terms of a text that is not stored, as a summary, in the languages of a query."""
        languages, _ = self.choose_languages(query)
        if not languages:
            return extract_terms(text, language=self._language)
        found: dict[str, int] = {}
        for code in languages:
            found |= analyse_text(text, code)
        return found

    def is_foreign(self, text: str) -> bool:
        """Return whether a query is surely in a language that hardly any text is in: they share names at most."""
        counts = self._count_languages() if self._language == "auto" else {}
        own = _find_own_language(text) if counts else ""
        known = [DEFAULT if code == UNKNOWN else code for code in _list_main(counts)]
        return bool(own) and own not in known

    def find_language(self, text: str) -> str:
        """Find the language that a query is likely in; "" if there is no telling."""
        return find_likely_language(text) if self._language == "auto" else self._language

    def list_other_languages(self, text: str, known: Set[str]) -> list[str]:
        """List the languages of the collection that a query is not in and that an embedder knows with the query's own.

        None if they are few, or the query is in none of the collection's. `known` are the languages of the embedder,
        empty if it may know all. A query of which the language is not clear may be in any that is written like it.
        """
        counts = self._count_languages() if self._language == "auto" else {}
        if len(counts) < 2 or self.is_foreign(text):
            return []
        own, scripts = find_likely_language(text), _find_scripts(text)
        possible = {own} if own else {code for code in counts if list_scripts(code) & scripts}
        others = [code for code in counts if code not in possible and code != UNKNOWN]
        is_notable = sum(counts[code] for code in others) >= MAIN_SHARE * sum(counts.values())
        if not is_notable or possible.isdisjoint(counts) or (known and possible.isdisjoint(known)):
            return []
        return [code for code in others if not known or code in known]

    def can_do_without_words(self, text: str, known: Set[str]) -> bool:
        """Return whether an embedder that knows these languages, or any if none, finds more than a query's own.

        It knows the query's, as far as that is clear, and another main language of the collection.
        """
        counts = self._count_languages() if self._language == "auto" else {}
        own = find_likely_language(text) if counts else ""
        main = {code for code in _list_main(counts) if code != UNKNOWN and (not known or code in known)}
        return (not own or not known or own in known) and len(main | {own or next(iter(main), "")}) > 1

    def choose_languages(self, text: str) -> tuple[tuple[str, ...], str]:
        """Choose the languages to analyse a query in, and its own if that is sure; none if the collection has none."""
        if text not in self._chosen:
            self._chosen[text] = self._choose_languages(text)
        return self._chosen[text]

    def _choose_languages(self, text: str) -> tuple[tuple[str, ...], str]:
        if self._language != "auto":
            return (self._language,), self._language
        counts = self._count_languages()
        if not counts:
            return (), ""
        own = _find_own_language(text)
        if counts.keys() <= {DEFAULT, UNKNOWN}:
            return (DEFAULT,), own
        scripts = _find_scripts(text)
        main = [code for code in _list_main(counts) if list_scripts(code) & scripts][:MAX_LANGUAGES]
        likely = [code for code, share in _rank_languages(text) if code in counts and share >= MIN_MINOR_PROBABILITY]
        chosen = [*([own] if own in counts else []), *main, *likely, *([UNKNOWN] if UNKNOWN in counts else [])]
        chosen = chosen or _list_main(counts)[:1]
        return tuple(dict.fromkeys(DEFAULT if code == UNKNOWN else code for code in chosen)), own

    def _count_languages(self) -> Mapping[str, int]:
        if self._counts is None:
            self._counts = self._store.language_counts()
        return self._counts


def find_query_language(text: str, setting: str) -> str:
    """Find the language of a query: that of the setting unless it is "auto"; "und" where none is likely."""
    return find_likely_language(text) or UNKNOWN if setting == "auto" else setting


@lru_cache(maxsize=256)
def find_likely_language(text: str) -> str:
    """Find the language of a query that is sure or, of some words together, likely; "" if there is none."""
    own = _find_own_language(text)
    if own or len(_WORD.findall(text)) < MIN_LIKELY_WORDS:
        return own
    return next((code for code, probability in _rank_languages(text) if probability >= MIN_LIKELY_PROBABILITY), "")


@lru_cache(maxsize=256)
def _rank_languages(text: str) -> tuple[tuple[str, float], ...]:
    return tuple(rank_languages(text))


@lru_cache(maxsize=256)
def _find_scripts(text: str) -> frozenset[str]:
    return frozenset(count_scripts(text))


def _list_main(counts: Mapping[str, int]) -> list[str]:
    """List the main languages of a collection, most first."""
    by_count = sorted(counts, key=lambda code: (-counts[code], code))
    return [code for code in by_count if counts[code] >= MAIN_SHARE * sum(counts.values())]


@lru_cache(maxsize=256)
def _find_own_language(text: str) -> str:
    """Find the language of a query that is sure; "" if it is not.

    In Latin letters it takes stop words, too. A query that has those of English alone is not shown to the detector.
    """
    words = set(_WORD.findall(text.casefold()))
    languages = _map_stop_words()
    known = Counter(chain.from_iterable(languages[word] for word in words & languages.keys()))
    stated = {code for code, count in known.items() if count >= MIN_STOP_WORDS}
    if _find_scripts(text) <= {"Latn"} and stated <= {DEFAULT}:
        return DEFAULT if stated else ""
    ranked = _rank_languages(text)
    if not ranked or ranked[0][1] < MIN_PROBABILITY:
        return ""
    code = ranked[0][0]
    return code if "Latn" not in list_scripts(code) or code in stated else ""


@cache
def _map_stop_words() -> Mapping[str, Sequence[str]]:
    """Map each stop word to the languages in which it is one."""
    languages: dict[str, list[str]] = {}
    for code, words in STOP_WORDS.items():
        for word in words:
            languages.setdefault(word, []).append(code)
    return languages


def _list_edits(word: str) -> list[str]:
    """List the words at one edit from a word, a short one at one slip.

    Damerau, "A Technique for Computer Detection and Correction of Spelling Errors", 1964.
    """
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)] if len(word) >= MIN_REPLACED else []
    replaced = [a + letter + b[1:] for a, b in splits if b for letter in ascii_lowercase]
    inserted = [a + letter + b for a, b in splits for letter in ascii_lowercase]
    return [*dict.fromkeys([*_slip(word), *replaced, *inserted])]


def _list_two_edits(word: str) -> list[str]:
    """List the words at two slips from a word: letters left out, doubled, or exchanged with the next one."""
    return [*dict.fromkeys(twice for once in _slip(word) for twice in _slip(once))] if len(word) >= MIN_TWICE else []


def _slip(word: str) -> Iterator[str]:
    """Return the words with one letter less (of a short one, only if it is doubled), one doubled, or two exchanged."""
    for at in range(len(word)):
        if len(word) >= MIN_REPLACED or word[at] == word[at - 1 : at]:
            yield word[:at] + word[at + 1 :]
        yield word[: at + 1] + word[at:]
        yield word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]


def _is_correctable(word: str) -> bool:
    """Return whether a word is one of letters that people mistype: in others, an edit is mostly another word."""
    return len(word) >= MIN_LETTERS and word.isascii() and word.isalpha()


def _replace_words(text: str, words: Sequence[tuple[str, str]]) -> str:
    """Replace words in a text, whatever their case."""
    spoken = text.split()
    for old, new in words:
        spoken = [each.lower().replace(old, new) if old in each.lower() else each for each in spoken]
    return " ".join(spoken)
