"""Transformers as ONNX files, run by onnxruntime, for embedders and cross-encoders.

**On the CPU: one text per run, several runs in parallel.** The models are quantised dynamically: the scale of a tensor
covers the whole batch, so the other texts of a batch would change a result. Run alone, a text always has the same
result, and nothing is padded. Each driver documents the difference that batches would make, and the cost of single
runs.

**On a GPU: batches of similar length.** Single runs would leave most of it idle.

Optimised graphs are cached in the user's cache folder, since optimising takes longer than loading. The key is the file
(path, size, time) and the version of onnxruntime. A cached graph is loaded with the same options as the file and gives
the same numbers. An unreadable one is made again. If the cache cannot be written, the file itself is loaded each time.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import DriverFailed, DriverMissing
from clew.core.parallel import run_parallel
from clew.core.settings import Device
from clew.drivers.tokenizer import load_tokenizer, replace_surrogates

T = TypeVar("T")

DEFAULT_MAX_TOKENS = 512
MIN_TOKENS = 16  # a smaller limit is surely a mistake
BATCH = 64  # texts of similar length in one run on a GPU
CPU: Final = "CPUExecutionProvider"
GPUS: Final = (
    "CUDAExecutionProvider",
    "ROCMExecutionProvider",
    "MIGraphXExecutionProvider",
    "DmlExecutionProvider",
)
ONLY_IF_ASKED: Final = ("CoreMLExecutionProvider",)  # in every wheel for macOS, but slow for texts of mixed lengths
NO_LIMIT = 1_000_000  # tokenizer_config.json says 1e30 for a tokenizer without a limit


class OnnxModel:
    """A loaded `model.onnx` (or another `file`) with `tokenizer.json` from a folder; errors call it `name`."""

    def __init__(self, folder: Path, *, name: str, file: str = "model.onnx", device: Device = "cpu") -> None:
        try:
            import onnxruntime
            import tokenizers  # noqa: F401
        except ImportError as error:
            raise DriverMissing(f"{name} needs the package {error.name}; install clew again") from error
        for needed in (file, "tokenizer.json"):
            if not (folder / needed).is_file():
                raise DriverMissing(f"{name}: there is no {needed} in {folder}; give a folder that holds both files")
        providers = choose_providers(device, onnxruntime.get_available_providers(), name=name)
        try:
            self._session = open_session(folder / file, _make_options, providers=providers, keep=providers == [CPU])
            self.tokenizer = load_tokenizer(folder / "tokenizer.json")
        except Exception as error:  # both libraries raise bare exceptions
            raise DriverFailed(f"{name}: the files in {folder} cannot be read ({error}); copy them again") from error
        self.tokenizer.encode_special_tokens = True  # "[SEP]" within a text is no special token
        self.is_on_gpu = self._session.get_providers()[0] != CPU
        if device == "gpu" and not self.is_on_gpu:
            raise DriverMissing(f"{name}: {providers[0]} could not be started; see what onnxruntime needs for it")
        self.name = name
        self._inputs = [each.name for each in self._session.get_inputs()]
        self.outputs = [each.name for each in self._session.get_outputs()]

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize each text to token ids, without special tokens."""
        cleaned = [replace_surrogates(text) for text in texts]
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(cleaned, add_special_tokens=False)]

    def run(self, ids: Sequence[int], types: Sequence[int] | None = None, *, output: str) -> NDArray[np.float32]:
        """Run the model on one sequence of token ids; return an output with batch axis. Token types default to 0."""
        tokens = np.array([ids], dtype=np.int64)
        return self._run(tokens, np.ones_like(tokens), None if types is None else np.array([types]), output=output)

    def run_batch(self, rows: Sequence[Sequence[int]], *, output: str) -> list[NDArray[np.float32]]:
        """Run the model on a batch of token ids, padded to the longest; return the outputs without padding."""
        tokens = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for at, ids in enumerate(rows):
            tokens[at, : len(ids)] = ids
            mask[at, : len(ids)] = 1
        result = self._run(tokens, mask, None, output=output)
        return [row[: len(ids)] if row.ndim == 2 else row for row, ids in zip(result, rows, strict=True)]

    def _run(
        self, tokens: NDArray[np.int64], mask: NDArray[np.int64], types: NDArray[np.int64] | None, *, output: str
    ) -> NDArray[np.float32]:
        feed = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(tokens) if types is None else types,
            "position_ids": np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape),
        }
        try:
            (result,) = self._session.run([output], {name: feed[name] for name in self._inputs})
        except Exception as error:  # onnxruntime has one exception per status, without a common base
            raise DriverFailed(f"{self.name} failed on {tokens.size} tokens: {error}; try another model") from error
        return result  # type: ignore[no-any-return]


