"""Drivers: everything that touches a model, a disk or a network. This module opens stores by their place.

A driver is imported on first use, so that nothing heavy is loaded in vain.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from clew.core.doctor import Defect
from clew.core.errors import CollectionLost, DriverFailed, DriverMissing, NotFound, SettingsError
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.stored import CollectionRecord, DroppedCollection
from clew.core.suggest import format_suggestion, mask_secrets
from clew.drivers.models import MODELS as MODELS
from clew.drivers.models import choose_embedder_name as choose_embedder_name
from clew.drivers.models import make_embedder as make_embedder
from clew.drivers.models import make_language_model as make_language_model
from clew.drivers.models import make_reader as make_reader
from clew.drivers.models import make_reranker as make_reranker
from clew.drivers.models import make_token_counter as make_token_counter
from clew.drivers.models import make_verifier as make_verifier
from clew.drivers.models import round_vectors as round_vectors
from clew.drivers.plugins import Plugin
from clew.drivers.plugins import find_plugins as find_plugins

if TYPE_CHECKING:
    from clew.drivers.store.base import BaseBackend
    from clew.drivers.store.store import Store


SERVER, SERVER_EMBEDDER = ".server", "hashed:8"  # the server's own collection, without documents

# Without a handler, Python would print a bare "stamina.retry_scheduled" for every retry.
logging.getLogger("stamina").addHandler(logging.NullHandler())


@contextmanager
def _name_denied_files() -> Iterator[None]:
    """Turn a PermissionError into a DriverFailed that names the file."""
    try:
        yield
    except PermissionError as error:
        from clew.drivers.store.sqlite.folder import denied_error

        raise denied_error(error) from error


class _Folders:
    """Collections in subfolders of a folder, or in memory."""

    def open_store(self, path: str, *, collection: str, embedder: str, dim: int, config: StoreConfig) -> "Store":
        from clew.drivers.store.sqlite.backend import open_store

        folder = None if path == MEMORY else resolve_folder(path) / collection
        return open_store(folder, embedder=embedder, dim=dim, config=config)

    def read_stored_embedder_name(self, path: str, collection: str, _: str = "") -> str | None:
        from clew.drivers.store.sqlite import database

        return None if path == MEMORY else database.read_stored_embedder_name(resolve_folder(path) / collection)

    def list_collections(self, path: str) -> list[CollectionRecord]:
        from clew.drivers.store.sqlite.folder import list_collections

        root = resolve_folder(path)
        if not root.is_dir():
            raise NotFound(f"there is no folder {path}, so no collections; `clew add` makes one")
        return list_collections(root)

    def drop_collection(self, path: str, name: str) -> DroppedCollection:
        from clew.drivers.store.sqlite.folder import remove_collection

        known = {record.name: record for record in list_collections(path)}
        if name not in known:
            hint = format_suggestion(name, known) or "`clew collections` lists them"
            raise NotFound(f"there is no collection {name!r} in {path}; {hint}")
        return DroppedCollection(known[name], remove_collection(resolve_folder(path) / name))


class _Backends:
    """Collections over backends of the user or a plugin, made by `make(address, collection)`."""

    def __init__(self, make: Callable[[str, str], "BaseBackend"]) -> None:
        self._make = make

    def open_store(self, address: str, *, collection: str, embedder: str, dim: int, **_: object) -> "Store":
        from clew.drivers.store.store import Store

        backend = self._make_checked(address, collection)
        backend.open(embedder, dim)
        return Store(backend)

    def read_stored_embedder_name(self, address: str, collection: str, _: str = "") -> str | None:
        return self._make_checked(address, collection).read_embedder()

    def list_collections(self, address: str) -> Any:
        raise SettingsError(
            f"the store of {mask_secrets(address)} opens collections by name; it cannot list or drop them"
        )

    def drop_collection(self, address: str, _: str) -> Any:
        return self.list_collections(address)

    def _make_checked(self, address: str, collection: str) -> "BaseBackend":
        from clew.drivers.store.base import REQUIRED, BaseBackend

        backend = self._make(address, collection)
        kind = type(backend)
        if not isinstance(backend, BaseBackend):
            raise SettingsError(
                f"the place of the collection has the type {kind.__name__}; give a folder, an address, or a backend "
                "derived from clew.BaseBackend"
            )
        if lacking := [name for name in REQUIRED if getattr(kind, name) is getattr(BaseBackend, name)]:
            raise SettingsError(f"the backend {kind.__name__} lacks {', '.join(lacking)}; see docs/extending.md")
        return backend


def _choose_stores(place: "str | Path | BaseBackend", collection: str = "default") -> Any:
    """Choose the object that opens, lists and drops the collections of a place."""
    if not isinstance(place, str | Path):
        if collection != "default":
            raise SettingsError(f"a backend is one collection; leave out collection={collection!r}")
        return _Backends(lambda _, __: place)
    if is_lance_address(place):
        from clew.drivers.store import lance

        return lance
    if is_server_address(place):
        from clew.drivers.store import postgres

        return postgres
    plugin = find_store_plugin(place)
    return _Backends(plugin.make) if plugin else _Folders()


def describe_place(place: "str | Path | BaseBackend") -> str:
    """Return the name of a place for messages, without a password."""
    return mask_secrets(str(place)) if isinstance(place, str | Path) else place.place


@_name_denied_files()
def open_store(
    place: "str | Path | BaseBackend", collection: str, *, embedder: Embedder, config: StoreConfig
) -> "Store":
    """Open the store of a collection: in a folder, in memory, on a server, in Lance datasets, or over a backend."""
    stores = _choose_stores(place, collection)
    if config.as_of and not (isinstance(place, str | Path) and is_lance_address(place)):
        raise SettingsError(
            "store.as_of needs a collection in Lance (s3://…, lance:///folder): others keep no versions"
        )
    name, dim = embedder.name, embedder.dim
    opened = stores.open_store(str(place), collection=collection, embedder=name, dim=dim, config=config)
    return cast("Store", opened)


def open_server_store(path: str | Path, config: StoreConfig, *, create: bool) -> "Store | None":
    """Open the collection in which servers keep their keys; None if it does not exist and `create` is False.

    Its name is reserved, and lists of collections leave it out.
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
    return store


