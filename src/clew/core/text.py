"""The analyser: what every store, chunker and scorer means by a term, a word, a sentence and a token.

It stands before everything: `terms` is called on the write path for each chunk and on the read path for each query, so
lexical search agrees in every store. How a text becomes terms:

1. Unicode is composed (NFKC); scripts that write no spaces are set apart and cut into pairs of characters.
2. One regular expression finds tokens; an identifier is one token (`ingest.max_skew_ms`, `E-4417`, `bob@example.com`).
3. A token becomes pieces: itself and, if it is compound, its parts at every level, each joined without separators, so
   that `E4417` finds `E-4417` and `maxSkewMs` finds `max_skew_ms`, and either scores above `max` alone.
4. Pieces become stems in the language of the text, and function words drop out. Diacritics are folded last, because the
   stemmers read them.

Function words tell the language. A short text with too few of them gets the stems of each language that it looks like:
so one German word finds the German document, and a stem that no document has costs nothing.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from threading import Lock

import Stemmer

from clew.core.errors import SettingsError
from clew.core.languages import COUNTED, FUNCTION_WORDS, LETTERS, MONTHS, SENSE, STEMMERS, TITLES, TRAILING

Terms = Mapping[str, int]  # how often each term occurs

# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, Kana, Han; and Hangul, which glues particles to its words.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u3005-\u3007\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs belong to the word in the Indic scripts, yet `\w` leaves them out.
_SIGNS = "\u0300-\u036f\u0900-\u0963\u0971-\u0dff\u0f18-\u0f39\u0f71-\u0fbc"
_RUN = re.compile(f"[{_UNSPACED}]+")
_WORD = rf"[\w{_SIGNS}]++"
_TOKEN = re.compile(
    rf"(?:https?://(?:www\.)?)?"  # the scheme of an address is not asked for
    rf"({_WORD}(?:(?=[.\-'’‐@/\\:,])(?:[.\-'’‐@/\\]|::?|(?<=\d),(?=\d\d\d(?!\d))){_WORD})*+(?:(?:\+\+|#)(?!\w))?)"
)
_PLAIN = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_SIGNS}](?:(?<=\d)[.,](?=\d))?)+")
_LEVELS = tuple(map(re.compile, (r"[/\\@:]+", r"(?<!\d)\.|\.(?!\d)", r"[-‐_]+")))
_SEPARATORS = re.compile(r"[-‐_/\\@:]+|(?<!\d)\.|\.(?!\d)")
_CAMEL = re.compile(r"\d+(?:\.\d+)*|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MIXED = re.compile(r"\d+(?:\.\d+)*|\D+")
_CAPITALS = re.compile(r"[A-Z]{2,}s")  # APIs, not AP and Is
_ELISIONS = frozenset({"all", "dall", "dell", "nell", "sull", "quell", "quest", "jusqu", "lorsqu", "puisqu", "quelqu"})
_MARKS = dict.fromkeys([*range(0x300, 0x370), *range(0x591, 0x5C8), *range(0x64B, 0x660), 0x670, 0x640])
_BASES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"})
_LONGEST = 64  # letters of a term; what is longer is a blob that nobody asks for

_LATIN = tuple(LETTERS)
_LOOKS = {code: re.compile(pattern) for code, pattern in LETTERS.items()}
_COMMON = frozenset[str]().union(*FUNCTION_WORDS.values())
# Other scripts tell the language of each word by themselves: Greek, Cyrillic, Armenian, Arabic, Devanagari, Tamil.
_SCRIPTS = (
    ("\u0370", "\u03ff", "el"),
    ("\u0400", "\u052f", "ru"),
    ("\u0531", "\u058f", "hy"),
    ("\u0600", "\u06ff", "ar"),
    ("\u0900", "\u097f", "hi"),
    ("\u0b80", "\u0bff", "ta"),
)
_SHORT = 12  # distinct pieces; a longer text without function words is code or a table, where English is the best guess

_CLOSERS = r"(?:[\"'”’»›)\]}*_`」』】）]|\[\d+\])*+"
_BREAK = re.compile(
    rf"(?P<full>[。！？｡।॥؟۔]+{_CLOSERS})|(?<![.!?…])(?P<stop>[.!?…]++){_CLOSERS}(?=\s|\Z)"
    r"|^\#{1,6}\s[^\n]*|\n(?=[^\S\n]*(?:\n|(?:[-*+•‣▪–]|\d{1,3}[.)]|\#{1,6}|>)\s|\|))",  # heading, blank line, item
    re.MULTILINE,
)
_NEXT = re.compile(r"[\s\"'“‘„«‹»(\[{¿¡*_`]*(\w+)")
_LAST = re.compile(r"[^\s\"'“‘„«‹(\[{]*$")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")

_stemmers: dict[str, Stemmer.Stemmer] = {}
_lock = Lock()


def terms(text: str, *, language: str = "auto", asked: bool = False) -> dict[str, int]:
    """How often each term occurs in the text; never empty if the text has a letter or a digit.

    A text that is kept is in one language, English where that cannot be told. One that is `asked` may be in several
    where it cannot: it gets the stems of each, so that it meets what was kept either way.
    """
    if language != "auto" and language not in STEMMERS:
        raise SettingsError(f"language {language!r} is not known; it may be auto, {', '.join(STEMMERS)}")
    pieces = _pieces(text)
    languages = _languages(pieces) if language == "auto" else (language,)
    if not asked:
        languages = languages[:1]
    found = Counter(chain.from_iterable(map(_stems, pieces, repeat(languages))))
    # A question of function words alone ("who are you") keeps them; composition may leave nothing of an odd letter.
    return dict(found or Counter(map(_folded, pieces)) or Counter(filter(str.isalnum, text)))


def words(text: str) -> list[str]:
    """The folded words in order, not stemmed; scripts without spaces as pairs of characters."""
    plain = _PLAIN.findall(_folded(unicodedata.normalize("NFKC", text).casefold()).replace("_", " "))
    return list(chain.from_iterable(_pairs(word) if _RUN.match(word) else (word,) for word in plain))


def sentences(text: str) -> list[tuple[int, int]]:
    """The spans of the sentences in order; together they hold every character that is not space, once."""
    cuts = [0]
    for mark in _BREAK.finditer(text):
        if not mark["stop"] or _is_end(text, cuts[-1], mark):
            cuts.append(mark.end())
    spans: list[tuple[int, int]] = []
    for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        inside = text[start:end].strip()
        if inside:
            start += text[start:end].index(inside)
            spans.append((start, start + len(inside)))
    return spans


def estimate_tokens(text: str) -> int:
    """About how many tokens the text has: a quarter of its characters, rounded up."""
    return -(-len(text) // 4)


def with_headings(headings: Sequence[str], text: str) -> str:
    """The text after the headings that say what it is about: from the deepest up to the first of several words.

    One word ("Example", "Setup") needs the heading above it; two ("Quick Start", "OAuth 2.0") already name a subject.
    """
    taken: list[str] = []
    for heading in filter(str.strip, reversed(headings)):
        taken.insert(0, heading)
        if len(words(heading)) > 1:
            break
    return ": ".join([*taken, text])


def _pieces(text: str) -> list[str]:
    """The case-folded pieces of every token of the text."""
    if text.isascii():
        return list(chain.from_iterable(map(_parts, _TOKEN.findall(text))))
    text = unicodedata.normalize("NFKC", text)
    spaced = chain.from_iterable(map(_parts, _TOKEN.findall(_RUN.sub(" ", text))))
    return [*spaced, *chain.from_iterable(map(_pairs, _RUN.findall(text)))]


def _pairs(run: str) -> list[str]:
    """Each two neighbouring characters, or the character that is alone."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@lru_cache(maxsize=1 << 16)
