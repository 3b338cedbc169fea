"""The third pass of the structure chunker: atoms are packed into spans that fit, with an overlap between neighbours."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import le

from clew.core.errors import SettingsError
from clew.index.chunk.atoms import APART, Atom, Count, measured

Span = tuple[int, int]
Fits = Callable[[int, int, int], bool]  # whether the atoms from one position up to another have at most so many tokens

_SAMPLE = 64  # spans that are counted to see whether the others need to be


def check(*, size: int, overlap: int, names: tuple[str, str] = ("chunk_size", "chunk_overlap")) -> None:
    """Raises a SettingsError for sizes with which chunking could not go on."""
    if size < 1:
        raise SettingsError(f"{names[0]} is {size}; it must be at least 1")
    if not 0 <= overlap < size:
        raise SettingsError(f"{names[1]} is {overlap}; it must be at least 0 and less than {names[0]}, which is {size}")


def added(counts: Sequence[int]) -> Fits:
    """The rule that adds up the tokens of atoms: right for most tokenizers, and checked afterwards for all."""
    sums = [0, *accumulate(counts)]
    return lambda low, high, limit: sums[high] - sums[low] <= limit


def exact(text: str, atoms: Sequence[Atom], counts: Sequence[int], count: Count) -> Fits:
    """The rule that counts the joined text where adding up is too much, but by no more than rounding can explain."""
    sums = [0, *accumulate(counts)]

    def fits(low: int, high: int, limit: int) -> bool:
        beyond = sums[high] - sums[low] - limit
        if 0 < beyond <= 2 * (high - low):
            return measured([text[atoms[low].start : atoms[high - 1].end]], count)[0] <= limit
        return beyond <= 0

    return fits


def pack(atoms: Sequence[Atom], fits: Fits, *, size: int, overlap: int) -> list[Span]:
    """The atoms of each span as a range; starts and ends strictly increase, so every range holds something new."""
    packed: list[Span] = []
    first = last = 0
    for low, high in _units(atoms, fits, 0, len(atoms), size):
        if atoms[low].cut == APART:
            packed.append((first, last))
            first = low
        elif not fits(first, high, size):
            packed.append((first, last))
            first = _shared(atoms, fits, first, low, overlap)
            while first < low and not fits(first, high, size):
                first += 1
        last = high
    return [*packed, (first, last)][1:]  # the first atom is APART, and nothing stands before it


def _units(atoms: Sequence[Atom], fits: Fits, low: int, high: int, size: int) -> Iterator[Span]:
    """Ranges that fit, each as large as the structure makes them: cut only where cutting is easiest."""
    if high - low <= 1:
        if low < high:
            yield low, high
        return
    easiest = min(atom.cut for atom in atoms[low + 1 : high])
    if easiest > 0 and fits(low, high, size):
        yield low, high
        return
    cuts = [low, *(i for i in range(low + 1, high) if atoms[i].cut == easiest), high]
    for start, stop in pairwise(cuts):
        yield from _units(atoms, fits, start, stop, size)


def _shared(atoms: Sequence[Atom], fits: Fits, first: int, end: int, overlap: int) -> int:
    """Where the next span begins if it repeats the last whole sentences of this one; tables and code are left out."""
    start = end
    while start - 1 > first and atoms[start - 1].whole and fits(start - 1, end, overlap):
        start -= 1
    return start


def fitted(
    text: str, spans: Sequence[Span], places: Sequence[int], *, size: int, count: Count, sums: Sequence[int] = ()
) -> list[Span]:
    """The spans, those cut again that are over the size after all; `places` are where it is best to cut.

    `sums` are the tokens of the spans by adding up, all within the size. Where a sample shows that joined text never
    has more tokens than its parts, the sums are trusted: counting is most of the work, and need not be done twice.
    A piece that is inside another span, as an overlap may be when it is cut off, is left out.
    """
    if sums and len(spans) > _SAMPLE:
        step = len(spans) // _SAMPLE
        sample = measured([text[start:end] for start, end in spans[::step]], count)
        if max(sums) <= size and all(map(le, sample, sums[::step])):
            return list(spans)
    fitting: list[Span] = []
    unsure = list(spans)
    while unsure:
        halves: list[Span] = []
        counts = measured([text[start:end] for start, end in unsure], count)
        for (start, end), tokens in zip(unsure, counts, strict=True):
            if tokens <= size or end - start <= 1:
                fitting.append((start, end))
            else:
                middle = _middle(places, start, end, start + max(1, (end - start) * size // tokens))
                halves += [(start, start + len(text[start:middle].rstrip())), (middle, end)]
        unsure = halves
    fitting.sort(key=lambda span: (span[0], -span[1]))
    reached = accumulate((end for _, end in fitting), max, initial=-1)
    return [span for span, before in zip(fitting, reached, strict=False) if span[1] > before]


def _middle(places: Sequence[int], start: int, end: int, guess: int) -> int:
    """Where to cut a span in two: the last of the places before the guess, else the first after it."""
    low, high = bisect_right(places, start), bisect_left(places, end)
    if low == high:
        return min(guess, end - 1)
    return places[max(bisect_right(places, guess, low, high) - 1, low)]
