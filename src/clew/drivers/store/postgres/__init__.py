"""The server store: collections in a PostgreSQL database with pgvector, shared by programs on many machines."""

from clew.core.errors import DriverMissing

try:
    from clew.drivers.store.postgres.backend import open_store
    from clew.drivers.store.postgres.setup import make_app_role, read_stored_embedder_name
    from clew.drivers.store.postgres.upkeep import drop_collection, list_collections
except ImportError as error:
    raise DriverMissing(
        f'a collection in PostgreSQL needs psycopg ({error}); install it with: pip install "clew[postgres]"'
    ) from error

__all__ = ["drop_collection", "list_collections", "make_app_role", "open_store", "read_stored_embedder_name"]
