"""The sessions of a collection, and the claims of its documents."""

import time
from collections.abc import Sequence
from typing import Any

from clew.core.session import ChangeSession, StoredSession, messages_to_json, parse_messages
from clew.drivers.store.lance.entries import Entries, EntryTable
from clew.drivers.store.lance.schema import DOCUMENT
from clew.drivers.store.lance.select import select
from clew.drivers.store.lance.snapshot import Snapshot


class LanceSessions:
    """The sessions by name; see `SessionStore`."""

    __slots__ = ("_entries",)

    def __init__(self, entries: EntryTable) -> None:
        self._entries = entries

    def get(self, name: str) -> StoredSession | None:
        """The session of that name, or None."""
        found = self._entries.read().get(name)
        return None if found is None else _parse_session(found)

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replaces a session by what `change` makes of it, in one transaction."""

        def decide(entries: Entries) -> StoredSession:
            made = change(_parse_session(entries[name]) if name in entries else StoredSession())
            entries[name] = [list(made.documents), messages_to_json(made.messages), made.used, made.kept]
            return made

        return self._entries.change(decide)

    def drop(self, names: Sequence[str]) -> int:
        """Deletes sessions; returns how many existed."""
        return self._entries.change(lambda entries: sum(entries.pop(name, None) is not None for name in set(names)))

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Deletes old sessions that are not kept; returns how many."""

        def decide(entries: Entries) -> int:
            loose = [(name != current, -used, name) for name, (_, _, used, kept) in entries.items() if not kept]
            ordered = [name for *_, name in sorted(loose)]
            old = {name for name in ordered if entries[name][2] < used_since} | set(ordered[max_sessions:])
            for name in old - {current}:
                del entries[name]
            return len(old - {current})

        return self._entries.change(decide)

    def names(self) -> list[str]:
        """The names of all sessions, sorted."""
        return sorted(self._entries.read())


def _parse_session(stored: Sequence[Any]) -> StoredSession:
    documents, messages, used, kept = stored
    return StoredSession(tuple(documents), parse_messages(messages), used, kept)


def claim_documents(
    entries: EntryTable, snapshot: Snapshot, doc_ids: Sequence[str], *, owner: str, seconds: float
) -> set[str]:
    """Claims the documents that nobody else has claimed, by the numbers of their rows; their ids."""
    found = {str(row["row"]): row["id"] for row in snapshot.find(select(DOCUMENT, id=set(doc_ids)), ("id",))}

    def decide(claims: Entries) -> set[str]:
        now = time.time()
        for number in [number for number, (_, until) in claims.items() if until <= now]:
            del claims[number]
        free = {number for number in found if claims.get(number, (owner, 0))[0] == owner}
        claims.update({number: [owner, now + seconds] for number in free})
        return {found[number] for number in free}

    return entries.change(decide) if found else set()
