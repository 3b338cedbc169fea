"""Scores of rows by the words of a query, from the terms that the database keeps of them."""

import numpy as np
from numpy.typing import NDArray

from clew.core.stored import Counts, Hashes
from clew.drivers.store import bm25
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.sqlite.signals import RowTerms


def measure_rows(read: RowTerms, words: Hashes, weights: Floats, average: float) -> tuple[Floats, Floats]:
    """The share and the strength of rows, for sorted words with these weights."""
    places, owners, found = _find_words(read, words)
    counts = np.zeros((len(words), len(read.rows)), np.float32)
    counts[places, owners] = found
    return bm25.measure_terms(weights, counts, bm25.length_norm(read.lengths, average))


def score_rows_by_bm25(read: RowTerms, words: Hashes, weights: Floats, average: float) -> Floats:
    """The BM25 score of each row, for sorted words and their weights."""
    places, owners, counts = _find_words(read, words)
    norms = bm25.length_norm(read.lengths, average)[owners]
    parts = weights[places] * bm25.saturate(counts.astype(np.float32), norms)
    sums = np.bincount(owners, parts, minlength=len(read.rows)).astype(np.float64, copy=False)
    return sums.round(bm25.DIGITS)


def _find_words(read: RowTerms, words: Hashes) -> tuple[NDArray[np.intp], NDArray[np.intp], Counts]:
    """Where the rows have any of the sorted words: the position of the word, that of the row, and the count."""
    if not len(words):
        none = np.empty(0, np.intp)
        return none, none, read.counts[:0]
    places = words.searchsorted(read.terms)
    at = np.flatnonzero(words.take(places, mode="clip") == read.terms)
    owners = np.repeat(np.arange(len(read.rows)), read.sizes)
    return places[at], owners[at], read.counts[at]
