"""The window chunker: windows of about one size that start and end between words and ignore structure."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from clew.core.protocols import Chunker
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import MAX_CHARS_PER_TOKEN, TokenCounter, count_tokens, trim_span
from clew.index.chunk.build import assign_spans_to_sections, build_chunks_from_spans
from clew.index.chunk.pack import Span, check_size_and_overlap

_MAX_GUESSES = 4  # by proportion, which is nearly always right; then by bisection
_WORD = re.compile(r"\S+")


def make_window_chunker(*, size: int, overlap: int, count: TokenCounter) -> Chunker:
    """A chunker whose chunks have at most `size` tokens by `count` and repeat up to `overlap` of the one before."""
    check_size_and_overlap(size=size, overlap=overlap)

    def chunk(document: Document) -> list[Chunk]:
        spans = find_window_spans(document.text, size=size, overlap=overlap, count=count)
        return build_chunks_from_spans(document, assign_spans_to_sections(document, spans), headings=True)

    return chunk


def find_window_spans(text: str, *, size: int, overlap: int, count: TokenCounter) -> list[Span]:
    """The windows in order: starts and ends strictly increase, and only the last one reaches the end.

    A word is counted with the white space after it, so that the words of a window and its overlap add up. Only a word
    longer than a window is split.
    """
    check_size_and_overlap(size=size, overlap=overlap)
    whole = trim_span(text, 0, len(text))
    if whole is None:
        return []
    if count_tokens([text[slice(*whole)]], count)[0] <= size:
        return [whole]
    words = [match.span() for match in _WORD.finditer(text)]
    nexts = [*(start for start, _ in words[1:]), whole[1]]
    costs = count_tokens([text[start:after] for (start, _), after in zip(words, nexts, strict=True)], count)
    sums = [0, *accumulate(costs)]
    spans: list[Span] = []
    start, word = words[0][0], 0  # where the next window starts, and the word that this is in
    while True:
        after, end = _find_window_end(text, words, sums, start, word, size=size, count=count)
        if spans and end <= spans[-1][1]:  # with the overlap, nothing new fits
            start, word = _find_next_word_start(words, spans[-1][1])
            continue
        spans.append((start, end))
        if end == whole[1]:
            return spans
        if end < words[after - 1][1]:  # it ends inside a word
            start, word = (
                end - _find_max_chars_within_limit(end - start - 1, overlap, _make_suffix_slicer(text, end), count),
                after - 1,
            )
        else:
            word = after
            while word - 1 > bisect_right(words, (start, len(text))) - 1 and sums[after] - sums[word - 1] <= overlap:
                word -= 1
            start = words[word][0]


def _find_window_end(
    text: str, words: Sequence[Span], sums: Sequence[int], start: int, word: int, *, size: int, count: TokenCounter
) -> tuple[int, int]:
    """The position of the first word after the window that starts at `start`, and where the window ends."""
    used = sums[word]
    if start > words[word][0]:  # the rest of a word that was split
        rest = words[word + 1][0] if word + 1 < len(words) else words[word][1]
        used = sums[word + 1] - _count_span_tokens(text, start, rest, size=size, count=count)
    after = max(bisect_right(sums, used + size) - 1, word + 1)
    while _count_span_tokens(text, start, words[after - 1][1], size=size, count=count) > size:
        if after == word + 1:
            return after, start + max(
                1, _find_max_chars_within_limit(words[word][1] - start, size, lambda n: text[start : start + n], count)
            )
        after -= 1
    return after, words[after - 1][1]


def _count_span_tokens(text: str, start: int, end: int, *, size: int, count: TokenCounter) -> int:
    """The tokens of a span; more than `size` at once if it is far too long to fit."""
    if end - start > MAX_CHARS_PER_TOKEN * size:
        return size + 1
    return count_tokens([text[start:end]], count)[0]


def _find_next_word_start(words: Sequence[Span], end: int) -> tuple[int, int]:
    """The first position from `end` on that is not white space, and the word that it is in."""
    word = bisect_right(words, (end, end)) - 1
    if words[word][1] > end:
        return end, word
    return words[word + 1][0], word + 1


def _make_suffix_slicer(text: str, end: int) -> Callable[[int], str]:
    """A function that gives the last n characters before `end`."""
    return lambda n: text[end - n : end]


def _find_max_chars_within_limit(length: int, limit: int, piece: Callable[[int], str], count: TokenCounter) -> int:
    """The most characters, up to `length`, whose `piece` has at most `limit` tokens; 0 if none has."""
    fits, over = 0, length + 1
    guess, guesses = max(limit, 1), _MAX_GUESSES
    while over - fits > 1:
        middle = min(max(guess, fits + 1), over - 1) if guesses > 0 else (fits + over) // 2
        tokens = count_tokens([piece(middle)], count)[0]
        if tokens <= limit:
            fits = middle
        else:
            over = middle
        guess, guesses = middle * limit // max(tokens, 1), guesses - 1
    return fits
