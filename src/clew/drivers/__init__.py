"""Drivers: everything that touches a model, a disk or a network, and the tables from names to drivers.

A name is exact ("bge-small") or begins with a prefix that ends in a colon ("openai:text-embedding-3-small"). A driver
is imported on first use, so that nothing heavy is loaded for a name that is not used.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from clew.core.collection import CollectionRecord, DroppedCollection
from clew.core.doctor import Defect
from clew.core.errors import CollectionLost, DriverFailed, NotFound, SettingsError
from clew.core.protocols import LLM, AnswerReader, Embedder, Reranker, Store, Verifier
from clew.core.settings import AnswerConfig, EmbedderConfig, LLMConfig, RerankerConfig, StoreConfig
from clew.core.suggest import find_close_names, format_suggestion
from clew.drivers.addresses import MEMORY as MEMORY
from clew.drivers.addresses import find_collection_folder as find_collection_folder
from clew.drivers.addresses import find_source_root as find_source_root
from clew.drivers.addresses import is_address as is_address
from clew.drivers.addresses import is_lance_address as is_lance_address
from clew.drivers.addresses import is_server_address as is_server_address
from clew.drivers.addresses import is_shared as is_shared
from clew.drivers.addresses import resolve_folder

if TYPE_CHECKING:
    from clew.drivers.store.base import BaseBackend
    from clew.drivers.store.store import BackendStore

HUB: Final = "hf:"  # begins the name of a model of the Hugging Face hub
SERVER, SERVER_EMBEDDER = ".server", "hashed:8"  # the collection of a server's own, which has no documents

# Where logging is not configured, Python would print a bare "stamina.retry_scheduled" for every retry.
logging.getLogger("stamina").addHandler(logging.NullHandler())

# From a name to "module:function"; the function is called with the config.
EMBEDDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bge-small": "clew.drivers.embed.onnx:make_bge_small",
        "hashed": "clew.drivers.embed.hashed:make_hashed_embedder",
        "hashed:": "clew.drivers.embed.hashed:make_hashed_embedder",
        "hf:": "clew.drivers.embed.hub:make_hub_embedder",
        "multilingual": "clew.drivers.embed.multilingual:make_multilingual_embedder",
        "onnx:": "clew.drivers.embed.onnx:make_onnx_embedder",
        "openai:": "clew.drivers.embed.http:make_http_embedder",
        "wordllama": "clew.drivers.embed.static:make_wordllama_embedder",
    }
)
RERANKERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ms-marco-minilm": "clew.drivers.rerank.cross_encoder:make_ms_marco_minilm",
        "onnx:": "clew.drivers.rerank.cross_encoder:make_cross_encoder",
        "http:": "clew.drivers.rerank.http:make_http_reranker",
        "overlap": "clew.drivers.rerank.overlap:make_overlap_reranker",
    }
)
VERIFIERS: Final[Mapping[str, str]] = MappingProxyType(
    {"builtin": "clew.drivers.verify.cross_encoder:make_support_model"}
)
READERS: Final[Mapping[str, str]] = MappingProxyType(
    {"builtin": "clew.drivers.verify.cross_encoder:make_answer_reader"}
)
# All other names are those of pydantic-ai.
LLMS: Final[Mapping[str, str]] = MappingProxyType({"local:": "clew.drivers.llm.local:make_local_llm"})


def make_embedder(config: EmbedderConfig) -> Embedder:
    """The embedder of that name, with a cache if one is set; NotFound lists the known names."""
    model = re.split("[#+]", config.name)[0]
    if model != config.name and model in EMBEDDERS:
        raise NotFound(
            f"there is no embedder {config.name!r}: shorter vectors (#128) and two embedders as one (a+b) were removed "
            f'and int8 vectors are store.vectors = "half"; name {model}; a collection that has such vectors is first '
            "re-embedded by the Clew that wrote it"
        )
    embedder = cast(Embedder, _import_factory(config.name, EMBEDDERS, "embedder")(config))
    if config.cache:
        from clew.drivers.embed.wrapped import CachedEmbedder

        return CachedEmbedder(embedder, config.cache)
    return embedder


def round_vectors(embedder: Embedder, config: StoreConfig) -> Embedder:
    """The embedder with its vectors as the store keeps them (`store.vectors`)."""
    if config.vectors != "half":
        return embedder
    from clew.drivers.embed.wrapped import HalfPrecisionEmbedder

    return HalfPrecisionEmbedder(embedder)


def pin_embedder_name(given: str, stored: str | None) -> str:
    """The name of the embedder to open a collection with: the given one, else the stored one, empty if neither is.

    A model of the hub that is given without a revision is the collection's own, if that is a revision of it.
    """
    if stored and given.startswith(HUB) and stored.startswith(f"{given}@"):
        return stored
    return given or stored or ""


def make_reranker(config: RerankerConfig) -> Reranker | None:
    """The reranker of that name, None if the name is empty; NotFound lists the known names."""
    return cast(Reranker, _import_factory(config.name, RERANKERS, "reranker")(config)) if config.name else None


def make_verifier(config: AnswerConfig) -> Verifier | None:
    """The verifier that the settings name, None for "rules", which need no model; NotFound lists the known names."""
    if config.verifier == "rules":
        return None
    return cast(Verifier, _import_factory(config.verifier, VERIFIERS, "verifier")(config))


def make_reader(config: AnswerConfig) -> AnswerReader | None:
    """The reader that the settings name, None for "reranker", which is then used; NotFound lists the known names."""
    if config.reader == "reranker":
        return None
    return cast(AnswerReader, _import_factory(config.reader, READERS, "reader")(config))


def make_language_model(config: LLMConfig) -> LLM | None:
    """The language model of that name, with a cache if one is set; None if the name is empty."""
    if not config.name:
        return None
    llm = _make_uncached_language_model(config)
    if config.cache:
        from clew.drivers.llm.cached import CachedLLM

        return CachedLLM(llm, config.cache)
    return llm


def _make_uncached_language_model(config: LLMConfig) -> LLM:
    prefix, colon, _ = config.name.partition(":")
    if prefix + colon in LLMS and not config.url:
        return cast(LLM, _import_factory(config.name, LLMS, "language model")(config))
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
def make_token_counter(path: str) -> Callable[[str], int]:
    """A function that counts the tokens of a text by the tokenizer in a file; the last eight are kept."""
    from clew.drivers.tokenizer import load_token_counter

    return load_token_counter(path)


@contextmanager
def _name_denied_files() -> Iterator[None]:
    """Files that this user may not read become a DriverFailed that names them."""
    try:
        yield
    except PermissionError as error:
        from clew.drivers.store.sqlite.folder import denied_error

        raise denied_error(error) from error


@_name_denied_files()
def open_store(path: str | Path, collection: str, *, embedder: Embedder, config: StoreConfig) -> Store:
    """The store of a collection: in a folder, in memory, on a PostgreSQL server, or in Lance datasets."""
    if is_lance_address(path):
        from clew.drivers.store import lance

        name, dim = embedder.name, embedder.dim
        return lance.open_store(str(path), collection=collection, embedder=name, dim=dim, config=config)
    if config.as_of:
        raise SettingsError(
            "store.as_of needs a collection in Lance (s3://…, lance:///folder): others keep no versions"
        )
    if is_server_address(path):
        from clew.drivers.store import postgres

        name, dim = embedder.name, embedder.dim
        return postgres.open_store(str(path), collection=collection, embedder=name, dim=dim, config=config)
    from clew.drivers.store.sqlite.backend import open_store

    folder = None if str(path) == MEMORY else resolve_folder(path) / collection
    return open_store(folder, embedder=embedder.name, dim=embedder.dim, config=config)


def check_backend(backend: object) -> None:
    """Raise SettingsError unless a backend of the user's own has all that it has to bring."""
    from clew.drivers.store.base import REQUIRED, BaseBackend

    if not isinstance(backend, BaseBackend):
        raise SettingsError(f"backend has the type {type(backend).__name__}; derive it from clew.BaseBackend")
    if lacking := [name for name in REQUIRED if getattr(type(backend), name) is getattr(BaseBackend, name)]:
        raise SettingsError(f"the backend {type(backend).__name__} lacks {', '.join(lacking)}; see docs/extending.md")


