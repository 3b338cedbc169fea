"""The third pass of the structure chunker: atoms are packed into spans that fit, with overlaps between neighbours."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import le

from clew.core.errors import SettingsError
from clew.index.chunk.atoms import SEPARATE, Atom, TokenCounter, count_tokens

Span = tuple[int, int]
Fits = Callable[[int, int, int], bool]  # (low, high, limit): whether atoms low..high have at most `limit` tokens

_SAMPLE_SIZE = 64  # spans that are counted to decide whether the others must be


def check_size_and_overlap(
    *, size: int, overlap: int, names: tuple[str, str] = ("chunk_size", "chunk_overlap")
) -> None:
    """Raises a SettingsError for sizes with which chunking could not advance."""
    if size < 1:
        raise SettingsError(f"{names[0]} is {size}; it must be at least 1")
    if not 0 <= overlap < size:
        raise SettingsError(f"{names[1]} is {overlap}; it must be at least 0 and less than {names[0]}, which is {size}")


def make_token_sum_check(counts: Sequence[int]) -> Fits:
    """A size check that adds up the tokens of atoms: right for most tokenizers, and verified afterwards for all."""
    sums = [0, *accumulate(counts)]
    return lambda low, high, limit: sums[high] - sums[low] <= limit


def make_exact_token_check(text: str, atoms: Sequence[Atom], counts: Sequence[int], count: TokenCounter) -> Fits:
    """A size check that counts the joined text where the sum exceeds the limit by no more than rounding explains."""
    sums = [0, *accumulate(counts)]

    def fits(low: int, high: int, limit: int) -> bool:
        beyond = sums[high] - sums[low] - limit
        if 0 < beyond <= 2 * (high - low):
            return count_tokens([text[atoms[low].start : atoms[high - 1].end]], count)[0] <= limit
        return beyond <= 0

    return fits


def pack_atoms(atoms: Sequence[Atom], fits: Fits, *, size: int, overlap: int) -> list[Span]:
    """The ranges of atoms that become spans; starts and ends strictly increase, so each range has a new atom."""
    packed: list[Span] = []
    first = last = 0
    for low, high in _split_at_structure(atoms, fits, 0, len(atoms), size):
        if atoms[low].break_level == SEPARATE:
            packed.append((first, last))
            first = low
        elif not fits(first, high, size):
            packed.append((first, last))
            first = _find_overlap_start(atoms, fits, first, low, overlap)
            while first < low and not fits(first, high, size):
                first += 1
        last = high
    return [*packed, (first, last)][1:]  # the first atom is SEPARATE, so the first range is empty


def _split_at_structure(atoms: Sequence[Atom], fits: Fits, low: int, high: int, size: int) -> Iterator[Span]:
    """Ranges that fit, split only at the lowest break levels, so that structure stays together."""
    if high - low <= 1:
        if low < high:
            yield low, high
        return
    easiest = min(atom.break_level for atom in atoms[low + 1 : high])
    if easiest > 0 and fits(low, high, size):
        yield low, high
        return
    boundaries = [low, *(i for i in range(low + 1, high) if atoms[i].break_level == easiest), high]
    for start, stop in pairwise(boundaries):
        yield from _split_at_structure(atoms, fits, start, stop, size)


def _find_overlap_start(atoms: Sequence[Atom], fits: Fits, first: int, end: int, overlap: int) -> int:
    """Where the next span starts to repeat the last whole sentences of this one; tables and code are not repeated."""
    start = end
    while start - 1 > first and atoms[start - 1].repeatable and fits(start - 1, end, overlap):
        start -= 1
    return start


def split_oversized_spans(
    text: str,
    spans: Sequence[Span],
    boundaries: Sequence[int],
    *,
    size: int,
    count: TokenCounter,
    sums: Sequence[int] = (),
) -> list[Span]:
    """The spans with those over the size split, at one of the `boundaries` where possible.

    `sums` are the added-up tokens of the spans, all within the size. Where a sample shows that joined text never has
    more tokens than its parts, the sums are trusted: counting is most of the work, and need not be done twice. A piece
    inside another span, which an overlap can become, is dropped.
    """
    if sums and len(spans) > _SAMPLE_SIZE:
        step = len(spans) // _SAMPLE_SIZE
        sample = count_tokens([text[start:end] for start, end in spans[::step]], count)
        if max(sums) <= size and all(map(le, sample, sums[::step])):
            return list(spans)
    fitting: list[Span] = []
    unsure = list(spans)
    while unsure:
        halves: list[Span] = []
        counts = count_tokens([text[start:end] for start, end in unsure], count)
        for (start, end), tokens in zip(unsure, counts, strict=True):
            if tokens <= size or end - start <= 1:
                fitting.append((start, end))
            else:
                middle = _find_split_position(boundaries, start, end, start + max(1, (end - start) * size // tokens))
                halves += [(start, start + len(text[start:middle].rstrip())), (middle, end)]
        unsure = halves
    fitting.sort(key=lambda span: (span[0], -span[1]))
    reached = accumulate((end for _, end in fitting), max, initial=-1)
    return [span for span, before in zip(fitting, reached, strict=False) if span[1] > before]


def _find_split_position(boundaries: Sequence[int], start: int, end: int, guess: int) -> int:
    """Where to split a span in two: the last boundary before the guess, else the first after it."""
    low, high = bisect_right(boundaries, start), bisect_left(boundaries, end)
    if low == high:
        return min(guess, end - 1)
    return boundaries[max(bisect_right(boundaries, guess, low, high) - 1, low)]
