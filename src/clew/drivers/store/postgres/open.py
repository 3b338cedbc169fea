"""Opens the store of a collection on a PostgreSQL server."""

from clew.core.settings import StoreConfig
from clew.drivers.store.postgres.backend import PostgresBackend
from clew.drivers.store.store import BackendStore


def open_store(
    url: str,
    *,
    collection: str,
    embedder: str,
    dim: int,
    config: StoreConfig = StoreConfig(),  # noqa: B008
) -> BackendStore:
    """The store of a collection, which is made if there is none; its tables too."""
    return BackendStore(PostgresBackend(url, collection=collection, embedder=embedder, dim=dim, config=config))