def open_backend(backend: "BaseBackend", embedder: Embedder) -> Store:
    """The store over a backend of the user's own."""
    from clew.drivers.store.store import BackendStore

    backend.open(embedder.name, embedder.dim)
    return BackendStore(backend)


def open_server_store(path: str | Path, config: StoreConfig, *, create: bool) -> "BackendStore | None":
    """Open the collection in which servers over a store keep their keys; None if it is not there and not created.

    Its name cannot be given to another collection, and it is not listed among them.
    """
    from clew.drivers.store.sqlite.folder import has_marker

    folder = find_collection_folder(path, SERVER)
    advice = f"restore {folder} from a backup, or remove it to begin without keys"
    if folder and any(os.path.lexists(each) and not each.is_dir() for each in (folder, *folder.parents)):
        raise DriverFailed(f"{folder} is no folder; {advice}")
    try:
        is_there = read_stored_embedder_name(path, SERVER) is not None or (folder and has_marker(folder))
        if not create and not is_there:
            return None
        embedder = make_embedder(EmbedderConfig(name=SERVER_EMBEDDER))
        store = open_store(path, SERVER, embedder=embedder, config=replace(config, as_of="", access=None))
    except CollectionLost:
        raise DriverFailed(f"{folder} has lost its database; {advice}") from None
    return cast("BackendStore", store)


