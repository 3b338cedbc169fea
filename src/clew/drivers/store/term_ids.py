"""Terms as numbers: a word is a 64-bit hash, so that a chunk's terms are two small arrays.

With 64 bits, two of ten million words share a number with a probability of about one in 400,000.
"""

from functools import lru_cache

import numpy as np
from xxhash import xxh3_64_intdigest

from clew.core.stored import Counts, Hashes, Packed
from clew.core.text import Terms

__all__ = ["Counts", "Hashes", "Packed", "pack"]

MOST = 65_535  # of a word in a chunk that are counted


def pack(terms: Terms | Packed) -> Packed:
    """The terms as arrays; a word whose count is not positive is left out. What another store packed stays as it is."""
    if isinstance(terms, Packed):
        return terms
    some = terms if min(terms.values(), default=1) > 0 else {word: count for word, count in terms.items() if count > 0}
    pairs = sorted(zip(map(_hash, some), some.values(), strict=True))
    hashes, counts = [word for word, _ in pairs], [count for _, count in pairs]
    capped = counts if max(counts, default=0) <= MOST else [min(count, MOST) for count in counts]
    return Packed(np.array(hashes, np.int64), np.array(capped, np.uint16), sum(counts))


@lru_cache(1 << 15)  # most words come again
def _hash(word: str) -> int:
    """Signed, as SQLite and PostgreSQL keep numbers."""
    digest = xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"))
    return digest - (1 << 64) if digest >> 63 else digest
