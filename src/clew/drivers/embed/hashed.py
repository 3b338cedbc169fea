"""The embedder that needs no model: words and their letters, hashed into buckets.

Texts that share words, or parts of words, are near one another; meaning it does not know. It is for tests, first runs
and machines without the weights, and gives the same vectors in every process and on every platform.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from clew.core.errors import SettingsError
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.vectors import unit

DIM = 256
LEAST_DIM, MOST_DIM = 8, 4096
TRIGRAM = 0.5  # what three letters weigh against their word
FULL = 8  # letters of a word that counts in full; shorter ones count less, for most of them are function words

_WORD = re.compile(r"\w+")
# A token: a character of a script without spaces, at most 16 letters of a word, or one other sign.
_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,16}|[^\w\s]"
)
_KNOWN = 1 << 16  # how many words' buckets are remembered before they are all forgotten
_WORTH = 64  # letters; what is longer is no word and will not come again


class Hashed:
    """Signed feature hashing of words and character trigrams, with sublinear counts."""

    max_tokens = 1 << 20  # there is no model to overflow
    min_similarity = 0.05

    def __init__(self, dim: int = DIM) -> None:
        if not LEAST_DIM <= dim <= MOST_DIM:
            raise SettingsError(f"hashed:{dim} cannot be; the width is between {LEAST_DIM} and {MOST_DIM}")
        self.dim = dim
        self.name = "hashed" if dim == DIM else f"hashed:{dim}"
        self._known: dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]] = {}

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002  (a question and a passage are alike)
        """One unit row a text, in order."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        return unit(np.stack([self._row(text) for text in texts]), of=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many words and signs each text has; of texts joined by spaces, the sum."""
        return [sum(1 for _ in _TOKEN.finditer(text)) for text in texts]

    def _row(self, text: str) -> Matrix:
        folded = unicodedata.normalize("NFKC", text).casefold()
        words = Counter(_WORD.findall(folded)) or Counter([folded.strip()])
        known = [self._features(word) for word in words]
        damped = [1 + math.log(times) for times in words.values()]
        buckets = np.concatenate([where for where, _ in known])
        weights = np.concatenate([signs for _, signs in known])
        row = np.bincount(buckets, weights * np.repeat(damped, [len(where) for where, _ in known]), self.dim)
        if not row.any():  # every feature met its opposite
            row[0] = 1
        return row.astype(np.float32)

    def _features(self, word: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The buckets of a word and of its trigrams, and what each adds there."""
        known = self._known.get(word)
        if known is not None:
            return known
        framed = f"^{word}$"
        named = [f"w{word}", *(f"t{framed[at : at + 3]}" for at in range(len(framed) - 2))]
        hashes = [xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass")) for name in named]
        signs = np.array([1.0 if hashed & 1 else -1.0 for hashed in hashes]) * min(len(word) or 1, FULL) / FULL
        signs[1:] *= TRIGRAM
        known = np.array([(hashed >> 1) % self.dim for hashed in hashes], dtype=np.intp), signs
        if len(self._known) >= _KNOWN:
            self._known = {}  # a new one: another thread may be reading the old
        if len(word) <= _WORTH:
            self._known[word] = known
        return known


def configured(config: EmbedderConfig) -> Hashed:
    """The embedder called "hashed", or "hashed:64" for another width."""
    _, colon, width = config.name.partition(":")
    if not colon:
        return Hashed()
    if not (width.isascii() and width.isdigit()):
        raise SettingsError(f"embedder.name is {config.name!r}; after hashed: stands the width, as in hashed:64")
    return Hashed(int(width))
