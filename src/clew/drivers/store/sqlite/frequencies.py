"""Document frequencies: how many chunks have each word, for an index that does not hold the postings itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clew.core.stored import Hashes

MAX_RECENT = 8_192  # words whose changes are kept apart before they are merged into the rest


@dataclass(frozen=True, slots=True)
class CountTable:
    """Sorted words, and a number for each."""

    words: Hashes
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DocumentFrequencies:
    """The number of chunks that have each word: a large merged table, and a small one of the changes since."""

    merged: CountTable
    recent: CountTable


_NO_COUNTS = CountTable(np.empty(0, np.int64), np.empty(0, np.int64))
EMPTY = DocumentFrequencies(_NO_COUNTS, _NO_COUNTS)


def update_document_frequencies(
    frequencies: DocumentFrequencies, added: Hashes, removed: Sequence[Hashes] = ()
) -> DocumentFrequencies:
    """The frequencies after chunks with some words were added and chunks with others removed."""
    lost = np.concatenate([_NO_COUNTS.words, *removed])
    more = CountTable(added, np.ones(len(added), np.int64)), CountTable(lost, np.full(len(lost), -1, np.int64))
    recent = _sum_tables(frequencies.recent, *more)
    if len(recent.words) <= MAX_RECENT:
        return DocumentFrequencies(frequencies.merged, recent)
    return DocumentFrequencies(_sum_tables(frequencies.merged, recent), _NO_COUNTS)


def get_document_frequencies(frequencies: DocumentFrequencies, words: Hashes) -> NDArray[np.int64]:
    """How many chunks have each of the words."""
    return _look_up_counts(frequencies.merged, words) + _look_up_counts(frequencies.recent, words)


def save_document_frequencies(file: Path, frequencies: DocumentFrequencies) -> None:
    """Writes the frequencies to a file."""
    table = merge_document_frequencies(frequencies)
    with file.open("wb") as target:
        np.save(target, np.stack([table.words, table.numbers]), allow_pickle=False)


def merge_document_frequencies(frequencies: DocumentFrequencies) -> CountTable:
    """The frequencies as one table."""
    return _sum_tables(frequencies.merged, frequencies.recent)


def load_document_frequencies(file: Path) -> DocumentFrequencies:
    """The frequencies in a file; ValueError or OSError if they cannot be read."""
    try:
        with file.open("rb") as source:
            words, numbers = np.load(source, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # the header of a damaged file is parsed as Python, and raises what that raises
        raise ValueError(f"{file.name} cannot be read ({error})") from error
    if words.dtype != np.int64 or numbers.dtype != np.int64:
        raise ValueError(f"{file.name} does not hold counts")
    return DocumentFrequencies(CountTable(words, numbers), _NO_COUNTS)


def _look_up_counts(table: CountTable, words: Hashes) -> NDArray[np.int64]:
    if not len(table.words):
        return np.zeros(len(words), np.int64)
    at = np.minimum(table.words.searchsorted(words), len(table.words) - 1)
    return np.where(table.words[at] == words, table.numbers[at], 0)


def _sum_tables(*tables: CountTable) -> CountTable:
    """The sum of all tables, without the words whose numbers cancel out."""
    words, where = np.unique(np.concatenate([table.words for table in tables]), return_inverse=True)
    numbers = np.zeros(len(words), np.int64)
    np.add.at(numbers, where, np.concatenate([table.numbers for table in tables]))
    kept = numbers != 0
    return CountTable(words[kept], numbers[kept])
