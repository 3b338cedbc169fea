"""The Lance backend: collections as Lance datasets in a folder or in object storage."""

from clew.core.errors import DriverMissing

try:
    from clew.drivers.store.lance.backend import (
        drop_collection,
        list_collections,
        open_store,
        read_stored_embedder_name,
    )
except ImportError as error:
    raise DriverMissing(
        f'a collection in object storage needs pylance ({error}); install it with: pip install "clew[lance]"'
    ) from error

__all__ = ["drop_collection", "list_collections", "open_store", "read_stored_embedder_name"]
