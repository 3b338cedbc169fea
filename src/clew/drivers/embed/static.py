"""The fast embedder: the mean of static token vectors. Far faster than a transformer, and less accurate.

The weights and the tokenizer are files in the package `wordllama`, which is never imported: an import would take half a
second, configure the logging of the whole process and load a downloader. The vectors equal the package's own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from clew.core.errors import DriverMissing
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.onnx import find_package_folder
from clew.drivers.tokenizer import load_tokenizer, replace_surrogates
from clew.drivers.windows import normalize

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
BATCH = 1024  # texts per call of the tokenizer


class WordLlamaEmbedder:
    """The mean of the token vectors of WordLlama (L2 supercat, 256 dimensions)."""

    name = "wordllama"
    max_tokens = 1 << 20  # a mean has no limit
    # In 650 true pairs (SciFact, XQuAD, single turns of LoCoMo) the lowest 1 % are below .12, .22 and .11; half of the
    # unrelated pairs are below .16, .03 and .07.
    min_similarity = 0.1
    is_local = True  # `plan` may time it

    def __init__(self, folder: Path) -> None:
        try:
            import tokenizers  # noqa: F401
            from safetensors.numpy import load_file
        except ImportError as error:
            raise DriverMissing(f"wordllama needs the package {error.name}; install clew[fast]") from error
        try:
            table = load_file(folder / WEIGHTS)["embedding.weight"]
            self._tokenizer = load_tokenizer(folder / TOKENIZER)
        except Exception as error:  # both libraries raise bare exceptions
            raise DriverMissing(
                f"{folder} lacks the weights of wordllama ({error}); install clew[fast] again"
            ) from error
        self._tokenizer.encode_special_tokens = True  # "</s>" within a text is no special token
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self.dim = int(table.shape[1])

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002 - questions and passages are alike
        """Return one unit vector per text, in order."""
        rows = np.zeros((len(texts), self.dim), np.float32)
        for at, ids in enumerate(self._tokenize([text or " " for text in texts])):  # an empty text has no tokens
            distinct, counts = np.unique(ids, return_counts=True)  # a long text repeats its tokens
            rows[at] = counts.astype(np.float32) @ self._table[distinct]  # a sum: normalising makes it the mean
        return normalize(rows, source=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return [len(ids) for ids in self._tokenize(texts)]

    def _tokenize(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for start in range(0, len(texts), BATCH):
            batch = [replace_surrogates(text) for text in texts[start : start + BATCH]]
            for encoding in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                yield encoding.ids


def make_wordllama_embedder(config: EmbedderConfig) -> WordLlamaEmbedder:  # noqa: ARG001 - nothing can be set
    """Make the embedder "wordllama" from the files in the installed package."""
    return WordLlamaEmbedder(
        find_package_folder("wordllama", install="the embedder wordllama needs its weights; install clew[fast]")
    )
