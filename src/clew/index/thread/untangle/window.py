"""A stretch of a channel as matrices: who speaks, who calls whom, how often and when last, which words are shared.

The first `start` messages are only looked back at; those from there on are judged. Authors and words are numbered
within the stretch, so its cost does not grow with the channel. Whatever is asked of a judged message is counted over
the `REACH` messages before it alone, wherever the stretch happens to begin.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.reading import Said

REACH = 100  # messages that are looked back at

Floats = NDArray[np.float32]
Ints = NDArray[np.intp]
Numbers = NDArray[Any]  # of any kind: they become float32 where they are put together


@dataclass(frozen=True, slots=True)
class Window:
    """`n` messages, of which `judged` are asked about; `a` authors, `w` words that occur twice or more."""

    judged: Ints  # positions of the judged messages
    authors: Ints  # n
    known: NDArray[np.bool_]  # n: has an author at all
    minutes: NDArray[np.float64]  # n, nan where there is no time
    forms: Floats  # n × forms
    calls: Floats  # n × a: addresses the author
    names: Floats  # n × a: has the author's name somewhere
    words: Floats  # n × w
    single: Floats  # n: words that no other message here has

    @classmethod
    def of(cls, said: Sequence[Said], start: int) -> "Window":
        """The matrices of the messages; those from `start` on are judged."""
        numbers: dict[str, int] = {}
        # Each message without an author is by somebody of its own.
        authors = [numbers.setdefault(one.author or f"\0{place}", len(numbers)) for place, one in enumerate(said)]
        bearers: defaultdict[str, set[int]] = defaultdict(set)
        for one, author in zip(said, authors, strict=True):
            for name in one.names:
                bearers[name].add(author)
        calls, names = (np.zeros((len(said), len(numbers)), np.float32) for _ in range(2))
        for place, one in enumerate(said):
            for name in one.named & bearers.keys():
                names[place, list(bearers[name])] = 1
            for name in one.called & bearers.keys():
                calls[place, list(bearers[name])] = 1
        everyone = np.array(authors, np.intp)
        for own in (calls, names):  # nobody speaks to themselves
            own[np.arange(len(said)), everyone] = 0
        words, single = _words(said)
        return cls(
            np.arange(start, len(said)),
            everyone,
            np.array([bool(one.author) for one in said]),
            np.array([one.minute for one in said]),
            np.array([one.forms for one in said], np.float32),
            calls,
            np.maximum(names, calls),
            words,
            single,
        )


@dataclass(frozen=True, slots=True)
class View:
    """What each of m judged messages sees when it looks back at r = REACH messages."""

    window: Window
    rows: Ints  # m: their positions
    before: Ints  # m × r: the positions before each, the nearest first; 0 where there are no more
    there: NDArray[np.bool_]  # m × r
    low: Ints  # m: the first position in reach
    me: Ints  # m: the author
    him: Ints  # m × r: the author of each before
    inside: Floats  # m × n: 1 in reach

    @classmethod
    def of(cls, window: Window) -> "View":
        """The view from every judged message of the window."""
        rows = window.judged
        back = rows[:, None] - np.arange(1, REACH + 1)
        before = np.maximum(back, 0)
        places = np.arange(len(window.authors))
        low = np.maximum(rows - REACH, 0)
        inside = (places >= low[:, None]) & (places < rows[:, None])
        authors = window.authors
        return cls(window, rows, before, back >= 0, low, authors[rows], authors[before], inside.astype(np.float32))

    def at(self, full: Numbers) -> Numbers:
        """m × n as m × r."""
        return np.take_along_axis(full, self.before, axis=1)


class Part(NamedTuple):
    """Some of the features by name: of pairs (m × r each) and of the messages themselves (m each)."""

    pairs: dict[str, Numbers]
    opens: dict[str, Numbers]


def level(values: Numbers, top: float = REACH) -> Numbers:
    """Counts on a scale of ratios: 0 at 0, 1 at `top`."""
    scaled: Numbers = np.log1p(np.maximum(values, 0)) / np.log1p(top)
    return scaled


def sums(matrix: Floats) -> Floats:
    """The sum of the rows before each row and before the end: one row more than given."""
    return np.concatenate([np.zeros((1, matrix.shape[1]), np.float32), np.cumsum(matrix, axis=0)])


def latest(matrix: Floats) -> Ints:
    """For each row, and for the end, the last row before it where the column is not 0, else -1: one row more."""
    places = np.where(matrix > 0, np.arange(len(matrix))[:, None], -1)
    return np.concatenate([np.full((1, matrix.shape[1]), -1), np.maximum.accumulate(places, axis=0)])


def _words(said: Sequence[Said]) -> tuple[Floats, Floats]:
    """Which message has which of the words that two messages share, and how many others each has."""
    counts = Counter(word for one in said for word in one.words)
    column = {word: place for place, word in enumerate(sorted(word for word, count in counts.items() if count > 1))}
    matrix = np.zeros((len(said), len(column)), np.float32)
    for place, one in enumerate(said):
        shared = [column[word] for word in one.words if word in column]
        matrix[place, shared] = 1
    lone = [len(one.words) for one in said] - matrix.sum(axis=1)
    return matrix, lone.astype(np.float32)
