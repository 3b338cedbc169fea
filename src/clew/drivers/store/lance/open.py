"""Opens the store of a collection in Lance datasets."""

from clew.core.settings import StoreConfig
from clew.drivers.store.lance.backend import LanceBackend
from clew.drivers.store.store import BackendStore


def open_store(
    url: str,
    *,
    collection: str,
    embedder: str,
    dim: int,
    config: StoreConfig = StoreConfig(),  # noqa: B008
) -> BackendStore:
    """The store of a collection below an address, made if there is none; with `config.as_of`, of the past."""
    return BackendStore(LanceBackend(url, collection=collection, embedder=embedder, dim=dim, config=config))
