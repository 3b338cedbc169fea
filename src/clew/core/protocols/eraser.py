"""The protocol of what a store offers to an erasure, beyond deleting."""

from collections.abc import Callable
from typing import Protocol

from clew.core.receipt import Purge


class Eraser(Protocol):
    """Takes from the disk what deletions leave there. Made by `Store.eraser`."""

    def pending(self) -> str:
        """The text that `set_pending` kept; empty if there is none."""

    def set_pending(self, text: str) -> None:
        """Keeps a text about an erasure that is not finished; an empty one deletes it."""

    def drop_jobs(self, matches: Callable[[str, str], bool]) -> tuple[int, list[str]]:
        """Deletes the jobs that match and have ended; how many, and the ids of those that match and have not.

        A job is matched by its id, and by its request, result and error: lines of JSON or of text.
        """

    def purge(self) -> Purge:
        """Overwrites what was deleted before.

        Others may read and write meanwhile, or wait for it. The index is built again by the next `flush` or search.
        """

    def notes(self) -> list[str]:
        """What is beyond the reach of this store, as sentences: backups, logs of a server."""
