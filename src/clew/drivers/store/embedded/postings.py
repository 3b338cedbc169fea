"""Postings: for each word the chunks that have it, sorted in a large part and as they came in a small one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.drivers.store.term_ids import Hashes

Slots = NDArray[np.int32]

MOST_UNSORTED = 32_768  # each word of a query scans the unsorted part: 8 microseconds for this many
SORTED_SHARE = 8  # the unsorted part may grow to this fraction of the sorted one


@dataclass(frozen=True, slots=True)
class Postings:
    """Word, chunk and count as three columns; the first `settled` entries are sorted by word, `used` are filled."""

    words: Hashes
    slots: Slots
    counts: NDArray[np.float32]
    settled: int
    used: int


EMPTY = Postings(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0, 0)


def extended(postings: Postings, words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> Postings:
    """The postings with some more.

    Room that lies beyond what an older value of these postings uses is filled in place, so that adding one chunk to
    many does not copy them; what the older value shows never changes.
    """
    used = postings.used + len(words)
    if used - postings.settled > max(MOST_UNSORTED, postings.settled // SORTED_SHARE):
        return _sorted(
            np.concatenate([postings.words[: postings.used], words]),
            np.concatenate([postings.slots[: postings.used], slots]),
            np.concatenate([postings.counts[: postings.used], counts]),
        )
    if used > len(postings.words):
        postings = _roomier(postings, used)
    new = ((postings.words, words), (postings.slots, slots), (postings.counts, counts))
    for column, more in new:
        column[postings.used : used] = more
    return Postings(postings.words, postings.slots, postings.counts, postings.settled, used)


def having(postings: Postings, words: Hashes) -> list[tuple[Slots, NDArray[np.float32]]]:
    """For each word the chunks that have it, each once, with its count in them."""
    settled = postings.words[: postings.settled]
    firsts, ends = settled.searchsorted(words).tolist(), settled.searchsorted(words, side="right").tolist()
    found = [(postings.slots[a:z], postings.counts[a:z]) for a, z in zip(firsts, ends, strict=True)]
    if postings.used == postings.settled:
        return found
    tail = slice(postings.settled, postings.used)
    tail_words, tail_slots, tail_counts = postings.words[tail], postings.slots[tail], postings.counts[tail]
    more = [np.flatnonzero(tail_words == word) for word in words]
    return [
        (np.concatenate([slots, tail_slots[at]]), np.concatenate([counts, tail_counts[at]]))
        if len(at)
        else (slots, counts)
        for (slots, counts), at in zip(found, more, strict=True)
    ]


def _sorted(words: Hashes, slots: Slots, counts: NDArray[np.float32]) -> Postings:
    order = np.argsort(words, kind="stable")
    return Postings(words[order], slots[order], counts[order], len(words), len(words))


def _roomier(postings: Postings, used: int) -> Postings:
    room = used + max(1024, used // 8)
    words, slots, counts = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.float32)
    for new, old in ((words, postings.words), (slots, postings.slots), (counts, postings.counts)):
        new[: postings.used] = old[: postings.used]
    return Postings(words, slots, counts, postings.settled, postings.used)
