"""Text to terms, words and tokens, for every chunker and scorer.

`extract_terms` makes terms for comparing two texts, such as an answer with its sources. `clew.core.analyse` makes the
index terms, from the same tokens but in the known language of a text. `extract_terms` works in these steps:

1. Unicode is composed (NFKC); scripts without spaces are separated and split into character bigrams.
2. One regular expression finds tokens; an identifier is one token (`ingest.max_skew_ms`, `E-4417`, `bob@example.com`).
3. A token is expanded into pieces: itself and, if it is compound, its parts at every level, each joined without
   separators. So `E4417` finds `E-4417`, and `maxSkewMs` finds `max_skew_ms` with a higher score than `max` alone.
4. Pieces are stemmed in the language of the text, and function words are dropped. Diacritics are stripped last, because
   the stemmers need them.

The language is guessed from function words. A short query with too few of them gets the stems of every likely language.
Collections that were indexed with these terms, before chunks had a language, are still searched with them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from threading import Lock

import Stemmer

from clew.core.errors import SettingsError
from clew.core.languages import FUNCTION_WORDS, MEANINGFUL_FUNCTION_WORDS, STEMMERS, guess_languages
from clew.core.patterns import compile_pattern
from clew.core.unicode import compose

Terms = Mapping[str, int]  # term frequencies

# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, Kana, Han; and Hangul, which attaches particles to words.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u3005-\u3007\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs are part of a word in the Indic scripts, but `\w` does not match them.
_VOWEL_SIGNS = "\u0300-\u036f\u0900-\u0963\u0971-\u0dff\u0f18-\u0f39\u0f71-\u0fbc"
UNSPACED_RUN = compile_pattern(f"[{_UNSPACED}]+")
_WORD = rf"[\w{_VOWEL_SIGNS}]++"
TOKEN = compile_pattern(
    rf"(?:https?://(?:www\.)?)?"  # the scheme of a URL is not a term
    rf"({_WORD}(?:(?=[.\-'’‐@/\\:,])(?:[.\-'’‐@/\\]|::?|(?<=\d),(?=\d\d\d(?!\d))){_WORD})*+(?:(?:\+\+|#)(?!\w))?)"
)
_PLAIN_WORD = compile_pattern(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_VOWEL_SIGNS}](?:(?<=\d)[.,](?=\d))?)+")
_SEPARATOR_LEVELS = tuple(map(re.compile, (r"[/\\@:]+", r"(?<!\d)\.|\.(?!\d)", r"[-‐_]+")))
_SEPARATORS = compile_pattern(r"[-‐_/\\@:]+|(?<!\d)\.|\.(?!\d)")
_CAMEL = compile_pattern(r"\d+(?:\.\d+)*|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGITS_OR_LETTERS = compile_pattern(r"\d+(?:\.\d+)*|\D+")
_PLURAL_ACRONYM = compile_pattern(r"[A-Z]{2,}s")  # APIs, not AP and Is
_ELISIONS = frozenset({"all", "dall", "dell", "nell", "sull", "quell", "quest", "jusqu", "lorsqu", "puisqu", "quelqu"})
_DIACRITICS = dict.fromkeys([*range(0x300, 0x370), *range(0x591, 0x5C8), *range(0x64B, 0x660), 0x670, 0x640])
_BASE_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"})
_MAX_TERM_LENGTH = 64  # characters; nobody searches for longer tokens

# In these scripts the letters of a word decide the stemmer: Greek, Cyrillic, Armenian, Arabic, Devanagari, Tamil.
_SCRIPTS = (
    ("\u0370", "\u03ff", "el"),
    ("\u0400", "\u052f", "ru"),
    ("\u0531", "\u058f", "hy"),
    ("\u0600", "\u06ff", "ar"),
    ("\u0900", "\u097f", "hi"),
    ("\u0b80", "\u0bff", "ta"),
)

_stemmers: dict[str, Stemmer.Stemmer] = {}
_lock = Lock()


def extract_terms(text: str, *, language: str = "auto", is_query: bool = False) -> dict[str, int]:
    """Count the terms of a text; not empty if the text has a letter or digit.

    A stored text is stemmed in one language, English if none is detected. A query is stemmed in every likely language,
    so that it matches the stored text either way.
    """
    if language != "auto" and language not in STEMMERS:
        raise SettingsError(f"language {language!r} is not known; it may be auto, {', '.join(STEMMERS)}")
    pieces = _split_pieces(text)
    languages = guess_languages(pieces) if language == "auto" else (language,)
    if not is_query:
        languages = languages[:1]
    return _count_stems(text, pieces, languages)


def _count_stems(text: str, pieces: Sequence[str], languages: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for piece, count in Counter(pieces).items():
        for stem in _stem_piece(piece, languages):
            found[stem] = found.get(stem, 0) + count
    # Keep function words if there is nothing else ("who are you"); composition may remove a lone odd letter.
    return found or dict(Counter(map(strip_diacritics, pieces)) or Counter(filter(str.isalnum, text)))


def tokenize_words(text: str) -> list[str]:
    """Split a text into words: case-folded, no diacritics, not stemmed; bigrams for scripts without spaces."""
    plain = _PLAIN_WORD.findall(strip_diacritics(compose(text).casefold()).replace("_", " "))
    return list(chain.from_iterable(split_bigrams(word) if UNSPACED_RUN.match(word) else (word,) for word in plain))


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens as a quarter of the characters, rounded up."""
    return -(-len(text) // 4)


def prepend_headings(headings: Sequence[str], text: str) -> str:
    """Put headings before a text, joined by colons: the deepest ones, up to the first with more than one word.

    One word ("Example", "Setup") needs the heading above it; two ("Quick Start", "OAuth 2.0") already name a subject.
    """
    return _join_headings(tuple(headings)) + text


@lru_cache(maxsize=1 << 10)  # all chunks of a section share their headings
def _join_headings(headings: tuple[str, ...]) -> str:
    chosen: list[str] = []
    for heading in filter(str.strip, reversed(headings)):
        chosen.insert(0, heading)
        if len(tokenize_words(heading)) > 1:
            break
    return "".join(f"{heading}: " for heading in chosen)


def _split_pieces(text: str) -> list[str]:
    """Split a text into the case-folded pieces of every token."""
    words, bigrams = split_words(text)
    return [*chain.from_iterable(map(expand_word, words)), *bigrams]


def split_words(text: str) -> tuple[list[str], list[str]]:
    """Split a text at spaces; return the bigrams of runs in scripts without spaces separately."""
    if text.isascii():
        return text.split(), []
    spaced, runs = split_runs(text)
    return spaced.split(), list(chain.from_iterable(map(split_bigrams, runs)))


def split_runs(text: str) -> tuple[str, list[str]]:
    """Compose a text and take out its runs in scripts without spaces; return the rest and the runs."""
    if text.isascii():
        return text, []
    text = compose(text)
    runs = UNSPACED_RUN.findall(text)
    return (UNSPACED_RUN.sub(" ", text), runs) if runs else (text, runs)


def fold_plain_word(word: str) -> str:
    """Return the folded word if a string without spaces is one plain ASCII word; else ""."""
    bare = word.strip("(),.;:")
    return bare.lower()[:_MAX_TERM_LENGTH] if bare.isascii() and _is_one_word(bare) else ""


@lru_cache(maxsize=1 << 16)  # no token contains a space, and most words recur
def expand_word(word: str) -> tuple[str, ...]:
    """Expand a string without spaces to the pieces of its tokens."""
    if (bare := word.strip("(),.;:")).isalpha():
        return expand_token(bare)
    return tuple(chain.from_iterable(map(expand_token, TOKEN.findall(word))))


def split_bigrams(run: str) -> list[str]:
    """Split a run into character bigrams; a single character stays."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@lru_cache(maxsize=1 << 16)
def expand_token(token: str) -> tuple[str, ...]:
    """Return the token and, if it is compound, its parts, case-folded and distinct."""
    if token.isascii() and (_is_one_word(token) or token.isdigit()):
        return (token.lower()[:_MAX_TERM_LENGTH],)
    return tuple(dict.fromkeys(part[:_MAX_TERM_LENGTH] for part in map(_fold_case, _split_token(token)) if part))


def _fold_case(part: str) -> str:
    """Fold the case of a part and compose it again, since case folding may decompose a letter."""
    return unicodedata.normalize("NFKC", part.casefold())


def _split_token(token: str) -> Iterator[str]:
    """Split a token into its parts, outermost first."""
    if _is_one_word(token):
        yield token
        return
    if token[-1] in "+#" and len(token) < 4:  # C++, C#
        yield token
        return
    token = _strip_apostrophe(token.rstrip("+#").replace(",", "").strip("_"))
    parts = None
    if _SEPARATORS.search(token):
        levels = ([part for part in level.split(token) if part] for level in _SEPARATOR_LEVELS)
        parts = next((parts for parts in levels if len(parts) > 1), None)
    if parts is None:
        parts = (
            [token]
            if _PLURAL_ACRONYM.fullmatch(token)
            else (_CAMEL if token.isascii() else _DIGITS_OR_LETTERS).findall(token)
        )
    if len(parts) < 2:
        yield token
        while 1 < token.count(".") < 4:  # 3.11.2 is also a 3.11; a 3 would be too general
            token = token.rpartition(".")[0]
            yield token
        return
    yield _SEPARATORS.sub("", token) if any(map(str.isalpha, token)) else token
    for part in parts:
        if len(part) > 1:  # the E of E4417 carries no meaning
            yield from (part,) if _is_one_word(part) else _split_token(part)


def _is_one_word(token: str) -> bool:
    """Return whether a token is all letters, cased as a word, name or acronym."""
    return token.isalpha() and (token.islower() or token[1:].islower() or token.isupper())


def _strip_apostrophe(token: str) -> str:
    """Strip a possessive, a contracted verb or an elided article from a token: Ada's, we'll, l'eau, dell'arte."""
    head, _, tail = token.replace("’", "'").rpartition("'")
    if not head or not tail:
        return head + tail
    if tail.casefold() in ("s", "re", "ve", "ll", "d", "m"):
        return head
    if (len(head) < 3 and head not in ("o", "O")) or head.casefold() in _ELISIONS:
        return tail
    return head + tail


@lru_cache(maxsize=1 << 16)
def _stem_piece(piece: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinct stems of a piece, without diacritics; none if it is a function word in all languages."""
    if piece[0] > "ɏ":  # past Latin
        languages = tuple(code for low, high, code in _SCRIPTS if low <= piece[0] <= high)
    if not languages:
        return (strip_diacritics(piece),)
    if len(languages) == 1:
        is_dropped = piece in FUNCTION_WORDS.get(languages[0], ()) and piece not in MEANINGFUL_FUNCTION_WORDS
        return () if is_dropped else (strip_diacritics(stem_word(piece, languages[0])),)
    if piece not in MEANINGFUL_FUNCTION_WORDS and all(piece in FUNCTION_WORDS.get(code, ()) for code in languages):
        return ()
    return tuple(dict.fromkeys(strip_diacritics(stem_word(piece, code)) for code in languages))


def stem_word(word: str, code: str) -> str:
    """Stem a word with the Snowball stemmer of a language."""
    with _lock:  # a Snowball stemmer is not thread-safe
        if code not in _stemmers:
            _stemmers[code] = Stemmer.Stemmer(STEMMERS[code], 0)
        return _stemmers[code].stemWord(word) or word


def strip_diacritics(word: str) -> str:
    """Strip diacritics from a word; marks that distinguish letters, as in Indic scripts and kana, stay."""
    if word.isascii():
        return word
    bare = unicodedata.normalize("NFKD", word).translate(_DIACRITICS)
    return unicodedata.normalize("NFKC", bare).translate(_BASE_LETTERS) or word
