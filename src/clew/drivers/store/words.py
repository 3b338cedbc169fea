"""Terms as numbers: a word is a 64-bit hash, so that a chunk's terms are two small arrays.

With 64 bits, two of ten million words share a number with a probability of about one in 400,000.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

Terms = Mapping[str, int]
Hashes = NDArray[np.int64]
Counts = NDArray[np.uint16]

_MOST = int(np.iinfo(np.uint16).max)
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class Packed:
    """The terms of a chunk: the hash and the count of each word in the order of the hashes, and how many in all."""

    hashes: Hashes
    counts: Counts
    length: int


def number(word: str) -> int:
    """The word's hash as a signed 64-bit number, which is what SQLite and PostgreSQL can keep."""
    value = xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"))
    return value - (1 << 64) if value >= _SIGN else value


def pack(terms: Terms) -> Packed:
    """The terms as arrays; a word whose count is not positive is left out."""
    pairs = sorted((number(word), count) for word, count in terms.items() if count > 0)
    hashes = np.fromiter((pair[0] for pair in pairs), dtype=np.int64, count=len(pairs))
    counts = np.fromiter((min(pair[1], _MOST) for pair in pairs), dtype=np.uint16, count=len(pairs))
    return Packed(hashes, counts, sum(pair[1] for pair in pairs))


def changes(added: Iterable[Hashes], removed: Iterable[Hashes]) -> list[tuple[int, int]]:
    """By how much the number of chunks that have a word grows or shrinks, for each word for which it does."""
    plus, minus = _joined(added), _joined(removed)
    words, where = np.unique(np.concatenate([plus, minus]), return_inverse=True)
    signs = np.concatenate([np.ones(len(plus), np.int64), np.full(len(minus), -1, np.int64)])
    by = np.zeros(len(words), np.int64)
    np.add.at(by, where, signs)
    moved = by != 0
    return list(zip(words[moved].tolist(), by[moved].tolist(), strict=True))


def _joined(arrays: Iterable[Hashes]) -> Hashes:
    return np.concatenate([np.empty(0, np.int64), *arrays])