@_name_denied_files()
def read_stored_embedder_name(place: "str | Path | BaseBackend", collection: str, *, as_of: str = "") -> str | None:
    """Return the name of a collection's embedder, now or at the time `as_of`; None if there is no such collection."""
    name: str | None = _choose_stores(place, collection).read_stored_embedder_name(str(place), collection, as_of)
    return name


@_name_denied_files()
def list_collections(path: str | Path) -> list[CollectionRecord]:
    """List the collections in a folder or on a server, by name; NotFound if there is no such folder."""
    return [each for each in _choose_stores(path).list_collections(str(path)) if each.name != SERVER]


@_name_denied_files()
def drop_collection(path: str | Path, name: str) -> DroppedCollection:
    """Remove a collection, but no foreign files; return its last record, or raise NotFound."""
    dropped = _choose_stores(path).drop_collection(str(path), name)
    return dropped if isinstance(dropped, DroppedCollection) else DroppedCollection(dropped)


@_name_denied_files()
def accept_what_is_there(path: str | Path, collection: str, embedder: str) -> tuple[Defect, ...]:
    """Make a folder's collection open again that is refused as a whole; return the defects, repaired."""
    folder = find_collection_folder(path, collection)
    if folder is None:
        return ()
    from clew.drivers.store.sqlite.inspect import accept_what_is_there

    return tuple(accept_what_is_there(folder, embedder, [each.key for each in MODELS["embedders"]]))


MEMORY: Final = ":memory:"


def find_source_root(place: object) -> Path:
    """Find the folder to which file uris are relative: the parent of the collections' folder, else the current one."""
    return resolve_folder(place).parent if _is_folder(place) else Path.cwd()


def find_collection_folder(place: object, collection: str) -> Path | None:
    """Find the folder of a collection; None for one in memory, on a server or over a backend."""
    return resolve_folder(place) / collection if _is_folder(place) else None


def _is_folder(place: object) -> TypeGuard[str | Path]:
    return isinstance(place, str | Path) and str(place) != MEMORY and not is_address(place)


def is_server_address(path: str | Path) -> bool:
    """Return whether a path is the address of a PostgreSQL server."""
    return str(path).startswith(("postgresql://", "postgres://"))


def is_shared(place: object) -> TypeGuard[str | Path]:
    """Return whether processes on several machines can write to the collections of a place at the same time."""
    return isinstance(place, str | Path) and is_address(place)


def is_lance_address(path: str | Path) -> bool:
    """Return whether a path is the address of Lance datasets, in object storage or in a folder (`lance://`)."""
    return str(path).startswith(("lance://", "s3://", "gs://", "az://"))


def is_address(path: str | Path) -> bool:
    """Return whether a path is the address of a server, Lance datasets or a plugin's store, not a folder."""
    return is_server_address(path) or is_lance_address(path) or find_store_plugin(path) is not None


def find_store_plugin(path: str | Path) -> Plugin | None:
    """Find the plugin for the scheme of an address, such as `mongodb://`; None if there is none."""
    scheme, sign, _ = str(path).partition("://")
    return find_plugins("stores").get(scheme) if sign else None


def resolve_folder(path: str | Path) -> Path:
    """Resolve a path to a folder of collections; DriverMissing for the address of an unknown store."""
    if "://" in str(path):
        raise DriverMissing(
            f"{mask_secrets(str(path))}: collections are kept in folders, in PostgreSQL and in object storage; give a "
            "path, postgresql://… or s3://…, or install a package that adds this kind of store"
        )
    return Path(path).resolve()
