"""Embedding models of the Hugging Face hub, or in a folder with the layout of a hub repository.

`hf:NAME` is the newest revision, `hf:NAME@REVISION` a branch, tag or commit. Both are pinned: the name of the embedder
contains the commit, so a collection never mixes vectors of two commits. A commit never changes, so it is downloaded
once, checked against the hub's hashes, and then read offline from the cache of `huggingface_hub`. A repository with an
ONNX file runs in onnxruntime, any other in sentence-transformers, if installed.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import DriverFailed, DriverMissing, NotFound, SettingsError
from clew.core.protocols import Embedder, Role
from clew.core.settings import Device, EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.onnx import read_model_card
from clew.drivers.onnx import DEFAULT_MAX_TOKENS
from clew.drivers.tokenizer import replace_surrogates
from clew.drivers.windows import join_windows, split_windows

# The preferred files, best first; any other ONNX file is used only if it is the only one.
ONNX_FILES = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx")
CONFIGS = ("*.json", "*/config.json", "*.txt", "*.model")
WEIGHTS = ("*.safetensors", "*.bin")
LOCAL = ("/", ".", "~")  # a folder's path begins with one of these
TIMEOUT = 20.0  # seconds for a response of the hub
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
OVERLAP = 32  # tokens that two windows of a long text share
SPECIAL = 4  # tokens that a model may add around a text
BATCH = 32  # texts of similar length; the library sorts them


def make_hub_embedder(config: EmbedderConfig) -> Embedder:
    """Make the embedder "hf:NAME", "hf:NAME@REVISION" or "hf:FOLDER"; `embedder.url` is the address of another hub."""
    place = config.name.removeprefix("hf:")
    if not place:
        raise SettingsError("embedder.name is 'hf:'; add a model, as in hf:BAAI/bge-base-en-v1.5, or a folder")
    if place.startswith(LOCAL) or Path(place).is_absolute():
        folder = Path(place).expanduser()
        if not folder.is_dir():
            raise NotFound(f"{config.name}: there is no folder {folder}")
        return _open_model(folder, name=config.name, config=config)
    repository, _, revision = place.partition("@")
    folder = _find_snapshot(repository, revision, endpoint=config.url or None, token=config.api_key or None)
    _check_weights(folder, repository)
    return _open_model(folder, name=f"hf:{repository}@{folder.name}", config=config)


def choose_onnx_file(files: Iterable[str]) -> str | None:
    """Choose the ONNX file of a repository; None if there is none, or several unknown ones."""
    found = [file for file in files if file.endswith(".onnx")]
    named = next((file for file in ONNX_FILES if file in found), None)
    return named or (found[0] if len(found) == 1 else None)


def _open_model(folder: Path, *, name: str, config: EmbedderConfig) -> Embedder:
    file = choose_onnx_file(path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.onnx")))
    if file is not None and (folder / "tokenizer.json").is_file() and not _has_dense_layer(folder):
        from clew.drivers.embed.onnx import OnnxEmbedder

        return OnnxEmbedder(folder, read_model_card(folder, name=name), file=file, device=config.device)
    if not _is_sentence_transformers_installed():
        raise DriverMissing(_describe_lack(name, file))
    return SentenceEmbedder(folder, name=name, device=config.device)


def _find_snapshot(repository: str, revision: str, *, endpoint: str | None, token: str | None) -> Path:
    """Return the folder of a revision, named after its commit: a commit from the cache, anything else from the hub."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # send the hub nothing but requests for the model
    try:
        import huggingface_hub
    except ImportError as error:
        raise DriverMissing(f"hf:{repository} needs huggingface_hub; install clew[hf]") from error
    if _COMMIT.fullmatch(revision) and (folder := _find_cached(repository, revision)):
        return folder
    try:
        return _fetch(huggingface_hub, repository, revision, endpoint=endpoint, token=token)
    except (huggingface_hub.errors.GatedRepoError, huggingface_hub.errors.RepositoryNotFoundError) as error:
        raise NotFound(
            f"hf:{repository}: the hub has no such model, or it is private or gated; correct the name, or set HF_TOKEN"
        ) from error
    except huggingface_hub.errors.RevisionNotFoundError as error:
        raise NotFound(f"hf:{repository}: there is no revision {revision!r}; give a branch, tag or commit") from error
    except huggingface_hub.errors.HFValidationError as error:
        raise SettingsError(f"hf:{repository} is not the name of a model on the hub ({error})") from error
    except (DriverMissing, NotFound):
        raise
    except Exception as error:  # from several HTTP libraries, depending on the version
        if folder := _find_cached(repository, revision or "main"):
            return folder
        raise DriverFailed(
            f"hf:{repository} is not in the cache, and the hub cannot be reached "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no answer'}); "
            "try again with a network, or name a folder as hf:./FOLDER"
        ) from error


