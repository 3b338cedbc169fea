"""Topic segmentation: where to split a conversation into queries, instead of by length.

The cohesion of a segment is the length of the sum of its messages' vectors of weighted words. The best cuts maximise
the total cohesion less a cost per cut; dynamic programming finds them. Utiyama and Isahara, "A Statistical Model for
Domain-Independent Text Segmentation", 2001. Cuts at the deepest dips of similarity (Hearst's TextTiling, 1997) measured
worse, and adding embeddings gained nothing in long conversations: `python -m studies.topics`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import SettingsError
from clew.core.text import Terms, estimate_tokens, extract_terms
from clew.core.types import Message

Floats = NDArray[np.float64]

GRANULARITY = 0.22  # cost of a cut in mean message weights, times the square root of their number
ANSWER_COST = 0.4  # extra cost, in mean message weights, of a cut before an answer or an elliptic question
PAUSE_DISCOUNT = 0.5  # share of the cost that a pause of LONG_PAUSE times the median removes
LONG_PAUSE = 100.0
MAX_TOPIC_MESSAGES = 500  # bounds the work
MAX_VOCABULARY = 1024  # terms that are compared; the rest count as unique to their message


@dataclass(frozen=True, slots=True)
class _PrefixSums:
    """Prefix sums over the messages, so that a segment is a difference of two."""

    sums: Floats
    unique: Floats  # squared weights of the terms that no other message has
    tokens: Floats

    def compute_cohesions(self, low: int, end: int) -> Floats:
        """Compute the cohesion of each segment from `low` or later up to `end`: the length of the sum of its rows."""
        sums = self.sums[end] - self.sums[low:end]
        squares = np.einsum("ij,ij->i", sums, sums) + self.unique[end] - self.unique[low:end]
        lengths: Floats = np.sqrt(np.maximum(squares, 0.0))
        return lengths


def find_topic_starts(
    messages: Sequence[Message],
    *,
    granularity: float = GRANULARITY,
    max_tokens: int | None = None,
    language: str = "auto",
) -> list[int]:
    """Find the positions at which a new topic starts; the first message is never one of them.

    A greater `granularity` cuts less. No topic has more than about `max_tokens`, unless a single message does.
    """
    if granularity < 0:
        raise SettingsError(f"granularity is {granularity}; it must be at least 0")
    if max_tokens is not None and max_tokens < 1:
        raise SettingsError(f"max_tokens is {max_tokens}; it must be at least 1")
    if len(messages) < 2:
        return []
    texts = [message.text for message in messages]
    term_counts = [extract_terms(text, language=language) if text.strip() else {} for text in texts]
    weights = np.log1p([sum(each.values()) for each in term_counts])
    if not weights.any():
        return []
    rows, unique = _weigh_terms(term_counts)
    prefix_sums = _PrefixSums(
        sums=_sum_prefixes(rows * weights[:, None]),
        unique=_sum_prefixes(unique * weights**2),
        tokens=_sum_prefixes(np.array([estimate_tokens(text) for text in texts], float)),
    )
    return _find_best_cuts(prefix_sums, _compute_cut_costs(messages, granularity, weights), max_tokens)


def split_messages_by_topic(
    messages: Sequence[Message], *, max_tokens: int | None = None, language: str = "auto"
) -> list[tuple[Message, ...]]:
    """Split messages, in order, into topics; none for no messages."""
    starts = find_topic_starts(messages, max_tokens=max_tokens, language=language)
    return [tuple(messages[start:end]) for start, end in pairwise([0, *starts, len(messages)]) if end > start]


def _weigh_terms(term_counts: Sequence[Terms]) -> tuple[Floats, Floats]:
    """Return per message a row of term weights and the squared weight of its unique terms, scaled to length 1."""
    messages = len(term_counts)
    frequency = Counter(term for each in term_counts for term in each)
    shared = sorted((term for term, times in frequency.items() if times > 1), key=lambda term: (-frequency[term], term))
    column = {term: at for at, term in enumerate(shared[:MAX_VOCABULARY])}
    rows = np.zeros((messages, len(column)))
    unique = np.zeros(messages)
    for row, each in enumerate(term_counts):
        for term, times in each.items():
            weight = (1 + math.log(times)) * math.log1p(messages / frequency[term])
            if term in column:
                rows[row, column[term]] = weight
            else:
                unique[row] += weight**2
    lengths = np.maximum(np.sqrt((rows**2).sum(axis=1) + unique), 1e-9)
    return rows / lengths[:, None], unique / lengths**2


def _compute_cut_costs(messages: Sequence[Message], granularity: float, weights: Floats) -> Floats:
    """Compute the cost of a cut before each message: less after a pause, more between a question and its answer."""
    from clew.query.rewrite.rewrites import is_elliptic  # many patterns, which other searches do not need

    mean = float(weights.mean())
    costs = np.full(len(messages), granularity * math.sqrt(len(messages)) * mean)
    pauses = [_seconds_between(before, after) for before, after in pairwise(messages)]
    known = [pause for pause in pauses if pause]
    typical = median(known) if known else 0.0
    for at, (before, after) in enumerate(pairwise(messages), 1):
        pause = pauses[at - 1]
        if pause > typical > 0:
            costs[at] *= 1 - PAUSE_DISCOUNT * min(1.0, math.log(pause / typical) / math.log(LONG_PAUSE))
        is_answer = _asks(before.text) and not (before.author and before.author == after.author)
        if is_answer or (_asks(after.text) and is_elliptic(after.text)):
            costs[at] += ANSWER_COST * mean
    return costs


def _asks(text: str) -> bool:
    return any(sign in text for sign in "?？؟")


def _seconds_between(before: Message, after: Message) -> float:
    """Return the seconds between two messages; 0 where a time is missing or they cannot be compared."""
    if before.at is None or after.at is None or (before.at.tzinfo is None) != (after.at.tzinfo is None):
        return 0.0
    return max(0.0, (after.at - before.at).total_seconds())


def _sum_prefixes(values: Floats) -> Floats:
    """Sum the prefixes of the rows, starting with 0."""
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])


def _find_best_cuts(prefix_sums: _PrefixSums, costs: Floats, max_tokens: int | None) -> list[int]:
    """Find the starts of the segmentation with the greatest total cohesion less the costs."""
    count = len(costs)
    tokens = prefix_sums.tokens
    best = np.zeros(count + 1)
    previous = [0] * (count + 1)
    low = 0
    for end in range(1, count + 1):
        low = max(low, end - MAX_TOPIC_MESSAGES)
        while max_tokens is not None and low < end - 1 and tokens[end] - tokens[low] > max_tokens:
            low += 1
        totals = best[low:end] + prefix_sums.compute_cohesions(low, end) - costs[low:end]
        previous[end] = low + int(np.argmax(totals))
        best[end] = totals[previous[end] - low]
    starts = []
    at = previous[count]
    while at:
        starts.append(at)
        at = previous[at]
    return starts[::-1]
