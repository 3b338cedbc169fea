"""The fast embedder: a table of token vectors, averaged. Far faster than a transformer, and coarser.

The weights and the tokeniser lie as files in the package `wordllama`, which is never imported: that would take half a
second, set up the logging of the whole process and bring a downloader along. The vectors are equal to its own.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from clew.core.errors import DriverMissing
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.vectors import encodable, unit

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
BATCH = 1024  # texts that are tokenised at once


class WordLlama:
    """The mean of the token vectors of WordLlama (L2 supercat, 256 dimensions)."""

    name = "wordllama"
    max_tokens = 1 << 20  # a mean has no end
    # Of 650 true pairs (SciFact, XQuAD, single turns of LoCoMo) the lowest 1 % lie under .12, .22 and .11, while half
    # of the unrelated ones lie under .16, .03 and .07.
    min_similarity = 0.1

    def __init__(self, folder: Path) -> None:
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as error:
            raise DriverMissing(f"wordllama needs the package {error.name}; install clew[fast]") from error
        try:
            table = load_file(folder / WEIGHTS)["embedding.weight"]
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # both libraries raise bare exceptions
            raise DriverMissing(
                f"{folder} lacks the weights of wordllama ({error}); install clew[fast] again"
            ) from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # a text that says "</s>" does not end there
        self._tokenizer = tokenizer
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self.dim = int(table.shape[1])

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002 - a question and a passage are alike
        """One unit row a text, in order."""
        rows = np.zeros((len(texts), self.dim), np.float32)
        for at, ids in enumerate(self._ids([text or " " for text in texts])):  # an empty text has no token at all
            distinct, counts = np.unique(ids, return_counts=True)  # a long text repeats itself; its direction is enough
            rows[at] = counts.astype(np.float32) @ self._table[distinct]
        return unit(rows, of=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
        return [len(ids) for ids in self._ids(texts)]

    def _ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for start in range(0, len(texts), BATCH):
            some = [encodable(text) for text in texts[start : start + BATCH]]
            for encoding in self._tokenizer.encode_batch_fast(some, add_special_tokens=False):
                yield encoding.ids


def configured(config: EmbedderConfig) -> WordLlama:  # noqa: ARG001 - there is one of it
    """The embedder called "wordllama", from the files in the installed package."""
    spec = find_spec("wordllama")  # finds the folder, imports nothing
    if spec is None or not spec.submodule_search_locations:
        raise DriverMissing("the embedder wordllama needs its weights; install clew[fast]")
    return WordLlama(Path(spec.submodule_search_locations[0]))
