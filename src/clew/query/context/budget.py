"""The token budget: hits are taken in order while the rendered text of all of them stays within the budget.

The text itself is counted, so numbers, headings, separators and the wrapper are included. A hit that is too large is
skipped and later ones are still tried, so the remaining room is smaller than any skipped hit. Hence a lower bound on
use: if a skipped hit's entry with its separator takes at most a fifth of the budget, at least four fifths are used.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from clew.core.cite import MergedChunk
from clew.core.sentences import split_sentences
from clew.core.types import Hit
from clew.query.context.format.escape import drop_blank_lines
from clew.query.context.format.formatter import drop_own_headings

Join = Callable[[Sequence[Hit]], list[MergedChunk]]
Write = Callable[[Sequence[MergedChunk]], str]
Count = Callable[[str], int]
Candidate = Hit | Callable[[], Hit | None]  # a hit, or an expansion that is read only when its turn comes
Expand = Callable[[Sequence[Hit]], Iterable[Hit]]

# The reasons why a hit is not in a context.
BUDGET = "budget"  # it did not fit
CUT = "cut"  # the rest of a hit that was cut after a sentence
DUPLICATE = "duplicate"  # the same chunk was found twice, or its text in another document
GONE = "gone"  # its document no longer exists

MIN_ROOM = 0.05  # share of the budget below which the rest is not filled with parts or expansions


@dataclass(frozen=True, slots=True)
class FittedContext:
    """The hits that fit, their passages, the rendered text and its tokens; and the dropped hits with reasons."""

    hits: tuple[Hit, ...] = ()
    passages: tuple[MergedChunk, ...] = ()
    text: str = ""
    tokens: int = 0
    dropped: tuple[tuple[Hit, str], ...] = ()
    documents: frozenset[str] = frozenset()


def expand_nothing(_: Sequence[Hit]) -> Iterable[Hit]:
    """Return no hits: the empty expansion."""
    return ()


class TokenBudget:
    """A selector of hits: joins, renders and counts them together, as rarely as possible."""

    def __init__(self, tokens: int, *, join: Join, write: Write, count: Count, max_chars: int | None = None) -> None:
        self._tokens = tokens
        self._join = join
        self._write = write
        self._count = count
        self._max_chars = max_chars

    def fit_candidates(
        self, candidates: Sequence[Candidate], *, cut: bool = False, expand: Expand = expand_nothing
    ) -> FittedContext:
        """Return the candidates that fit, in order, and then the expansions of those hits while there is room.

        Only hits of the search are reported as dropped, and only they are cut.
        """
        queue = iter(candidates)
        opening, costs, expanded = self._take_first_candidates(queue)
        kept, at = self._fit_longest_prefix(opening, costs)
        dropped: list[tuple[Hit, str]] = []
        for candidate in chain(opening[at:], queue):
            found = isinstance(candidate, Hit) and candidate.chunk.id not in expanded
            hit = candidate if isinstance(candidate, Hit) else candidate() if self._has_room(kept) else None
            if hit is None:
                continue
            larger = self._try_adding(kept, hit)
            part = self._fit_sentences(kept, hit) if cut and found and larger is None else None
            kept = larger or (part[0] if part else kept)
            if larger is None and found:
                dropped.append((part[1], CUT) if part else (hit, BUDGET))
        for hit in expand(kept.hits):
            if not self._has_room(kept):
                break
            kept = self._try_adding(kept, hit) or kept
        return replace(kept, dropped=tuple(dropped))

    def _take_first_candidates(self, queue: Iterator[Candidate]) -> tuple[list[Hit], list[int], set[str]]:
        """Take the first candidates, up to the point where they cannot all fit.

        Returns their hits, the least tokens up to each of them, and the ids of the expansions among them.
        """
        opening: list[Hit] = []
        costs: list[int] = []
        expanded: set[str] = set()
        cost = 0
        for candidate in queue:
            hit = candidate if isinstance(candidate, Hit) else candidate()
            if hit is None:
                continue
            opening.append(hit)
            if hit is not candidate:
                expanded.add(hit.chunk.id)
            cost += self._estimate_min_tokens(hit, ())
            costs.append(cost)
            if cost > self._tokens:
                break
        return opening, costs, expanded

    def _fit_longest_prefix(self, hits: Sequence[Hit], costs: Sequence[int]) -> tuple[FittedContext, int]:
        """Return the longest prefix of the hits that fits, by bisection, and its length."""
        low, high = 0, bisect_right(costs, self._tokens)
        best = FittedContext()
        middle = high  # usually all that may fit do
        while low < high:
            tried = self._render_and_count(hits[:middle])
            if tried.tokens <= self._tokens:
                best, low = tried, middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return best, low

    def _has_room(self, kept: FittedContext) -> bool:
        return self._tokens - kept.tokens >= MIN_ROOM * self._tokens

    def _try_adding(self, kept: FittedContext, hit: Hit) -> FittedContext | None:
        """Return the selection with one more hit, or None if that does not fit."""
        near = kept.hits if hit.chunk.doc_id in kept.documents else ()
        if kept.tokens + self._estimate_min_tokens(hit, near) > self._tokens:
            return None
        tried = self._render_and_count([*kept.hits, hit])
        return tried if tried.tokens <= self._tokens else None

    def _render_and_count(self, hits: Sequence[Hit]) -> FittedContext:
        passages = self._join(hits)
        text = self._write(passages)
        documents = frozenset(hit.chunk.doc_id for hit in hits)
        return FittedContext(tuple(hits), tuple(passages), text, self._count(text), documents=documents)

    def _estimate_min_tokens(self, hit: Hit, kept: Sequence[Hit]) -> int:
        """Estimate a cheap lower bound of the tokens that a hit adds to the text.

        Not counted: text that kept hits show, text that the renderer cuts off, headings that a longer entry loses, and
        the headings and blank lines of the text itself, which not every renderer writes.
        """
        chunk = hit.chunk
        text = chunk.text if self._max_chars is None else chunk.text[: self._max_chars]
        text = drop_blank_lines(drop_own_headings(text, chunk.headings))
        whole = self._count(text)
        if not kept:
            return whole
        near = [other.chunk for other in kept if other.chunk.doc_id == chunk.doc_id]
        if self._max_chars is not None:
            return 0
        shared = sum(max(0, min(chunk.end, each.end) - max(chunk.start, each.start)) for each in near)
        saved = sum(map(len, chunk.headings)) + 3 * len(chunk.headings)
        return whole - self._count(text[: shared + saved]) - 1

    def _fit_sentences(self, kept: FittedContext, hit: Hit) -> tuple[FittedContext, Hit] | None:
        """Add as many whole sentences of a hit as fit; return also the rest of the hit, or None if none fits."""
        if not self._has_room(kept):
            return None
        ends = [end for _, end in split_sentences(hit.chunk.text)][:-1]
        best: tuple[FittedContext, Hit] | None = None
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            head, rest = _split_hit(hit, ends[middle])
            tried = self._try_adding(kept, head)
            if tried is None:
                high = middle
            else:
                best, low = (tried, rest), middle + 1
        return best


def _split_hit(hit: Hit, at: int) -> tuple[Hit, Hit]:
    chunk = hit.chunk
    rest = chunk.text[at:].lstrip()
    head = replace(chunk, text=chunk.text[:at], end=chunk.start + at)
    tail = replace(chunk, text=rest, start=chunk.end - len(rest))
    return replace(hit, chunk=head), replace(hit, chunk=tail)
