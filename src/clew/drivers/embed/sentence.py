"""Embedders run by sentence-transformers, where it is installed: models of the hub that have no ONNX file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import DriverFailed, DriverMissing
from clew.core.protocols import Role
from clew.core.settings.models import Device
from clew.core.types import Matrix
from clew.drivers.embed.card import read_model_card
from clew.drivers.embed.vectors import normalize, pool_windows
from clew.drivers.onnx import DEFAULT_MAX_TOKENS
from clew.drivers.tokenizer import replace_surrogates
from clew.drivers.windows import split_windows

OVERLAP = 32  # tokens that two windows of a long text share
SPECIAL = 4  # tokens that a model may add around a text
BATCH = 32  # texts of like length; the library sorts them


class SentenceEmbedder:
    """A model in a folder, loaded by sentence-transformers; pooling, layers and prompts are as the folder says."""

    is_local = True  # `plan` may time it
    min_similarity = 0.0  # the model is unknown, so nothing is ruled out

    def __init__(self, folder: Path, *, name: str, device: Device = "auto") -> None:
        try:
            import torch
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise DriverMissing(f"{name} needs {error.name}; pip install sentence-transformers") from error
        has_gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
        if device == "gpu" and not has_gpu:
            raise DriverMissing(f"{name}: embedder.device is gpu, and torch sees none; set embedder.device to auto")
        try:
            self._model: Any = SentenceTransformer(
                str(folder), device=None if device != "cpu" and has_gpu else "cpu", local_files_only=True
            )
        except Exception as error:  # of several libraries
            raise DriverFailed(f"{name}: the files in {folder} cannot be read ({error}); fetch them again") from error
        card = read_model_card(folder, name=name)
        self._prefixes = {"query": card.query_prefix, "passage": card.passage_prefix}
        self.name = name
        self.max_tokens = int(self._model.max_seq_length or DEFAULT_MAX_TOKENS)
        self.dim = int(self.embed(["a"], role="passage").shape[1])

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order; a text over the token limit is embedded in windows and pooled."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        windows: list[str] = []
        weights: list[int] = []
        owners: list[int] = []
        for owner, (text, spans) in enumerate(zip(texts, self._find_tokens(texts), strict=True)):
            clean = replace_surrogates(text)
            for part in split_windows(len(spans), self.max_tokens - SPECIAL, OVERLAP):
                inside = spans[part]
                windows.append(clean[inside[0][0] : inside[-1][1]] if len(inside) < len(spans) else clean)
                weights.append(len(inside) or 1)
                owners.append(owner)
        try:
            rows = self._model.encode(
                [self._prefixes[role] + window for window in windows],
                batch_size=BATCH,
                prompt="",  # the prefix is there already, whatever the folder takes as its default
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        except Exception as error:  # of several libraries
            raise DriverFailed(f"{self.name} failed on {len(windows)} texts: {error}; try another model") from error
        if len(windows) > len(texts):
            rows = pool_windows(normalize(rows, source=self.name), weights, owners, len(texts))
        return normalize(rows, source=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without special tokens and prefixes."""
        return [len(spans) for spans in self._find_tokens(texts)]

    def _find_tokens(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The characters that each token of each text stands for."""
        if not texts:
            return []
        found = self._model.tokenizer(
            [replace_surrogates(text) for text in texts],
            add_special_tokens=False,
            return_offsets_mapping=True,
            truncation=False,
            verbose=False,
        )
        return [[(start, end) for start, end in spans] for spans in found["offset_mapping"]]