def _fetch(hub: Any, repository: str, revision: str, *, endpoint: str | None, token: str | None) -> Path:
    info = hub.HfApi(endpoint=endpoint, token=token).model_info(repository, revision=revision or None, timeout=TIMEOUT)
    files = [each.rfilename for each in info.siblings or ()]
    onnx = choose_onnx_file(files)
    if onnx is None and not _is_sentence_transformers_installed():
        raise DriverMissing(_describe_lack(f"hf:{repository}", onnx))
    weights: Sequence[str] = (onnx, f"{onnx}_data", f"{onnx}.data") if onnx else WEIGHTS
    if not onnx and any(file.endswith(".safetensors") for file in files):
        weights = WEIGHTS[:1]
    folder = hub.snapshot_download(
        repository, revision=info.sha, allow_patterns=[*CONFIGS, *weights], endpoint=endpoint, token=token
    )
    _keep_reference(Path(folder), revision or "main")
    return Path(folder)


def _find_cached(repository: str, revision: str) -> Path | None:
    """Find the folder of a revision with weights in the cache, or None."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, "config.json", revision=revision)
    if not isinstance(found, str):
        return None
    folder = Path(found).parent
    return folder if any(any(folder.rglob(f"*{suffix}")) for suffix in (".onnx", ".safetensors", ".bin")) else None


def _keep_reference(folder: Path, revision: str) -> None:
    """Write the commit of a branch or tag to the cache, as the library does, so that it is found offline."""
    if not _COMMIT.fullmatch(revision):
        file = folder.parents[1] / "refs" / revision
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(folder.name, encoding="ascii")


def _check_weights(folder: Path, repository: str) -> None:
    """Raise DriverFailed if a large file differs from its hash: the cache names each such file by its SHA-256."""
    for path in sorted(folder.rglob("*")):
        blob = path.resolve()
        if not path.is_file() or not _SHA256.fullmatch(blob.name):
            continue
        with blob.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob.name:
                raise DriverFailed(
                    f"hf:{repository}: {path.name} in the cache does not have the hash that the hub named; "
                    f"delete {blob} and open the collection again"
                )


def _has_dense_layer(folder: Path) -> bool:
    """Return whether the model has a dense layer after the pooling, which the ONNX file lacks."""
    modules = folder / "modules.json"
    return modules.is_file() and '.Dense"' in modules.read_text("utf-8")


def _is_sentence_transformers_installed() -> bool:
    return find_spec("sentence_transformers") is not None


def _describe_lack(name: str, file: str | None) -> str:
    lack = "has no ONNX file that Clew can use" if file is None else "needs more than its ONNX file"
    return (
        f"{name} {lack}, and sentence-transformers is not installed; pip install sentence-transformers, "
        "or name a model with onnx/model.onnx"
    )


class SentenceEmbedder:
    """A model in a folder, loaded by sentence-transformers, with the folder's pooling, layers and prompts."""

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
        except Exception as error:  # from several libraries
            raise DriverFailed(f"{name}: the files in {folder} cannot be read ({error}); fetch them again") from error
        card = read_model_card(folder, name=name)
        self._prefixes = {"query": card.query_prefix, "passage": card.passage_prefix}
        self.name = name
        self.max_tokens = int(self._model.max_seq_length or DEFAULT_MAX_TOKENS)
        self.dim = int(self.embed(["a"], role="passage").shape[1])

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order; a text over the token limit is embedded in windows and pooled."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        (prefix_tokens,) = self.count([self._prefixes[role]])
        windows: list[str] = []
        weights: list[int] = []
        owners: list[int] = []
        for owner, (text, spans) in enumerate(zip(texts, self._find_tokens(texts), strict=True)):
            clean = replace_surrogates(text)
            for part in split_windows(len(spans), self.max_tokens - SPECIAL - prefix_tokens, OVERLAP):
                inside = spans[part]
                windows.append(clean[inside[0][0] : inside[-1][1]] if len(inside) < len(spans) else clean)
                weights.append(len(inside) or 1)
                owners.append(owner)
        try:
            rows = self._model.encode(
                [self._prefixes[role] + window for window in windows],
                batch_size=BATCH,
                prompt="",  # the prefix is already there; ignore the folder's default
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        except Exception as error:  # from several libraries
            raise DriverFailed(f"{self.name} failed on {len(windows)} texts: {error}; try another model") from error
        return join_windows(rows, weights, owners, len(texts), source=self.name)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens and prefixes."""
        return [len(spans) for spans in self._find_tokens(texts)]

    def _find_tokens(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the character span of each token of each text."""
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
