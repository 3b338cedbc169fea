"""What a store is over, for tests that look behind it."""

from clew.drivers.store.postgres.backend import PostgresBackend
from clew.drivers.store.sqlite.backend import SqliteBackend
from clew.drivers.store.store import Store


def get_server(store: Store) -> PostgresBackend:
    """The backend of a collection on a server."""
    assert isinstance(store, Store)
    assert isinstance(store._backend, PostgresBackend)
    return store._backend


def get_backend(store: Store) -> SqliteBackend:
    """The backend of a store in a folder or in memory."""
    assert isinstance(store._backend, SqliteBackend)
    return store._backend
