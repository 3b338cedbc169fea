"""Terms as numbers: a word is a 64-bit hash, so a chunk's terms are two small arrays.

With 64 bits, two of ten million words share a hash with a probability of about one in 400,000.
"""

from collections.abc import Sequence

import numpy as np
from xxhash import xxh3_64_intdigest

from clew.core.memo import Memo
from clew.core.stored import Hashes, PackedTerms
from clew.core.text import Terms

MAX_COUNT = 65_535  # of one word in a chunk


def pack_terms(terms: Terms | PackedTerms) -> PackedTerms:
    """The terms as arrays, without words whose count is not positive; packed terms are returned as they are."""
    if isinstance(terms, PackedTerms):
        return terms
    some = terms if min(terms.values(), default=1) > 0 else {word: count for word, count in terms.items() if count > 0}
    hashes = np.fromiter(map(_HASHES.__getitem__, some), np.int64, len(some))
    counts = np.fromiter(some.values(), np.int64, len(some))
    order = hashes.argsort()
    return PackedTerms(hashes[order], np.minimum(counts, MAX_COUNT)[order].astype(np.uint16), int(counts.sum()))


def hash_terms(terms: Sequence[str]) -> Hashes:
    """The number of each term, in their order."""
    return np.array([_HASHES[term] for term in terms], np.int64)


def _hash_word(word: str) -> int:
    """A signed hash, as SQLite and PostgreSQL store numbers."""
    digest = xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"))
    return digest - (1 << 64) if digest >> 63 else digest


_HASHES = Memo(_hash_word, max_key=64)  # most words come again
