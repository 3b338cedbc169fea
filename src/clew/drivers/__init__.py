"""Whatever touches a model, a disk or a network. Here stand the tables from names to drivers.

A name is exact ("bge-small") or begins with a prefix that ends in a colon ("openai:text-embedding-3-small"). A driver
is imported when it is asked for, so that nothing heavy is loaded for a name that is not used.
"""

import logging
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from clew.core.errors import DriverMissing, NotFound
from clew.core.protocols import LLM, Embedder, Reranker, Store
from clew.core.secret import mask_secrets
from clew.core.settings import EmbedderConfig, LLMConfig, RerankerConfig, StoreConfig

MEMORY: Final = ":memory:"

# Where nobody has set up logging, Python would print a bare "stamina.retry_scheduled" for every try that is made again.
logging.getLogger("stamina").addHandler(logging.NullHandler())

# From a name to "module:function", which is given the config.
EMBEDDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bge-small": "clew.drivers.embed.onnx:bge_small",
        "hashed": "clew.drivers.embed.hashed:configured",
        "hashed:": "clew.drivers.embed.hashed:configured",
        "onnx:": "clew.drivers.embed.onnx:in_folder",
        "openai:": "clew.drivers.embed.http:configured",
        "wordllama": "clew.drivers.embed.static:configured",
    }
)
RERANKERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ms-marco-minilm": "clew.drivers.rerank.cross_encoder:ms_marco_minilm",
        "onnx:": "clew.drivers.rerank.cross_encoder:in_folder",
        "http:": "clew.drivers.rerank.http:configured",
        "overlap": "clew.drivers.rerank.overlap:configured",
    }
)
# What is not here is named as pydantic-ai names it.
LLMS: Final[Mapping[str, str]] = MappingProxyType({"local:": "clew.drivers.llm.local:configured"})


def embedder(config: EmbedderConfig) -> Embedder:
    """The embedder of that name, around which a cache stands if one is set; NotFound lists the names there are."""
    made = cast(Embedder, _maker(config.name, EMBEDDERS, "embedder")(config))
    if config.cache:
        from clew.drivers.embed.cached import CachedEmbedder

        return CachedEmbedder(made, config.cache)
    return made


def reranker(config: RerankerConfig) -> Reranker | None:
    """The reranker of that name, or None where none is named; NotFound lists the names there are."""
    return cast(Reranker, _maker(config.name, RERANKERS, "reranker")(config)) if config.name else None


def language_model(config: LLMConfig) -> LLM | None:
    """The language model of that name, around which a cache stands if one is set; None where none is named."""
    if not config.name:
        return None
    made = _language_model(config)
    if config.cache:
        from clew.drivers.llm.cached import CachedLLM

        return CachedLLM(made, config.cache)
    return made


def _language_model(config: LLMConfig) -> LLM:
    prefix, colon, _ = config.name.partition(":")
    if prefix + colon in LLMS and not config.url:
        return cast(LLM, _maker(config.name, LLMS, "language model")(config))
    from clew.drivers.llm.model import ModelLLM

    return ModelLLM(
        config.name,
        url=config.url,
        api_key=config.api_key,
        timeout=config.timeout,
        retries=config.retries,
        max_concurrent=config.max_concurrent,
    )


@lru_cache(8)
def token_counter(path: str) -> Callable[[str], int]:
    """How many tokens a text has by the tokenizer in a file."""
    from clew.drivers.tokenizer import counter

    return counter(path)


def open_store(path: str | Path, collection: str, *, embedder: Embedder, config: StoreConfig) -> Store:
    """The store of a collection: in a folder, in memory, or on a PostgreSQL server by its address."""
    if is_server(path):
        from clew.drivers.store.postgres import PostgresStore

        name, dim = embedder.name, embedder.dim
        return PostgresStore(str(path), collection=collection, embedder=name, dim=dim, config=config)
    from clew.drivers.store.embedded.store import EmbeddedStore

    folder = None if str(path) == MEMORY else _folder(path) / collection
    return EmbeddedStore(folder, embedder=embedder.name, dim=embedder.dim, config=config)


def kept_embedder(path: str | Path, collection: str) -> str | None:
    """The name of the embedder that a collection was filled with; None where there is no such collection."""
    if is_server(path):
        from clew.drivers.store import postgres

        return postgres.kept_embedder(str(path), collection)
    from clew.drivers.store.embedded.store import kept_embedder as kept

    return None if str(path) == MEMORY else kept(_folder(path) / collection)


def root(path: str | Path) -> Path:
    """The folder from which the addresses of files start: where the collections' folder stands, else the current."""
    return Path.cwd() if str(path) == MEMORY or is_server(path) else _folder(path).parent


def is_server(path: str | Path) -> bool:
    """Whether a place is the address of a PostgreSQL server."""
    return str(path).startswith(("postgresql://", "postgres://"))


def _folder(path: str | Path) -> Path:
    if "://" in str(path):
        raise DriverMissing(
            f"{mask_secrets(str(path))}: collections are kept in folders and in PostgreSQL; give a path or postgresql://…"
        )
    return Path(path).resolve()


def _maker(name: str, table: Mapping[str, str], what: str) -> Any:
    """The function that makes the driver of that name."""
    prefix, colon, _ = name.partition(":")
    place = table.get(prefix + colon)
    if place is None:
        shown = {key: f"{key}…" if key.endswith(":") else key for key in table}
        near = get_close_matches(name.casefold(), table, n=1)
        guess = f"; did you mean {shown[near[0]]}?" if near else "."
        raise NotFound(f"there is no {what} {name!r}{guess} There are: {', '.join(shown.values())}")
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
