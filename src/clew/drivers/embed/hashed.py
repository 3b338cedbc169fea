"""An embedder without a model: feature hashing of words and character trigrams.

For tests, first runs and machines without model weights. Texts that share words or parts of words are similar; meaning
is ignored. The vectors are the same in every process and on every platform.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from clew.core.errors import SettingsError
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.core.unicode import compose
from clew.drivers.windows import normalize

DIM = 256
MIN_DIM, MAX_DIM = 8, 4096
TRIGRAM_WEIGHT = 0.5  # relative to the word
FULL_WEIGHT_LENGTH = 8  # characters; shorter words weigh less, since most of them are function words

_WORD = re.compile(r"\w+")
# A token: a character of a script without spaces, up to 16 letters of a word, or one other character.
_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,16}|[^\w\s]"
)
_MAX_CACHED_WORDS = 1 << 16  # the cache is cleared when it holds this many words
_MAX_CACHED_LENGTH = 64  # characters; a longer string is not a word and will not recur


class HashedEmbedder:
    """Signed feature hashing of words and character trigrams, with sublinear counts."""

    max_tokens = 1 << 20  # practically no limit
    min_similarity = 0.05
    is_local = True  # `plan` may time it

    def __init__(self, dim: int = DIM) -> None:
        if not MIN_DIM <= dim <= MAX_DIM:
            raise SettingsError(f"embedder.name is hashed:{dim}; the dimension must be between {MIN_DIM} and {MAX_DIM}")
        self.dim = dim
        self.name = "hashed" if dim == DIM else f"hashed:{dim}"
        self._features_by_word: dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]] = {}

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002 - both roles are alike
        """Return one unit vector per text, in order."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        return normalize(np.stack(list(map(self._embed_text, texts))), source=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the words and other characters of each text; counts add up when texts are joined by spaces."""
        return [sum(1 for _ in _TOKEN.finditer(text)) for text in texts]

    def _embed_text(self, text: str) -> Matrix:
        folded = compose(text).casefold()
        words = Counter(_WORD.findall(folded)) or Counter([folded.strip()])
        features = list(map(self._hash_word, words))
        frequencies = [1 + math.log(times) for times in words.values()]  # sublinear
        buckets = np.concatenate([at for at, _ in features])
        weights = np.concatenate([signed for _, signed in features])
        row = np.bincount(buckets, weights * np.repeat(frequencies, [len(at) for at, _ in features]), self.dim)
        if not row.any():  # all features cancelled out
            row[0] = 1
        return row.astype(np.float32)

    def _hash_word(self, word: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the buckets of a word and its trigrams, and their signed weights."""
        known = self._features_by_word.get(word)
        if known is not None:
            return known
        padded = f"^{word}$"
        features = [f"w{word}", *map("t{}{}{}".format, padded, padded[1:], padded[2:])]
        hashes = [xxhash.xxh3_64_intdigest(feature.encode("utf-8", "surrogatepass")) for feature in features]
        word_weight = min(len(word) or 1, FULL_WEIGHT_LENGTH)
        weights = np.array([1.0 if value & 1 else -1.0 for value in hashes]) * word_weight / FULL_WEIGHT_LENGTH
        weights[1:] *= TRIGRAM_WEIGHT
        known = np.array([(value >> 1) % self.dim for value in hashes], dtype=np.intp), weights
        if len(self._features_by_word) >= _MAX_CACHED_WORDS:
            self._features_by_word = {}  # a new dict: another thread may be reading the old one
        if len(word) <= _MAX_CACHED_LENGTH:
            self._features_by_word[word] = known
        return known


def make_hashed_embedder(config: EmbedderConfig) -> HashedEmbedder:
    """Make the embedder "hashed", or "hashed:64" for another dimension."""
    _, colon, width = config.name.partition(":")
    if not colon:
        return HashedEmbedder()
    if not (width.isascii() and width.isdigit()):
        raise SettingsError(f"embedder.name is {config.name!r}; add the dimension as a number, as in hashed:64")
    return HashedEmbedder(int(width))
