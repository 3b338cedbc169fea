"""Terms as numbers: a word is a 64-bit hash, so that a chunk's terms are two small arrays.

With 64 bits, two of ten million words share a number with a probability of about one in 400,000.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from clew.core.text import Terms

Hashes = NDArray[np.int64]
Counts = NDArray[np.uint16]

MOST = 65_535  # of a word in a chunk that are counted


@dataclass(frozen=True, slots=True)
class Packed:
    """The terms of a chunk: the hash and the count of each word in the order of the hashes, and how many in all."""

    hashes: Hashes
    counts: Counts
    length: int


def pack(terms: Terms) -> Packed:
    """The terms as arrays; a word whose count is not positive is left out."""
    some = {word: count for word, count in terms.items() if count > 0}
    digests = [xxh3_64_intdigest(word.encode("utf-8", "surrogatepass")) for word in some]
    hashes = np.array(digests, np.uint64).view(np.int64)  # signed, as SQLite and PostgreSQL keep numbers
    counts = np.array(list(some.values()), np.int64)
    order = np.argsort(hashes)
    return Packed(hashes[order], np.minimum(counts, MOST)[order].astype(np.uint16), int(counts.sum()))
