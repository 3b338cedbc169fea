"""Query terms in the languages of the collection.

The language of a few words cannot be detected: "Die Hard" passes for German and "handbook" for Russian. Stored texts
are longer, so their languages are known and the collection counts them. A query is therefore analysed in the main
languages of the collection and in its own: a German question also finds the German name in an English text. If a word
has different terms in several languages, terms that no chunk has are dropped, so that the word counts once per text. On
XQuAD with three languages in one collection, this is as good as analysing each question in its own language alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from itertools import chain
from string import ascii_lowercase

from clew.core.analyse import DEFAULT, UNKNOWN, analyse_query, analyse_text, list_terms
from clew.core.languages import STOP_WORDS, count_scripts, list_scripts, rank_languages
from clew.core.patterns import compile_pattern
from clew.core.protocols import SearchableStore
from clew.core.text import Terms, extract_terms

MAIN_SHARE = 0.05  # share of the chunks from which a language is a main one; other languages are searched …
MIN_MINOR_PROBABILITY = 0.1  # … if a query is this likely in them: a stop word of one language may be a word of another
MAX_LANGUAGES = 8
MAX_CORRECTED = 3  # corrected words per query
MIN_LETTERS = 4  # of a corrected word: shorter words resemble too many others …
MAX_LETTERS = 30  # … and the edits of a longer one are too many: they grow with the square of its length
MIN_REPLACED = 6  # of a word in which any letter may be replaced, added or left out: "paid" is no slip of "aid"
MIN_TWICE = 7  # of a word that may have two errors
MAX_COUNTED = 1_000  # chunks to count per term
MAX_TRIED, MAX_READ = 3, 10  # terms to try for a misspelt word, and chunks in which to look for each
MIN_STOP_WORDS, MIN_PROBABILITY = 2, 0.9  # of a query whose language is certain (stop words: in Latin script)
MIN_LIKELY_WORDS, MIN_LIKELY_PROBABILITY = 3, 0.5  # of a query whose language is likely

NO_WORD = "zqxvkjw"
CountTokens = Callable[[Sequence[str]], list[int]]

_WORD = compile_pattern(r"[^\W\d_]+")


class QueryAnalyser:
    """The analyser of queries to one collection; `language` is the language setting.

    Made for one search or one batch of searches; it caches its results. `count` counts the embedder's tokens of texts.
    """

    def __init__(self, store: SearchableStore, *, language: str, count: CountTokens | None = None) -> None:
        self._store, self._language, self._count = store, language, count
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
        if not languages:  # indexed before languages were recorded
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
        """Replace words that the collection lacks by similar words it has; return the new text, or "" if unchanged.

        From then on, `extract_terms` of this text includes the corrected words, at half weight.
        """
        code, terms = next(iter(self.choose_languages(text)[0]), DEFAULT), self.extract_terms(text)
        words = {word: list_terms(word, code) for word in _WORD.findall(text.casefold()) if _is_correctable(word)}
        own = [(word, made[0]) for word, made in words.items() if len(made) == 1 and made[0] in terms]
        counts = self._store.count_terms([term for _, term in own], at_most=1) if own else []
        absent = [pair for pair, count in zip(own, counts, strict=True) if not count][:MAX_CORRECTED]
        spelt = self._list_known_words([word for word, _ in absent])
        absent = [(word, term) for word, term in absent if word not in spelt]
        found = [(word, term, near) for word, term in absent if (near := self._find_nearest_word(word, code))]
        if not found:
            return ""
        corrected = {term for _, term, _ in found}
        kept = {term: 2 * count for term, count in terms.items() if term not in corrected}
        self._known[text] = kept | {list_terms(near, code)[0]: 1 for *_, near in found}
        return _replace_words(text, [(word, near) for word, _, near in found])

    def _list_known_words(self, words: Sequence[str]) -> set[str]:
        """List the words that are one token of the embedder: it knows them, so they are spelt right.

        An embedder that has a single token for any text knows no words.
        """
        first, *counts = self._count([NO_WORD, *words]) if self._count and words else [1]
        return {word for word, count in zip(words, counts, strict=False) if first > 1 and count == 1}

    def _find_nearest_word(self, word: str, code: str) -> str:
        """Find the word within one edit, or two slips, whose term is in the most chunks; "" if there is none.

        The word must occur in a visible chunk: counts include hidden chunks, and a term may belong to other words.
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
        """Extract the terms of an unindexed text, such as a summary, in the languages of a query."""
        languages, _ = self.choose_languages(query)
        if not languages:
            return extract_terms(text, language=self._language)
        found: dict[str, int] = {}
        for code in languages:
            found |= analyse_text(text, code)
        return found

    def find_foreign_language(self, text: str) -> str:
        """Return the language of a query if it is certain and hardly any text has it, else ""."""
        counts = self._count_languages() if self._language == "auto" else {}
        own = _find_own_language(text) if counts else ""
        known = [DEFAULT if code == UNKNOWN else code for code in _list_main(counts)]
        return "" if own in known else own

    def find_language(self, text: str) -> str:
        """Return the likely language of a query, or "" if it is unclear."""
        return find_likely_language(text) if self._language == "auto" else self._language

    def list_other_languages(self, text: str, known: Set[str]) -> list[str]:
        """List the collection's languages, other than the query's, that an embedder can match to the query.

        `known` are the embedder's languages; empty: it may know all. The list is empty if few texts are in other
        languages, if the query is in no language of the collection, or if the embedder does not know the query's
        language. A query of unclear language may be in any language of its script.
        """
        counts = self._count_languages() if self._language == "auto" else {}
        if len(counts) < 2 or self.find_foreign_language(text):
            return []
        own, scripts = find_likely_language(text), _find_scripts(text)
        possible = {own} if own else {code for code in counts if list_scripts(code) & scripts}
        others = [code for code in counts if code not in possible and code != UNKNOWN]
        is_notable = sum(counts[code] for code in others) >= MAIN_SHARE * sum(counts.values())
        if not is_notable or possible.isdisjoint(counts) or (known and possible.isdisjoint(known)):
            return []
        return [code for code in others if not known or code in known]

    def can_do_without_words(self, text: str, known: Set[str]) -> bool:
        """Return whether an embedder can match a query to texts in other languages, where words cannot.

        True if it knows the query's language, as far as that is clear, and another main language of the collection.
        `known` are the embedder's languages; empty: it may know all.
        """
        counts = self._count_languages() if self._language == "auto" else {}
        own = find_likely_language(text) if counts else ""
        main = {code for code in _list_main(counts) if code != UNKNOWN and (not known or code in known)}
        return (not own or not known or own in known) and len(main | {own or next(iter(main), "")}) > 1

    def choose_languages(self, text: str) -> tuple[tuple[str, ...], str]:
        """Choose the languages to analyse a query in, and its own if certain; none if the collection records none."""
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
    """Return the language of a query: the setting, or if that is "auto", the likely language or else "und"."""
    return find_likely_language(text) or UNKNOWN if setting == "auto" else setting


