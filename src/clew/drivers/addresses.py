"""Where collections are: a folder, memory, a server, or object storage."""

from pathlib import Path
from typing import Final, TypeGuard

from clew.core.errors import DriverMissing
from clew.core.suggest import mask_secrets
from clew.drivers.plugins import Plugin, find_plugins

MEMORY: Final = ":memory:"


def find_source_root(place: object) -> Path:
    """The folder to which the uris of files are relative: the parent of the collections' folder, else the current."""
    return resolve_folder(place).parent if _is_folder(place) else Path.cwd()


def find_collection_folder(place: object, collection: str) -> Path | None:
    """The folder of a collection; None for one in memory, on a server or over a backend."""
    return resolve_folder(place) / collection if _is_folder(place) else None


def _is_folder(place: object) -> TypeGuard[str | Path]:
    return isinstance(place, str | Path) and str(place) != MEMORY and not is_address(place)


def is_server_address(path: str | Path) -> bool:
    """Whether a path is the address of a PostgreSQL server."""
    return str(path).startswith(("postgresql://", "postgres://"))


def is_shared(place: object) -> TypeGuard[str | Path]:
    """Whether processes on many machines can write to the collections of a place at the same time."""
    return isinstance(place, str | Path) and is_address(place)


def is_lance_address(path: str | Path) -> bool:
    """Whether a path is the address of Lance datasets: in object storage, or in a folder (`lance://`)."""
    return str(path).startswith(("lance://", "s3://", "gs://", "az://"))


def is_address(path: str | Path) -> bool:
    """Whether a path is the address of a server, of Lance datasets or of a plugin's store, and not a folder."""
    return is_server_address(path) or is_lance_address(path) or find_store_plugin(path) is not None


def find_store_plugin(path: str | Path) -> Plugin | None:
    """The plugin for the addresses that begin as this one, as `mongodb://`; None if there is none."""
    scheme, sign, _ = str(path).partition("://")
    return find_plugins("stores").get(scheme) if sign else None


def resolve_folder(path: str | Path) -> Path:
    """The folder of collections that a path names; DriverMissing for an address of no store that there is."""
    if "://" in str(path):
        raise DriverMissing(
            f"{mask_secrets(str(path))}: collections are kept in folders, in PostgreSQL and in object storage; give a "
            "path, postgresql://… or s3://…, or install a package that adds this kind of store"
        )
    return Path(path).resolve()
