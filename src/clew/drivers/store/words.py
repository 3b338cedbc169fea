"""Terms as numbers: a word is a 64-bit hash, so that a chunk's terms are two small arrays.

With 64 bits, two of ten million words share a number with a probability of about one in 400,000.
"""

import numpy as np
from xxhash import xxh3_64_intdigest

from clew.core.text import Terms
from clew.core.whole import Counts, Hashes, Packed

__all__ = ["Counts", "Hashes", "Packed", "pack"]

MOST = 65_535  # of a word in a chunk that are counted


def pack(terms: Terms | Packed) -> Packed:
    """The terms as arrays; a word whose count is not positive is left out. What another store packed stays as it is."""
    if isinstance(terms, Packed):
        return terms
    some = {word: count for word, count in terms.items() if count > 0}
    digests = [xxh3_64_intdigest(word.encode("utf-8", "surrogatepass")) for word in some]
    hashes = np.array(digests, np.uint64).view(np.int64)  # signed, as SQLite and PostgreSQL keep numbers
    counts = np.array(list(some.values()), np.int64)
    order = np.argsort(hashes)
    return Packed(hashes[order], np.minimum(counts, MOST)[order].astype(np.uint16), int(counts.sum()))
