"""Where collections are: a folder, memory, a server, or object storage."""

from pathlib import Path
from typing import Final

from clew.core.errors import DriverMissing
from clew.core.secret import mask_secrets

MEMORY: Final = ":memory:"


def find_source_root(path: str | Path) -> Path:
    """The folder to which the uris of files are relative: the parent of the collections' folder, else the current."""
    return Path.cwd() if str(path) == MEMORY or is_address(path) else resolve_folder(path).parent


def find_collection_folder(path: str | Path, collection: str) -> Path | None:
    """The folder of a collection; None for one in memory or on a server."""
    return None if str(path) == MEMORY or is_address(path) else resolve_folder(path) / collection


def is_server_address(path: str | Path) -> bool:
    """Whether a path is the address of a PostgreSQL server."""
    return str(path).startswith(("postgresql://", "postgres://"))


def is_shared(path: str | Path) -> bool:
    """Whether processes on many machines can write to the collections of a path at the same time."""
    return is_address(path)


def is_lance_address(path: str | Path) -> bool:
    """Whether a path is the address of Lance datasets: in object storage, or in a folder (`lance://`)."""
    return str(path).startswith(("lance://", "s3://", "gs://", "az://"))


def is_address(path: str | Path) -> bool:
    """Whether a path is the address of a server or of Lance datasets, and not a folder of collections."""
    return is_server_address(path) or is_lance_address(path)


def resolve_folder(path: str | Path) -> Path:
    """The folder of collections that a path names; DriverMissing for an address of no store that there is."""
    if "://" in str(path):
        raise DriverMissing(
            f"{mask_secrets(str(path))}: collections are kept in folders, in PostgreSQL and in object storage; give a "
            "path, postgresql://… or s3://…"
        )
    return Path(path).resolve()
