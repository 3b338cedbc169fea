"""The server store: collections in a PostgreSQL database with pgvector, for many programs on many machines at once."""

from clew.core.errors import DriverMissing

try:
    import psycopg
    import psycopg_pool
except ImportError as error:
    raise DriverMissing(
        f'a collection in PostgreSQL needs the package {error.name}; install it with: pip install "clew[postgres]"'
    ) from error

from clew.drivers.store.postgres.setup import kept_embedder, make_app_role
from clew.drivers.store.postgres.store import PostgresStore

__all__ = ["PostgresStore", "kept_embedder", "make_app_role", "psycopg", "psycopg_pool"]