@_name_denied_files()
def read_stored_embedder_name(path: str | Path, collection: str) -> str | None:
    """The name of the embedder that a collection was filled with; None if there is no such collection."""
    if is_lance_address(path):
        from clew.drivers.store import lance

        return lance.read_stored_embedder_name(str(path), collection)
    if is_server_address(path):
        from clew.drivers.store import postgres

        return postgres.read_stored_embedder_name(str(path), collection)
    from clew.drivers.store.sqlite import database

    return None if str(path) == MEMORY else database.read_stored_embedder_name(resolve_folder(path) / collection)


@_name_denied_files()
def list_collections(path: str | Path) -> list[CollectionRecord]:
    """The collections in a folder or on a server, by name; NotFound if there is no such folder."""
    return [each for each in _list_all_collections(path) if each.name != SERVER]


def _list_all_collections(path: str | Path) -> list[CollectionRecord]:
    if is_lance_address(path):
        from clew.drivers.store import lance

        return lance.list_collections(str(path))
    if is_server_address(path):
        from clew.drivers.store import postgres

        return postgres.list_collections(str(path))
    from clew.drivers.store.sqlite.folder import list_collections

    root = resolve_folder(path)
    if not root.is_dir():
        raise NotFound(f"there is no folder {path}, so no collections; `clew add` makes one")
    return list_collections(root)


@_name_denied_files()
def drop_collection(path: str | Path, name: str) -> DroppedCollection:
    """Removes a collection and nothing else; what it was, or NotFound."""
    if is_lance_address(path):
        from clew.drivers.store import lance

        return DroppedCollection(lance.drop_collection(str(path), name))
    if is_server_address(path):
        from clew.drivers.store import postgres

        return DroppedCollection(postgres.drop_collection(str(path), name))
    from clew.drivers.store.sqlite import folder as folders

    folder = resolve_folder(path) / name
    known = {record.name: record for record in list_collections(path)}
    if name not in known:
        hint = format_suggestion(name, known) or "`clew collections` lists them"
        raise NotFound(f"there is no collection {name!r} in {path}; {hint}")
    return DroppedCollection(known[name], folders.remove_collection(folder))


@_name_denied_files()
def accept_what_is_there(path: str | Path, collection: str, embedder: str) -> tuple[Defect, ...]:
    """Let a folder's collection be opened that is refused as a whole; returns what was wrong, repaired."""
    folder = find_collection_folder(path, collection)
    if folder is None:
        return ()
    from clew.drivers.store.sqlite.inspect import accept_what_is_there

    return tuple(accept_what_is_there(folder, embedder, list(EMBEDDERS)))


def _import_factory(name: str, table: Mapping[str, str], what: str) -> Any:
    """The factory of the driver of that name, imported; NotFound lists the known names."""
    prefix, colon, _ = name.partition(":")
    place = table.get(prefix + colon)
    if place is None:
        labels = {key: f"{key}…" if key.endswith(":") else key for key in table}
        near = [labels[key] for key in find_close_names(name, table, max_names=1, cutoff=0.6)]
        guess = f"; did you mean {near[0]}?" if near else "."
        raise NotFound(f"there is no {what} {name!r}{guess} There are: {', '.join(labels.values())}")
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
