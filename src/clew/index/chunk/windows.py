"""The window chunker: pieces of about one size that begin and end between words, whatever the structure."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from clew.core.protocols import Chunker
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import LETTERS_A_TOKEN, Count, measured, trim
from clew.index.chunk.build import build, cuts_of
from clew.index.chunk.pack import Span, check

_GUESSES = 4  # by proportion, which is nearly always right; then by halves
_WORD = re.compile(r"\S+")


def windows(*, size: int, overlap: int, count: Count) -> Chunker:
    """A chunker whose chunks have at most `size` tokens by `count` and share up to `overlap` with the one before."""
    check(size=size, overlap=overlap)

    def chunk(document: Document) -> list[Chunk]:
        spans = window_spans(document.text, size=size, overlap=overlap, count=count)
        return build(document, cuts_of(document, spans), headings=True)

    return chunk


def window_spans(text: str, *, size: int, overlap: int, count: Count) -> list[Span]:
    """The windows in order: starts and ends strictly increase, and the last one is the first to reach the end.

    A word takes the white space after it too, so that the words of a window and its overlap add up. Only a word that is
    longer than a window is cut inside.
    """
    check(size=size, overlap=overlap)
    whole = trim(text, 0, len(text))
    if whole is None:
        return []
    if measured([text[slice(*whole)]], count)[0] <= size:
        return [whole]
    words = [match.span() for match in _WORD.finditer(text)]
    nexts = [*(start for start, _ in words[1:]), whole[1]]
    costs = measured([text[start:after] for (start, _), after in zip(words, nexts, strict=True)], count)
    sums = [0, *accumulate(costs)]
    spans: list[Span] = []
    start, word = words[0][0], 0  # where the next window begins, and the word that this is in
    while True:
        after, end = _filled(text, words, sums, start, word, size=size, count=count)
        if spans and end <= spans[-1][1]:  # with the overlap nothing new fits
            start, word = _beyond(words, spans[-1][1])
            continue
        spans.append((start, end))
        if end == whole[1]:
            return spans
        if end < words[after - 1][1]:  # cut inside a word
            start, word = end - _most(end - start - 1, overlap, _ending(text, end), count), after - 1
        else:
            word = after
            while word - 1 > bisect_right(words, (start, len(text))) - 1 and sums[after] - sums[word - 1] <= overlap:
                word -= 1
            start = words[word][0]


def _filled(
    text: str, words: Sequence[Span], sums: Sequence[int], start: int, word: int, *, size: int, count: Count
) -> tuple[int, int]:
    """The word after the window that begins at `start`, and where that window ends."""
    used = sums[word]
    if start > words[word][0]:  # the rest of a word that was cut
        rest = words[word + 1][0] if word + 1 < len(words) else words[word][1]
        used = sums[word + 1] - _tokens(text, start, rest, size=size, count=count)
    after = max(bisect_right(sums, used + size) - 1, word + 1)
    while _tokens(text, start, words[after - 1][1], size=size, count=count) > size:
        if after == word + 1:
            return after, start + max(1, _most(words[word][1] - start, size, lambda n: text[start : start + n], count))
        after -= 1
    return after, words[after - 1][1]


def _tokens(text: str, start: int, end: int, *, size: int, count: Count) -> int:
    """The tokens of a stretch; of one that is far too long it is enough to know that."""
    if end - start > LETTERS_A_TOKEN * size:
        return size + 1
    return measured([text[start:end]], count)[0]


def _beyond(words: Sequence[Span], end: int) -> tuple[int, int]:
    """The first place that is not white space from `end` on, and the word that it is in."""
    word = bisect_right(words, (end, end)) - 1
    if words[word][1] > end:
        return end, word
    return words[word + 1][0], word + 1


def _ending(text: str, end: int) -> Callable[[int], str]:
    return lambda n: text[end - n : end]


def _most(length: int, limit: int, piece: Callable[[int], str], count: Count) -> int:
    """The largest number of characters, up to `length`, whose piece is within the limit; 0 if none is."""
    fits, over = 0, length + 1
    guess, guesses = max(limit, 1), _GUESSES
    while over - fits > 1:
        middle = min(max(guess, fits + 1), over - 1) if guesses > 0 else (fits + over) // 2
        tokens = measured([piece(middle)], count)[0]
        if tokens <= limit:
            fits = middle
        else:
            over = middle
        guess, guesses = middle * limit // max(tokens, 1), guesses - 1
    return fits