@lru_cache(maxsize=256)
def find_likely_language(text: str) -> str:
    """Return the certain language of a query or, from three words on, the likely one; "" if there is none."""
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
    """List the main languages of a collection, most frequent first."""
    by_count = sorted(counts, key=lambda code: (-counts[code], code))
    return [code for code in by_count if counts[code] >= MAIN_SHARE * sum(counts.values())]


@lru_cache(maxsize=256)
def _find_own_language(text: str) -> str:
    """Return the language of a query if it is certain, else "".

    In Latin script, stop words must confirm the detector. A query with English stop words only skips the detector.
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
    """List the words at one edit from a word; at one slip from a short word.

    Damerau, "A Technique for Computer Detection and Correction of Spelling Errors", 1964.
    """
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)] if len(word) >= MIN_REPLACED else []
    replaced = [a + letter + b[1:] for a, b in splits if b for letter in ascii_lowercase]
    inserted = [a + letter + b for a, b in splits for letter in ascii_lowercase]
    return [*dict.fromkeys([*_slip(word), *replaced, *inserted])]


def _list_two_edits(word: str) -> list[str]:
    """List the words at two slips from a long word: letters left out, doubled, or swapped with the next one.

    The first letter stays: few slips are there, and "action" is none of "vacation".
    """
    found = (twice for once in _slip(word) for twice in _slip(once) if twice[:1] == word[:1])
    return [*dict.fromkeys(found)] if len(word) >= MIN_TWICE else []


def _slip(word: str) -> Iterator[str]:
    """Yield the words with a letter left out (of a short word only a doubled one), doubled or swapped with the next."""
    for at in range(len(word)):
        if len(word) >= MIN_REPLACED or word[at] == word[at - 1 : at]:
            yield word[:at] + word[at + 1 :]
        yield word[: at + 1] + word[at:]
        yield word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]


def _is_correctable(word: str) -> bool:
    """Return whether a word is neither short nor very long, and all ASCII: edits of others are mostly other words."""
    return MIN_LETTERS <= len(word) <= MAX_LETTERS and word.isascii() and word.isalpha()


def _replace_words(text: str, words: Sequence[tuple[str, str]]) -> str:
    """Replace whole words of a text, ignoring case."""
    nearest = dict(words)
    return " ".join(_WORD.sub(lambda found: nearest.get(found[0].casefold(), found[0]), text).split())