def _parts(token: str) -> tuple[str, ...]:
    """The token and, if it is compound, its parts; case-folded, each once."""
    return tuple(dict.fromkeys(part[:_LONGEST] for part in map(_cased, _split(token)) if part))


def _cased(part: str) -> str:
    """The part in lower case; composed again, since folding the case of a letter may take it apart."""
    return unicodedata.normalize("NFKC", part.casefold())


def _split(token: str) -> Iterator[str]:
    """The parts of a token, outermost first."""
    if token.isalpha() and (token.islower() or token[1:].islower() or token.isupper()):
        yield token
        return
    if token[-1] in "+#" and len(token) < 4:  # C++, C#
        yield token
        return
    token = _without_apostrophe(token.rstrip("+#").replace(",", "").strip("_"))
    levels = ([part for part in level.split(token) if part] for level in _LEVELS)
    parts = next((parts for parts in levels if len(parts) > 1), None)
    if parts is None:
        parts = [token] if _CAPITALS.fullmatch(token) else (_CAMEL if token.isascii() else _MIXED).findall(token)
    if len(parts) < 2:
        yield token
        while 1 < token.count(".") < 4:  # 3.11.2 is also a 3.11; to call it a 3 would say too little
            token = token.rpartition(".")[0]
            yield token
        return
    yield _SEPARATORS.sub("", token) if any(map(str.isalpha, token)) else token
    for part in parts:
        if len(part) > 1:  # the E of E4417 says nothing
            yield from _split(part)


