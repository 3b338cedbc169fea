"""What fits: hits are taken in their order while the whole text that holds them stays within the tokens.

What is counted is the text itself, so numbers, headings, separators and the wrapper are in it. A hit that is too large
is passed over and later ones still try, so the room that is left is smaller than any hit that was left out. Hence the
law of use: where something was left out whose entry, with the separator before it, takes at most a fifth of the budget,
at least four fifths of the budget are used.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from clew.core.text import sentences
from clew.core.types import Hit, MergedChunk

Join = Callable[[Sequence[Hit]], list[MergedChunk]]
Write = Callable[[Sequence[MergedChunk]], str]
Count = Callable[[str], int]
Offer = Hit | Callable[[], Hit | None]  # what was found, or what was not and is read only when it is its turn
More = Callable[[Sequence[Hit]], Iterable[Hit]]

# Why something is not in a context.
BUDGET = "budget"  # it did not fit
CUT = "cut"  # the rest of a hit that is shown up to the end of a sentence
DUPLICATE = "duplicate"  # the same chunk came twice
GONE = "gone"  # its document is there no more
REASONS = (BUDGET, CUT, DUPLICATE, GONE)

WORTH = 0.05  # the share of the budget below which room is not worth filling with parts


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fits: the hits, the passages they make, the text that holds them, its tokens; and what does not, and why."""

    hits: tuple[Hit, ...] = ()
    passages: tuple[MergedChunk, ...] = ()
    text: str = ""
    tokens: int = 0
    dropped: tuple[tuple[Hit, str], ...] = ()
    documents: frozenset[str] = frozenset()


def nothing_more(_: Sequence[Hit]) -> Iterable[Hit]:
    """No hits grow."""
    return ()


class TokenBudget:
    """Tries hits together: joins, writes and counts them, as often as it must and no more."""

    def __init__(self, tokens: int, *, join: Join, write: Write, count: Count, shows: int | None = None) -> None:
        self._tokens = tokens
        self._join = join
        self._write = write
        self._count = count
        self._shows = shows

    def fit(self, offers: Sequence[Offer], *, cut: bool = False, more: More = nothing_more) -> Fitted:
        """What fits of the offers in their order, and what the hits then bring along where room is left.

        Only what was found is in the ledger, and only that is cut.
        """
        queue = iter(offers)
        opening, grown = self._opening(queue)
        kept, at = self._prefix(opening)
        dropped: list[tuple[Hit, str]] = []
        for offer in chain(opening[at:], queue):
            found = isinstance(offer, Hit) and offer.chunk.id not in grown
            hit = offer if isinstance(offer, Hit) else offer() if self._worth_filling(kept) else None
            if hit is None:
                continue
            larger = self._with(kept, hit)
            part = self._part(kept, hit) if cut and found and larger is None else None
            kept = larger or (part[0] if part else kept)
            if larger is None and found:
                dropped.append((part[1], CUT) if part else (hit, BUDGET))
        for hit in more(kept.hits):
            if not self._worth_filling(kept):
                break
            kept = self._with(kept, hit) or kept
        return replace(kept, dropped=tuple(dropped))

    def _opening(self, queue: Iterator[Offer]) -> tuple[list[Hit], set[str]]:
        """The first hits, until they cannot all fit, and the ids of those that were not found."""
        opening: list[Hit] = []
        grown: set[str] = set()
        cost = 0
        for offer in queue:
            hit = offer if isinstance(offer, Hit) else offer()
            if hit is None:
                continue
            opening.append(hit)
            if hit is not offer:
                grown.add(hit.chunk.id)
            cost += self._least(hit, ())
            if cost > self._tokens:
                break
        return opening, grown

    def _prefix(self, hits: Sequence[Hit]) -> tuple[Fitted, int]:
        """The longest run of first hits that fits, found by halving; how many they are."""
        costs = list(accumulate(self._least(hit, ()) for hit in hits))
        low, high = 0, bisect_right(costs, self._tokens)
        best = Fitted()
        middle = high  # more often than not all that may fit does
        while low < high:
            tried = self._tried(hits[:middle])
            if tried.tokens <= self._tokens:
                best, low = tried, middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return best, low

    def _worth_filling(self, kept: Fitted) -> bool:
        return self._tokens - kept.tokens >= WORTH * self._tokens

    def _with(self, kept: Fitted, hit: Hit) -> Fitted | None:
        """What is kept with one more hit, if that fits."""
        near = kept.hits if hit.chunk.doc_id in kept.documents else ()
        if kept.tokens + self._least(hit, near) > self._tokens:
            return None
        tried = self._tried([*kept.hits, hit])
        return tried if tried.tokens <= self._tokens else None

    def _tried(self, hits: Sequence[Hit]) -> Fitted:
        passages = self._join(hits)
        text = self._write(passages)
        documents = frozenset(hit.chunk.doc_id for hit in hits)
        return Fitted(tuple(hits), tuple(passages), text, self._count(text), documents=documents)

    def _least(self, hit: Hit, kept: Sequence[Hit]) -> int:
        """Fewer tokens than a hit adds to the text, at a cost that allows to ask it of every one.

        What the kept ones already show, what the renderer does not, and headings that a longer entry loses are off.
        """
        chunk = hit.chunk
        text = chunk.text if self._shows is None else chunk.text[: self._shows]
        whole = self._count(text)
        if not kept:
            return whole
        near = [other.chunk for other in kept if other.chunk.doc_id == chunk.doc_id]
        if self._shows is not None:
            return 0
        shared = sum(max(0, min(chunk.end, each.end) - max(chunk.start, each.start)) for each in near)
        saved = sum(map(len, chunk.headings)) + 3 * len(chunk.headings)
        return whole - self._count(text[: shared + saved]) - 1

    def _part(self, kept: Fitted, hit: Hit) -> tuple[Fitted, Hit] | None:
        """What is kept with as many whole sentences of a hit as fit, and the rest of the hit; None if none does."""
        if not self._worth_filling(kept):
            return None
        ends = [end for _, end in sentences(hit.chunk.text)][:-1]
        best: tuple[Fitted, Hit] | None = None
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            begun, rest = _halves(hit, ends[middle])
            tried = self._with(kept, begun)
            if tried is None:
                high = middle
            else:
                best, low = (tried, rest), middle + 1
        return best


def _halves(hit: Hit, at: int) -> tuple[Hit, Hit]:
    """A hit up to a place in its text, and from there on."""
    chunk = hit.chunk
    rest = chunk.text[at:].lstrip()
    begun = replace(chunk, text=chunk.text[:at], end=chunk.start + at)
    ended = replace(chunk, text=rest, start=chunk.end - len(rest))
    return replace(hit, chunk=begun), replace(hit, chunk=ended)
