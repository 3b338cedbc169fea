"""How many chunks have each word, for an index that does not hold the postings itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clew.drivers.store.term_ids import Hashes

MOST_RECENT = 8_192  # words whose changes are kept beside the many before they are merged into them


@dataclass(frozen=True, slots=True)
class Tally:
    """Words in order, and a number for each."""

    words: Hashes
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WordCounts:
    """The number of chunks that have each word: as it was a while ago, and by how much it has changed since."""

    settled: Tally
    recent: Tally


_NONE = Tally(np.empty(0, np.int64), np.empty(0, np.int64))
EMPTY = WordCounts(_NONE, _NONE)


def changed(counts: WordCounts, added: Hashes, removed: Sequence[Hashes] = ()) -> WordCounts:
    """The counts when chunks with some words have come and chunks with others have gone."""
    lost = np.concatenate([_NONE.words, *removed])
    more = Tally(added, np.ones(len(added), np.int64)), Tally(lost, np.full(len(lost), -1, np.int64))
    recent = _summed(counts.recent, *more)
    if len(recent.words) <= MOST_RECENT:
        return WordCounts(counts.settled, recent)
    return WordCounts(_summed(counts.settled, recent), _NONE)


def having(counts: WordCounts, words: Hashes) -> NDArray[np.int64]:
    """How many chunks have each of the words."""
    return _numbers(counts.settled, words) + _numbers(counts.recent, words)


def save(file: Path, counts: WordCounts) -> None:
    """Writes the counts to a file."""
    tally = _summed(counts.settled, counts.recent)
    with file.open("wb") as to:
        np.save(to, np.stack([tally.words, tally.numbers]), allow_pickle=False)


def load(file: Path) -> WordCounts:
    """The counts in a file; ValueError, EOFError or OSError where they cannot be read."""
    with file.open("rb") as of:
        words, numbers = np.load(of, allow_pickle=False)
    return WordCounts(Tally(words, numbers), _NONE)


def _numbers(tally: Tally, words: Hashes) -> NDArray[np.int64]:
    if not len(tally.words):
        return np.zeros(len(words), np.int64)
    at = np.minimum(tally.words.searchsorted(words), len(tally.words) - 1)
    return np.where(tally.words[at] == words, tally.numbers[at], 0)


def _summed(*tallies: Tally) -> Tally:
    """One tally of all, without the words whose numbers cancel out."""
    words, where = np.unique(np.concatenate([each.words for each in tallies]), return_inverse=True)
    numbers = np.zeros(len(words), np.int64)
    np.add.at(numbers, where, np.concatenate([each.numbers for each in tallies]))
    kept = numbers != 0
    return Tally(words[kept], numbers[kept])
