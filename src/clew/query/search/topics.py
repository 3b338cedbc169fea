"""Where a conversation turns to another topic: the step between messages and queries, instead of cuts by length.

A stretch of messages holds together as far as their vectors point the same way, in meaning and in words. The cuts are
those under which all stretches together hold best, each cut at a price; dynamic programming finds them. Utiyama and
Isahara, "A Statistical Model for Domain-Independent Text Segmentation", 2001, with vectors in place of words. Cuts at
the deepest dips of similarity (Hearst's TextTiling, 1997) measured worse: `python -m studies.topics`.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import SettingsError
from clew.core.text import Terms, estimate_tokens, terms
from clew.core.types import Matrix, Message

Embed = Callable[[Sequence[str]], Matrix]
Floats = NDArray[np.float64]

GRANULARITY = 0.22  # a cut's price in mean messages, over the square root of how many there are
LEXICAL = 0.5  # how much words count beside meaning
ANSWER = 0.4  # what it costs, in mean messages, to part a question from what another says next
PAUSE = 0.5  # how much of the price a pause takes away that is LONG times the usual one
LONG = 100.0
REACH = 500  # messages that a topic has at most, which bounds the work
VOCABULARY = 1024  # words that are compared; the rest count as said once


@dataclass(frozen=True, slots=True)
class _Parts:
    """Sums over the first messages, so that a stretch is a difference of two."""

    sums: Floats
    apart: Floats
    weights: Floats
    tokens: Floats
    common: float  # what any two messages share, which says nothing

    def held(self, low: int, end: int) -> Floats:
        """How much each stretch up to `end` holds together: the length of the sum of its rows."""
        between = self.sums[end] - self.sums[low:end]
        squares = np.einsum("ij,ij->i", between, between) + self.apart[end] - self.apart[low:end]
        squares -= self.common * (self.weights[end] - self.weights[low:end]) ** 2
        held: Floats = np.sqrt(np.maximum(squares, 0.0))
        return held


def boundaries(
    messages: Sequence[Message],
    embed: Embed | None,
    *,
    granularity: float = GRANULARITY,
    lexical: float = LEXICAL,
    unrelated: float = 0.0,
    max_tokens: int | None = None,
    language: str = "auto",
) -> list[int]:
    """The positions of the messages, the first left out, at which a topic begins; by words alone without `embed`.

    A greater `granularity` cuts less; `lexical`, from 0 to 1, is the weight of words beside meaning; `unrelated` is the
    cosine that the embedder gives to texts that have nothing in common (its `min_similarity`). No topic has more than
    about `max_tokens`, unless a single message does.
    """
    if granularity < 0:
        raise SettingsError(f"granularity is {granularity}; it must be at least 0")
    if not 0 <= lexical <= 1:
        raise SettingsError(f"lexical is {lexical}; it must be between 0 and 1")
    if not 0 <= unrelated < 1:
        raise SettingsError(f"unrelated is {unrelated}; it must be at least 0 and below 1")
    if max_tokens is not None and max_tokens < 1:
        raise SettingsError(f"max_tokens is {max_tokens}; it must be at least 1")
    if len(messages) < 2:
        return []
    counted = [terms(message.text, language=language) if message.text.strip() else {} for message in messages]
    weights = np.log1p([sum(each.values()) for each in counted])
    if not weights.any():
        return []
    rows, apart = _worded(counted)
    common = 0.0
    if embed is None or lexical == 1:
        lexical = 1.0
    else:
        meaning = np.asarray(embed([message.text or " " for message in messages]), np.float64)
        share = (1 - lexical) / (1 - unrelated)
        common = share * unrelated
        rows = np.hstack([meaning * math.sqrt(share), rows * math.sqrt(lexical)])
        apart = apart * lexical
    parts = _Parts(
        sums=_summed(rows * weights[:, None]),
        apart=_summed(apart * weights**2),
        weights=_summed(weights),
        tokens=_summed(np.array([estimate_tokens(message.text) for message in messages], float)),
        common=common,
    )
    return _cut(parts, _prices(messages, granularity, weights), max_tokens)


def segments(
    messages: Sequence[Message],
    embed: Embed | None,
    *,
    granularity: float = GRANULARITY,
    lexical: float = LEXICAL,
    unrelated: float = 0.0,
    max_tokens: int | None = None,
    language: str = "auto",
) -> list[tuple[Message, ...]]:
    """The messages in order as topics, each a run of them; none for no messages."""
    starts = boundaries(
        messages,
        embed,
        granularity=granularity,
        lexical=lexical,
        unrelated=unrelated,
        max_tokens=max_tokens,
        language=language,
    )
    return [tuple(messages[start:end]) for start, end in pairwise([0, *starts, len(messages)]) if end > start]


def _worded(counted: Sequence[Terms]) -> tuple[Floats, Floats]:
    """A row of weighted words a message, of unit length together with its second part: what no other message says."""
    messages = len(counted)
    frequency = Counter(term for each in counted for term in each)
    shared = sorted((term for term, times in frequency.items() if times > 1), key=lambda term: (-frequency[term], term))
    place = {term: at for at, term in enumerate(shared[:VOCABULARY])}
    rows = np.zeros((messages, len(place)))
    apart = np.zeros(messages)
    for row, each in enumerate(counted):
        for term, times in each.items():
            weight = (1 + math.log(times)) * math.log1p(messages / frequency[term])
            if term in place:
                rows[row, place[term]] = weight
            else:
                apart[row] += weight**2
    lengths = np.maximum(np.sqrt((rows**2).sum(axis=1) + apart), 1e-9)
    return rows / lengths[:, None], apart / lengths**2


def _prices(messages: Sequence[Message], granularity: float, weights: Floats) -> Floats:
    """What a cut before each message costs: less after a long pause, more where another answers a question."""
    mean = float(weights.mean())
    price = np.full(len(messages), granularity * math.sqrt(len(messages)) * mean)
    pauses = [_pause(before, after) for before, after in pairwise(messages)]
    known = [pause for pause in pauses if pause]
    usual = median(known) if known else 0.0
    for at, (before, after) in enumerate(pairwise(messages), 1):
        pause = pauses[at - 1]
        if pause > usual > 0:
            price[at] *= 1 - PAUSE * min(1.0, math.log(pause / usual) / math.log(LONG))
        if any(sign in before.text for sign in "?？؟") and not (before.author and before.author == after.author):
            price[at] += ANSWER * mean
    return price


def _pause(before: Message, after: Message) -> float:
    """The seconds between two messages; 0 where a time is missing or they cannot be compared."""
    if before.at is None or after.at is None or (before.at.tzinfo is None) != (after.at.tzinfo is None):
        return 0.0
    return max(0.0, (after.at - before.at).total_seconds())


def _summed(values: Floats) -> Floats:
    """The sums of the first rows, of none at first."""
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])


def _cut(parts: _Parts, prices: Floats, max_tokens: int | None) -> list[int]:
    """The starts under which what the topics hold, less the prices, comes to the most."""
    count = len(prices)
    best = np.zeros(count + 1)
    came = [0] * (count + 1)
    low = 0
    for end in range(1, count + 1):
        low = max(low, end - REACH)
        while max_tokens is not None and low < end - 1 and parts.tokens[end] - parts.tokens[low] > max_tokens:
            low += 1
        totals = best[low:end] + parts.held(low, end) - prices[low:end]
        came[end] = low + int(np.argmax(totals))
        best[end] = totals[came[end] - low]
    starts = []
    at = came[count]
    while at:
        starts.append(at)
        at = came[at]
    return starts[::-1]
