"""What is known of a collection without opening it, and what is left of one that was dropped."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CollectionRecord:
    """A collection in a folder or on a server: its name, counts, embedder, times and size.

    `updated` is when a document was last written. `created` is None for a collection that an earlier Clew made. On a
    server `bytes` is its share of the tables. `problem` says why it cannot be opened; the counts are then 0.
    """

    name: str
    documents: int = 0
    chunks: int = 0
    embedder: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    bytes: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DroppedCollection:
    """A collection that was dropped, as it was; `left` are the files in its folder that are not Clew's and stay."""

    collection: CollectionRecord
    left: tuple[str, ...] = ()
