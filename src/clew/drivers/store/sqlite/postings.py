"""Posting lists in memory: the chunks that have a word, in a large sorted part and a small unsorted one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.core.stored import Hashes

Slots = NDArray[np.int32]

MAX_UNSORTED = 32_768  # each word of a query scans the unsorted part: 8 microseconds for this many
SORTED_SHARE = 8  # the unsorted part may grow to this fraction of the sorted one


@dataclass(frozen=True, slots=True)
class Postings:
    """Word, chunk and count as three columns; the first `sorted_size` entries are sorted by word, `used` are filled."""

    words: Hashes
    slots: Slots
    counts: NDArray[np.float32]
    sorted_size: int
    used: int


EMPTY = Postings(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0, 0)


def extend_postings(postings: Postings, words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> Postings:
    """The postings with more entries.

    Spare room behind the used entries is filled in place, so that adding one chunk does not copy all; an older value
    of these postings never sees it.
    """
    used = postings.used + len(words)
    if used - postings.sorted_size > max(MAX_UNSORTED, postings.sorted_size // SORTED_SHARE):
        return _sort_postings(
            np.concatenate([postings.words[: postings.used], words]),
            np.concatenate([postings.slots[: postings.used], slots]),
            np.concatenate([postings.counts[: postings.used], counts]),
        )
    if used > len(postings.words):
        postings = _grow_postings(postings, used)
    new = ((postings.words, words), (postings.slots, slots), (postings.counts, counts))
    for column, more in new:
        column[postings.used : used] = more
    return Postings(postings.words, postings.slots, postings.counts, postings.sorted_size, used)


def find_postings(postings: Postings, words: Hashes) -> list[tuple[Slots, NDArray[np.float32]]]:
    """For each word the slots of the chunks that have it, each once and in order, with its counts in them."""
    in_order = postings.words[: postings.sorted_size]
    firsts, ends = in_order.searchsorted(words).tolist(), in_order.searchsorted(words, side="right").tolist()
    found = [(postings.slots[a:z], postings.counts[a:z]) for a, z in zip(firsts, ends, strict=True)]
    if postings.used == postings.sorted_size:
        return found
    tail = slice(postings.sorted_size, postings.used)
    tail_words, tail_slots, tail_counts = postings.words[tail], postings.slots[tail], postings.counts[tail]
    more = [np.flatnonzero(tail_words == word) for word in words]
    return [
        (np.concatenate([slots, tail_slots[at]]), np.concatenate([counts, tail_counts[at]]))
        if len(at)
        else (slots, counts)
        for (slots, counts), at in zip(found, more, strict=True)
    ]


def look_up_counts(found: Sequence[tuple[Slots, NDArray[np.float32]]], slots: Slots) -> NDArray[np.float32]:
    """The count of each word that `find_postings` found (a row) in the chunk of each slot (a column)."""
    table = np.zeros((len(found), len(slots)), np.float32)
    for row, (having, counts) in zip(table, found, strict=True):
        if len(having):
            at = np.minimum(having.searchsorted(slots), len(having) - 1)
            np.copyto(row, counts[at], where=having[at] == slots)
    return table


def _sort_postings(words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> Postings:
    order = np.argsort(words, kind="stable")
    return Postings(words[order], slots[order], counts[order], len(words), len(words))


def _grow_postings(postings: Postings, used: int) -> Postings:
    room = used + max(1024, used // 8)
    words, slots, counts = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.float32)
    for new, old in ((words, postings.words), (slots, postings.slots), (counts, postings.counts)):
        new[: postings.used] = old[: postings.used]
    return Postings(words, slots, counts, postings.sorted_size, postings.used)