def _without_apostrophe(token: str) -> str:
    """The token without a possessive, a contracted verb or an elided article: Ada's, we'll, l'eau, dell'arte."""
    head, _, tail = token.replace("’", "'").rpartition("'")
    if not head or not tail:
        return head + tail
    if tail.casefold() in ("s", "re", "ve", "ll", "d", "m"):
        return head
    if (len(head) < 3 and head not in ("o", "O")) or head.casefold() in _ELISIONS:
        return tail
    return head + tail


def _languages(pieces: Sequence[str]) -> tuple[str, ...]:
    """The languages that the text may be in: one if its function words tell, else English and what it looks like."""
    common = _COMMON.intersection(pieces)
    votes = {code: len(common & FUNCTION_WORDS[code]) for code in _LATIN}
    best = max(votes.values())
    top = tuple(code for code in _LATIN if votes[code] == best)
    if best and top == ("en",):
        return top
    # Two more than English, and a tenth of the text: the names in a program (a, e, i, no, de) do not make it Italian.
    if best >= votes["en"] + 2 and 10 * sum(map(FUNCTION_WORDS[top[0]].__contains__, pieces)) >= len(pieces):
        return top
    distinct = set(pieces)
    if len(distinct) >= _SHORT:
        return ("en",)
    padded = f" {' '.join(distinct)} "
    looks = {code: 3 * votes[code] + len(_LOOKS[code].findall(padded)) for code in _LATIN}
    most = max(looks[code] for code in _LATIN if code != "en")
    if 5 * looks["en"] >= 4 * most:
        return ("en",)
    return ("en", *(code for code in _LATIN if code != "en" and 5 * looks[code] >= 3 * most))


@lru_cache(maxsize=1 << 16)
def _stems(piece: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """The folded stems of a piece, each once; none if it is a function word in all of the languages."""
    if piece[0] > "ɏ":  # past Latin
        languages = tuple(code for low, high, code in _SCRIPTS if low <= piece[0] <= high)
    if not languages:
        return (_folded(piece),)
    if piece not in SENSE and all(piece in FUNCTION_WORDS.get(code, ()) for code in languages):
        return ()
    return tuple(dict.fromkeys(_folded(_stem(piece, code)) for code in languages))


def _stem(word: str, code: str) -> str:
    """The word's stem by snowball."""
    with _lock:  # a snowball stemmer keeps the word inside, so two threads may not use it at once
        if code not in _stemmers:
            _stemmers[code] = Stemmer.Stemmer(STEMMERS[code], 0)
        return _stemmers[code].stemWord(word) or word


def _folded(word: str) -> str:
    """The word without diacritics; marks that tell letters apart, as in Indic scripts and kana, stay."""
    if word.isascii():
        return word
    bare = unicodedata.normalize("NFKD", word).translate(_MARKS)
    return unicodedata.normalize("NFKC", bare).translate(_BASES) or word


def _is_end(text: str, start: int, mark: re.Match[str]) -> bool:
    """Whether the stop ends the sentence that began at start."""
    following = _NEXT.match(text, mark.end())
    if not following:
        return True
    word = _LAST.search(text, max(start, mark.start() - 32), mark.start())
    last = word.group() if word else ""
    name, after = last.casefold(), following[1]
    full = mark["stop"] == "."
    if full and (name in TITLES or (mark.start() - start < 9 and text[start : mark.start()].strip().isdecimal())):
        return False  # "Dr. No", "1. Install"
    if after[0].islower():
        # Whoever begins a sentence in lower case, as in chats, may begin the next one so too.
        first = _NEXT.match(text, start)
        chat = first is not None and first[1][0].islower()
        return chat and mark["stop"] in (".", "!", "?") and not _is_short(last)
    if not full:
        return True
    if after[0].isdecimal() and name in COUNTED:
        return False
    if after.casefold() in MONTHS and last.isdecimal() and len(last) < 3:
        return False
    return not _is_short(last) or after.casefold() in _COMMON


def _is_short(last: str) -> bool:
    """Whether the word before a stop is an initial or an abbreviation, after which a sentence may go on or not."""
    if len(last) == 1:
        return last.isupper()
    return last.casefold() in TRAILING or ("." in last and _INITIALS.fullmatch(last) is not None)
