"""Opens the store of a collection in a folder, or in memory."""

from pathlib import Path

from clew.core.settings import StoreConfig
from clew.drivers.store.sqlite.backend import SqliteBackend
from clew.drivers.store.store import BackendStore


def open_store(
    folder: Path | None,
    *,
    embedder: str,
    dim: int,
    config: StoreConfig = StoreConfig(),  # noqa: B008
) -> BackendStore:
    """The store of the collection in a folder, made if there is none; in memory where the folder is None."""
    return BackendStore(SqliteBackend(folder, embedder=embedder, dim=dim, config=config))
