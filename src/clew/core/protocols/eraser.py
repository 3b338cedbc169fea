"""The protocol of what a store offers to an erasure, beyond deleting."""

from collections.abc import Callable, Iterator
from typing import Protocol


class Eraser(Protocol):
    """Takes from the disk what deletions leave there, and reads everything that is stored. Made by `Store.eraser`."""

    def pending(self) -> str:
        """The text that `set_pending` kept; empty if there is none."""

    def set_pending(self, text: str) -> None:
        """Keeps a text about an erasure that is not finished; an empty one deletes it."""

    def drop_jobs(self, matches: Callable[[str], bool]) -> int:
        """Deletes the jobs that have ended and of whose request, result or error something matches; how many."""

    def purge(self) -> list[str]:
        """Takes what was deleted before from the disk as well; what could not be done, as sentences that say so.

        Others may read and write meanwhile, or wait for it. The index is built again by the next `flush` or search.
        """

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Everything that is stored of the collection, as bytes: the name of a file or column, and a part of it.

        Texts are UTF-8, vectors float32 and terms int64, little-endian. Parts of one file overlap by the 32 bytes of
        the longest fingerprint. Files of the index begin with "index/".
        """

    def notes(self) -> list[str]:
        """What is beyond the reach of this store, as sentences: backups, logs of a server."""
