"""A window of a channel as matrices: who speaks, who addresses whom, and which words are shared.

The first `start` messages are only candidates; those from there on need a parent. Authors and words are numbered within
the window, so its cost does not grow with the channel. Every feature of a message is computed over the `REACH` messages
before it alone, wherever the window starts.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.cues import MessageCues

REACH = 100  # candidates: the messages before each

Floats = NDArray[np.float32]
Ints = NDArray[np.intp]
Numbers = NDArray[Any]  # of any dtype: they become float32 when they are joined


@dataclass(frozen=True, slots=True)
class ChannelWindow:
    """n messages, of which `judged` need a parent; a authors, w words that occur in two messages or more."""

    judged: Ints  # positions of the messages that need a parent
    authors: Ints  # n
    has_author: NDArray[np.bool_]  # n
    minutes: NDArray[np.float64]  # n, nan where there is no time
    forms: Floats  # n × forms
    calls: Floats  # n × a: addresses the author
    names: Floats  # n × a: has the author's name somewhere
    words: Floats  # n × w
    unshared: Floats  # n: how many words no other message here has

    @classmethod
    def build(cls, cues: Sequence[MessageCues], start: int) -> "ChannelWindow":
        """The matrices of the messages; those from `start` on need a parent."""
        numbers: dict[str, int] = {}
        # Each message without an author gets an author of its own.
        authors = [numbers.setdefault(cue.author or f"\0{position}", len(numbers)) for position, cue in enumerate(cues)]
        by_alias: defaultdict[str, set[int]] = defaultdict(set)
        for cue, author in zip(cues, authors, strict=True):
            for name in cue.aliases:
                by_alias[name].add(author)
        calls, names = (np.zeros((len(cues), len(numbers)), np.float32) for _ in range(2))
        for position, cue in enumerate(cues):
            for name in cue.tokens & by_alias.keys():
                names[position, list(by_alias[name])] = 1
            for name in cue.addressed & by_alias.keys():
                calls[position, list(by_alias[name])] = 1
        author_ids = np.array(authors, np.intp)
        for own in (calls, names):  # nobody addresses themselves
            own[np.arange(len(cues)), author_ids] = 0
        words, single = _build_word_matrix(cues)
        return cls(
            np.arange(start, len(cues)),
            author_ids,
            np.array([bool(cue.author) for cue in cues]),
            np.array([cue.minute for cue in cues]),
            np.array([cue.forms for cue in cues], np.float32),
            calls,
            np.maximum(names, calls),
            words,
            single,
        )


@dataclass(frozen=True, slots=True)
class LookBack:
    """The r = REACH candidates of each of m messages."""

    window: ChannelWindow
    rows: Ints  # m: positions of the messages
    before: Ints  # m × r: positions of the candidates, the nearest first; 0 where there are no more
    valid: NDArray[np.bool_]  # m × r: whether there is a candidate
    low: Ints  # m: the first position in reach
    me: Ints  # m: the author of the message
    him: Ints  # m × r: the author of the candidate
    inside: Floats  # m × n: 1 in reach

    @classmethod
    def build(cls, window: ChannelWindow) -> "LookBack":
        """The candidates of every message of the window that needs a parent."""
        rows = window.judged
        back = rows[:, None] - np.arange(1, REACH + 1)
        before = np.maximum(back, 0)
        positions = np.arange(len(window.authors))
        low = np.maximum(rows - REACH, 0)
        inside = (positions >= low[:, None]) & (positions < rows[:, None])
        authors = window.authors
        return cls(window, rows, before, back >= 0, low, authors[rows], authors[before], inside.astype(np.float32))

    def gather_candidates(self, full: Numbers) -> Numbers:
        """The columns of the candidates: m × n becomes m × r."""
        return np.take_along_axis(full, self.before, axis=1)


class FeatureGroup(NamedTuple):
    """Some of the features by name: of pairs (m × r each) and of messages (m each)."""

    pairs: dict[str, Numbers]
    messages: dict[str, Numbers]


def log_scale(values: Numbers, unit_at: float = REACH) -> Numbers:
    """Counts on a logarithmic scale: 0 at 0, 1 at `unit_at`."""
    scaled: Numbers = np.log1p(np.maximum(values, 0)) / np.log1p(unit_at)
    return scaled


def prefix_sums(matrix: Floats) -> Floats:
    """The sum of the rows before each row, and of all rows at the end: one row more than given."""
    return np.concatenate([np.zeros((1, matrix.shape[1]), np.float32), np.cumsum(matrix, axis=0)])


def find_last_nonzero_row(matrix: Floats) -> Ints:
    """For each row, and for the end, the last row before it where the column is not 0, else -1; one row more."""
    positions = np.where(matrix > 0, np.arange(len(matrix))[:, None], -1)
    return np.concatenate([np.full((1, matrix.shape[1]), -1), np.maximum.accumulate(positions, axis=0)])


def _build_word_matrix(cues: Sequence[MessageCues]) -> tuple[Floats, Floats]:
    """Which message has which of the shared words, and how many unshared words each has."""
    counts = Counter(word for cue in cues for word in cue.words)
    column = {
        word: position for position, word in enumerate(sorted(word for word, count in counts.items() if count > 1))
    }
    matrix = np.zeros((len(cues), len(column)), np.float32)
    for position, cue in enumerate(cues):
        shared = [column[word] for word in cue.words if word in column]
        matrix[position, shared] = 1
    lone = [len(cue.words) for cue in cues] - matrix.sum(axis=1)
    return matrix, lone.astype(np.float32)
