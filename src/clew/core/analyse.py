"""The analyser: the terms of a stored text in its language, and of a query in all languages of a collection.

It runs for each chunk that is written and each query, so that lexical search is the same in every store.
`clew.core.text` splits texts into tokens and their parts. Then, by language and script:

- A word is stemmed by the Snowball stemmer of its language, if there is one, and loses its diacritics. A word in
  another script than the text's is stemmed in the usual language of that script.
- Han characters are terms, and so are bigrams of Han and kana (on XQuAD zh .971, against .963 for bigrams alone and
  .964 for the words of jieba). Hangul is split into bigrams.
- Thai and other alphabets without spaces are split into 3- and 4-grams. In a test on German and English without spaces
  these found as much as words did; bigrams were far worse (-14 and -23 nDCG points).
- Turkish has a dotted and a dotless i, and an apostrophe before the endings of names.
- Vietnamese words differ by tone marks, but are often typed without. Both forms are terms, so that a query without
  marks finds either.

A stored text also has a term for its language, by which a store counts chunks per language.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain

from clew.core.languages import (
    MEANINGFUL_FUNCTION_WORDS,
    STEMMERS,
    STOP_WORDS,
    USUAL_LANGUAGE,
    find_script,
    list_scripts,
)
from clew.core.memo import Memo
from clew.core.patterns import compile_pattern
from clew.core.text import (
    TOKEN,
    expand_token,
    expand_word,
    fold_plain_word,
    split_bigrams,
    split_runs,
    stem_word,
    strip_diacritics,
)

UNKNOWN = "und"  # the ISO 639 code for an unknown language, analysed as English
DEFAULT = "en"
_TURKIC = frozenset({"tr", "az"})
_TURKISH_I = str.maketrans({"İ": "i", "I": "ı"})
_ALPHABETIC = "\u0e01-\u109f\u1780-\u17d3"  # scripts without spaces whose signs are letters: Thai, Lao, Burmese, Khmer
_PART = compile_pattern(rf"([{_ALPHABETIC}]+)|([\uac00-\ud7af]+)|([^{_ALPHABETIC}\uac00-\ud7af]+)")
_GRAMS = (3, 4)
_MAX_WORD_CHARS = 64  # longest word whose terms are cached
_UNMARKED = "~"  # prefix of a Vietnamese word without its marks; no other term has it


def make_language_term(code: str) -> str:
    """Make the term that marks every chunk of a language; no word looks like it."""
    return f"language:{code}"


def analyse_text(text: str, language: str) -> dict[str, int]:
    """Count the terms of a stored text in a language; not empty if the text has a letter or digit."""
    language = DEFAULT if language == UNKNOWN else language
    if found := Counter(list_terms(text, language)):
        return found
    return dict(Counter(map(strip_diacritics, _list_pieces(text, language))) or Counter(filter(str.isalnum, text)))


def list_terms(text: str, language: str) -> list[str]:
    """List the terms of a text in a language, repeated as they occur; empty if it has only stop words."""
    spaced, runs = split_runs(text)
    words = spaced.replace(", ", " ").replace(". ", " ").split()  # one cache entry with and without a comma
    found = list(chain.from_iterable(map(_get_term_table(language).__getitem__, words)))
    if runs:
        found += _make_terms(chain.from_iterable(map(_split_run, runs)), language)
    return found


@cache
def _get_term_table(language: str) -> Memo[str, tuple[str, ...]]:
    def make(word: str) -> tuple[str, ...]:
        if is_plain and (piece := fold_plain_word(word)):
            return (term,) if (term := _make_term(piece, language)) else ()
        return tuple(_make_terms(_expand(word, language), language))

    is_plain = language not in _TURKIC  # elsewhere an ASCII word is one piece, in lower case, without marks
    return Memo(make, max_key=_MAX_WORD_CHARS)


def _make_terms(pieces: Iterable[str], language: str) -> Iterator[str]:
    for piece in pieces:
        if term := _make_term(piece, language):
            yield term
            if language == "vi" and not term.isascii() and find_script(piece[0]) == "Latn":
                yield _UNMARKED + strip_diacritics(piece)


def analyse_query(text: str, languages: Sequence[str], *, own: str = "") -> Counter[tuple[str, ...]]:
    """Count the words of a query, each as the tuple of its terms in the languages.

    Stop words of all these languages, or of the query's `own` language, are left out.
    """
    codes = [*dict.fromkeys(DEFAULT if code == UNKNOWN else code for code in languages)] or [DEFAULT]
    by_language = [list(_list_pieces(text, code)) for code in codes]
    is_aligned = len({len(pieces) for pieces in by_language}) == 1
    words = (
        [list(zip(pieces, codes, strict=True)) for pieces in zip(*by_language, strict=True)]
        if is_aligned
        else [[(piece, code)] for pieces, code in zip(by_language, codes, strict=True) for piece in pieces]
    )
    groups = (_make_variants(word, own, is_marked=not text.isascii()) for word in words)
    found = Counter(group for group in groups if group)
    found = found or Counter((strip_diacritics(word[0][0]),) for word in words)
    return found or Counter((letter,) for letter in text if letter.isalnum())


def _make_variants(word: Sequence[tuple[str, str]], own: str, *, is_marked: bool) -> tuple[str, ...]:
    """Make the distinct terms of a word in its languages; empty for a stop word."""
    if own and not _make_term(word[0][0], own):
        return ()
    terms = [term for piece, code in word if (term := _make_term(piece, code))]
    if not is_marked and any(code == "vi" for _, code in word):
        terms += [_UNMARKED + piece for piece, code in word if code == "vi" and _make_term(piece, code)]
    return tuple(dict.fromkeys(terms))


def _list_pieces(text: str, language: str) -> Iterator[str]:
    """Yield the case-folded pieces of every token, and of text without spaces."""
    spaced, runs = split_runs(text)
    for word in spaced.split():
        yield from _expand(word, language)
    for run in runs:
        yield from _split_run(run)


def _expand(word: str, language: str) -> Iterable[str]:
    """Expand a string without spaces to the pieces of its tokens."""
    if language in _TURKIC:
        return chain.from_iterable(map(_expand_turkic, TOKEN.findall(word)))
    return expand_word(word)


@lru_cache(maxsize=1 << 12)
def _expand_turkic(token: str) -> tuple[str, ...]:
    """Expand a Turkish token to its pieces; a name loses its ending (İstanbul'da)."""
    head, *ending = re.split("['’]", token, maxsplit=1)
    return expand_token((head if ending and len(head) > 1 else token).translate(_TURKISH_I))


def _split_run(run: str) -> Iterator[str]:
    """Split a run of letters without spaces into terms, by script."""
    for letters, hangul, han in _PART.findall(run):
        if letters:
            yield from (letters[i : i + size] for size in _GRAMS for i in range(len(letters) - size + 1))
            if len(letters) < min(_GRAMS):
                yield letters
        elif hangul:
            yield from split_bigrams(hangul)
        else:
            yield from (letter for letter in han if find_script(letter) == "Hani")
            if len(han) > 1 or find_script(han) != "Hani":
                yield from split_bigrams(han)


@lru_cache(maxsize=1 << 16)
def _make_term(piece: str, language: str) -> str:
    """Make the term of a piece in a text of a language; empty for a stop word."""
    script = find_script(piece[0])
    if script not in list_scripts(language):
        language = USUAL_LANGUAGE.get(script, "")
    if piece in STOP_WORDS.get(language, ()) and piece not in MEANINGFUL_FUNCTION_WORDS:
        return ""
    if language == "vi":
        return piece
    return strip_diacritics(stem_word(piece, language) if language in STEMMERS else piece)
