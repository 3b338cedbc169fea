"""Protocol of the sessions that are kept with a collection."""

from collections.abc import Sequence
from typing import Protocol

from clew.core.session import ChangeSession, StoredSession


class SessionStore(Protocol):
    """The sessions of one collection by name. They may be used from several threads, programs and machines.

    A session is no part of the content: writing one does not change the change number. DriverFailed where the store
    fails, ReadOnlyStore where it can only be read.
    """

    def get(self, name: str) -> StoredSession | None:
        """The session of that name, or None."""

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replaces a session by what `change` makes of it, atomically, and returns that; a new one starts empty.

        What `change` raises leaves the session as it was; it may be called more than once.
        """

    def drop(self, names: Sequence[str]) -> int:
        """Deletes sessions; returns how many existed."""

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Deletes sessions that are not kept: those used before `used_since`, and the oldest beyond `max_sessions`.

        `current` stays in any case. Returns how many were deleted.
        """

    def names(self) -> list[str]:
        """The names of all sessions, sorted."""