def _make_options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # several texts run in parallel instead
    options.enable_mem_pattern = False  # it would keep memory for every length it ever saw
    # 8 % faster. It changes vectors and scores about as much as a batch would, and ranks as well: the same ranking by
    # vectors for 500 questions, and nDCG@10 of the cross-encoder 72.0 against 72.1.
    options.add_session_config_entry("optimization.enable_gelu_approximation", "1")
    options.log_severity_level = 4  # errors are raised, not printed as well
    return options


def choose_providers(device: Device, available: Sequence[str], *, name: str) -> list[str]:
    """Choose the execution providers for a device, the preferred one first; DriverMissing if "gpu" has none."""
    found = [each for each in (*GPUS, *(ONLY_IF_ASKED if device == "gpu" else ())) if each in available]
    if device == "gpu" and not found:
        raise DriverMissing(
            f"{name}: embedder.device is gpu, and this onnxruntime has only {', '.join(available)}; "
            "install onnxruntime-gpu in its place, or set embedder.device to auto"
        )
    return [CPU] if device == "cpu" else [*found, CPU]


class PairTemplate:
    """The special tokens around a pair of texts, [CLS] first [SEP] second [SEP] or similar, and the token types."""

    def __init__(self, tokenizer: Any) -> None:
        encoding = tokenizer.encode("a", "a")
        sides = encoding.sequence_ids
        first = [at for at, side in enumerate(sides) if side == 0]
        second = [at for at, side in enumerate(sides) if side == 1]
        gaps = (slice(0, first[0]), slice(first[-1] + 1, second[0]), slice(second[-1] + 1, len(sides)))
        self._ids = [encoding.ids[gap] for gap in gaps]
        self._types = [encoding.type_ids[gap] for gap in gaps]
        self._first_type, self._second_type = encoding.type_ids[first[0]], encoding.type_ids[second[0]]
        self.size = sum(map(len, self._ids))

    def encode_pair(self, first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
        """Join the token ids of two texts with special tokens; return the ids and the token types."""
        before, between, after = self._ids
        types_before, types_between, types_after = self._types
        ids = [*before, *first, *between, *second, *after]
        first_types, second_types = [self._first_type] * len(first), [self._second_type] * len(second)
        return ids, [*types_before, *first_types, *types_between, *second_types, *types_after]


def run_parallel_longest_first(function: Callable[[list[int]], T], windows: Sequence[list[int]]) -> list[T]:
    """Map a function over the windows on all cores, keeping the order; the longest start first to balance the cores."""
    order = sorted(range(len(windows)), key=lambda at: -len(windows[at]))
    results = run_parallel([partial(function, windows[at]) for at in order], max_concurrent=count_cores())
    by_place = dict(zip(order, results, strict=True))
    return [by_place[at] for at in range(len(windows))]


def run_in_batches(function: Callable[[list[list[int]]], list[T]], windows: Sequence[list[int]]) -> list[T]:
    """Map a batch function over the windows, keeping the order; a batch has windows of similar length."""
    order = sorted(range(len(windows)), key=lambda at: -len(windows[at]))
    results: dict[int, T] = {}
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        results |= zip(places, function([windows[at] for at in places]), strict=True)
    return [results[at] for at in range(len(windows))]


def count_cores() -> int:
    """Count the cores that this process may use: its CPU affinity, or fewer if OMP_NUM_THREADS says so.

    Schedulers set OMP_NUM_THREADS to give a process a part of the machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores


def find_package_folder(package: str, *, install: str) -> Path:
    """Find the folder of an installed package without importing it; DriverMissing with the text `install`."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DriverMissing(install)
    return Path(spec.submodule_search_locations[0])


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file beside a model; empty if there is no file or no object in it."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise DriverMissing(f"{path} is not JSON ({error}); copy the model's folder again") from error
    return value if isinstance(value, dict) else {}


def read_max_tokens(folder: Path) -> int:
    """Read the smallest token limit in the files beside a model; default DEFAULT_MAX_TOKENS."""
    limits = [
        read_json_object(folder / "sentence_bert_config.json").get("max_seq_length"),
        read_json_object(folder / "config.json").get("max_position_embeddings"),
        read_json_object(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    known = [int(limit) for limit in limits if isinstance(limit, int | float) and MIN_TOKENS <= limit < NO_LIMIT]
    return min(known, default=DEFAULT_MAX_TOKENS)


MIN_BYTES, MAX_BYTES = 1 << 20, 1 << 28  # of a model file whose graph is cached; small ones load fast anyway
_log = logging.getLogger(__name__)


def open_session(file: Path, make_options: Callable[[], Any], *, providers: list[str], keep: bool) -> Any:
    """Open a model file in onnxruntime; with `keep`, use its cached graph, creating it if necessary."""
    from onnxruntime import InferenceSession

    kept = _find_kept(file) if keep else None
    if kept is not None and (kept.is_file() or _optimize(file, kept, make_options())):
        try:
            return InferenceSession(str(kept), make_options(), providers=providers)
        except Exception as error:  # onnxruntime has one exception per status, without a common base
            _log.info("%s cannot be read (%s); it is removed", kept, error)
            with suppress(OSError):
                kept.unlink()
    return InferenceSession(str(file), make_options(), providers=providers)


def find_cache_folder() -> Path:
    """Return the folder of cached graphs: in XDG_CACHE_HOME, by default .cache in the home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew" / "models"


def _find_kept(file: Path) -> Path | None:
    """Return the path of a file's cached graph; None if the file is too small or too large, or there is no home."""
    from onnxruntime import __version__ as version

    try:
        path, state = file.resolve(), file.stat()
        folder = find_cache_folder()
    except (OSError, RuntimeError):  # no home
        return None
    if not MIN_BYTES <= state.st_size <= MAX_BYTES:
        return None
    of_path = sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    of_state = sha256(f"{state.st_size} {state.st_mtime_ns} {version}".encode()).hexdigest()[:16]
    return folder / f"{of_path}-{of_state}.onnx"


def _optimize(file: Path, kept: Path, options: Any) -> bool:
    """Write the optimised graph of a file atomically, replacing earlier ones; return whether there is one now."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession

    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(mkdtemp(dir=kept.parent)) / kept.name
        try:
            options.optimized_model_filepath = str(made)
            options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED  # not processor-specific
            InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            with made.open("rb+") as written:
                os.fsync(written.fileno())
            made.replace(kept)
        finally:
            for rest in made.parent.iterdir():
                rest.unlink()
            made.parent.rmdir()
        for earlier in kept.parent.glob(f"{kept.name.partition('-')[0]}-*"):
            if earlier != kept:
                earlier.unlink()
    except Exception as error:  # a full disk or a read-only home; loading a broken file raises its own error later
        _log.info("the optimised graph of %s cannot be kept: %s", file, error)
        return kept.is_file()
    return True
