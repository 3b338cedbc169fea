"""Sessions: the document numbers and messages of each conversation, so that `[2]` means the same throughout."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from time import time
from typing import Self

from clew.core.errors import ConcurrentChange, ReadOnlyStore, SettingsError
from clew.core.protocols import SessionStore
from clew.core.stored import ChangeSession, StoredSession
from clew.core.types import Message

MAX_DOCUMENTS = 1000  # numbered in a session
MAX_MESSAGES = 40  # of a session; the oldest are dropped
MAX_TOUCH_SECONDS = 60.0  # within which another use of a stored session is not written


@dataclass(frozen=True, slots=True)
class DocumentNumbers:
    """The numbers of known documents, and a function that assigns the next numbers to new ones."""

    known: Mapping[str, int]
    assign: Callable[[Iterable[str]], dict[str, int]]


class MemorySessions:
    """Sessions in memory, the most recently used last; see `SessionStore`."""

    def __init__(self) -> None:
        self._sessions: dict[str, StoredSession] = {}
        self._lock = threading.RLock()  # a session may be dropped by the garbage collector, in any thread

    def __contains__(self, name: str) -> bool:
        return name in self._sessions

    def get(self, name: str) -> StoredSession | None:
        """Return the session of that name, or None."""
        return self._sessions.get(name)

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Apply a `change` to a session, a new one if unknown, and return the result."""
        with self._lock:
            made = change(self._sessions.get(name, StoredSession()))
            self._sessions.pop(name, None)
            self._sessions[name] = made
            return made

    def drop(self, names: Sequence[str]) -> int:
        """Delete sessions; return how many existed."""
        with self._lock:
            return sum(self._sessions.pop(name, None) is not None for name in names)

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Delete old sessions that are not kept; return how many."""
        with self._lock:
            others = [(name, each) for name, each in self._sessions.items() if not each.kept and name != current]
            excess = len(others) - (max_sessions - 1)
            return self.drop(
                [name for place, (name, each) in enumerate(others) if place < excess or each.used < used_since]
            )

    def names(self) -> list[str]:
        """Return the names of all sessions, sorted."""
        return sorted(self._sessions)


class Sessions:
    """Document numbers by session, from 1, stored with the collection so that they survive reopening.

    The least recently used and idle sessions are dropped; named chats stay until `drop`. Thread-safe, and safe with
    other programs on the same collection. If the collection is read-only, sessions are kept in memory.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        *,
        max_sessions: int = 1000,
        max_idle: float = 86_400,
        clock: Callable[[], float] = time,
    ) -> None:
        for name, value in (("max_sessions", max_sessions), ("max_idle", max_idle)):
            if value <= 0:
                raise SettingsError(f"{name} is {value}; it must be more than 0")
        self._store = store
        self._memory = MemorySessions()
        self._max_sessions = max_sessions
        self._max_idle = max_idle
        self._clock = clock
        self._answer_lock = threading.RLock()  # a renderer may ask the engine for another context

    def with_store(self, store: SessionStore) -> Self:
        """Return the same sessions on another store of the same collection, as after `reembed`."""
        other = copy(self)
        other._store = store
        return other

    def make_private(self) -> Self:
        """Return empty sessions in memory with the same limits, separate from these."""
        other = copy(self)
        other._store, other._memory, other._answer_lock = None, MemorySessions(), threading.RLock()
        return other

    def set_document_index(self, session: str, ids: Sequence[str], *, known: int | None = None) -> dict[str, int]:
        """Return the number of each document; known ones keep theirs, new ones get the next in the given order.

        Documents beyond the limit of a session get none. Raises ConcurrentChange if the session no longer has `known`
        documents: another program has numbered some since they were counted.
        """
        wanted = list(dict.fromkeys(ids))

        def add_documents(session: StoredSession) -> StoredSession:
            if known is not None and len(session.documents) != known:
                raise ConcurrentChange("another program has numbered documents in this session; try again")
            new = [doc_id for doc_id in wanted if doc_id not in session.documents]
            return replace(session, documents=(*session.documents, *new)[:MAX_DOCUMENTS])

        stored = self._load(session)
        if stored is None or add_documents(stored).documents != stored.documents:
            stored = self._update(session, add_documents)
        else:
            self._touch(session, stored)
        return {doc_id: stored.numbers[doc_id] for doc_id in wanted if doc_id in stored.numbers}

    def get_knowledge_source_id_by_index(self, session: str, number: int) -> str | None:
        """Return the id of the document with that number in the session, or None."""
        stored = self._load(session)
        if stored is None:
            return None
        self._touch(session, stored)
        return stored.documents[number - 1] if 1 <= number <= len(stored.documents) else None

    @contextmanager
    def lock_document_numbers(self, session: str | None) -> "Iterator[DocumentNumbers]":
        """Lock the numbers of a session for one answer; no other thread assigns numbers meanwhile.

        If another program does, `assign` raises ConcurrentChange. Without a session, numbers start at 1 and none are
        stored.
        """
        if session is None:
            yield DocumentNumbers({}, lambda ids: {doc_id: number for number, doc_id in enumerate(ids, 1)})
            return
        with self._answer_lock:
            known = self.get_document_numbers(session)
            yield DocumentNumbers(known, lambda ids: self.set_document_index(session, list(ids), known=len(known)))

    def get_document_numbers(self, session: str) -> dict[str, int]:
        """Return all numbers of a session by document id; empty for an unknown session."""
        stored = self._load(session)
        return stored.numbers if stored else {}

    def get_messages(self, session: str) -> tuple[Message, ...]:
        """Return the messages of a chat, oldest first; empty for an unknown session."""
        stored = self._load(session)
        return stored.messages if stored else ()

    def add_messages(self, session: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Add messages to a chat and return all that it has; beyond a limit the oldest are dropped."""
        return self._update(
            session, lambda stored: replace(stored, messages=(*stored.messages, *messages)[-MAX_MESSAGES:])
        ).messages

    def keep(self, session: str) -> None:
        """Store a session with the collection until it is dropped; ReadOnlyStore if the collection is read-only."""
        stored = self._load(session)
        if stored is None or not stored.kept:
            (self._store or self._memory).update(
                session, lambda current: replace(self._renew(current), used=self._clock(), kept=True)
            )

    def hold(self, session: str) -> None:
        """Keep a session in memory only, never with the collection, until it is released."""
        self._memory.update(session, lambda stored: replace(stored, kept=True))

    def release(self, session: str) -> None:
        """Forget a session that is in memory."""
        self._memory.drop([session])

    def list_sessions(self) -> list[str]:
        """List the names of the sessions stored with the collection, sorted, without expired ones."""
        return [name for name in (self._store or self._memory).names() if self._load(name)]

    def drop(self, *sessions: str) -> int:
        """Delete sessions with their numbers and messages; return how many there were."""
        return self._memory.drop(sessions) + (self._store.drop(sessions) if self._store else 0)

    def __len__(self) -> int:
        return len(self.list_sessions())

    def _load(self, session: str) -> StoredSession | None:
        """Load the session, unless it was idle for too long."""
        stored = self._memory.get(session) or (self._store.get(session) if self._store else None)
        return stored if stored and (stored.kept or self._clock() - stored.used <= self._max_idle) else None

    def _renew(self, stored: StoredSession) -> StoredSession:
        """Return the session, a new one if it was idle for too long."""
        return stored if stored.kept or self._clock() - stored.used <= self._max_idle else StoredSession()

    def _update(self, session: str, change: ChangeSession) -> StoredSession:
        now, is_new = self._clock(), self._load(session) is None
        place: SessionStore = self._store if self._store and session not in self._memory else self._memory

        def change_and_use(stored: StoredSession) -> StoredSession:
            return replace(change(self._renew(stored)), used=now)

        try:
            made = place.update(session, change_and_use)
        except ReadOnlyStore:  # continue in memory
            place, stored = self._memory, self._load(session)
            made = place.update(session, lambda _: change_and_use(stored or StoredSession()))
        if is_new and not made.kept:
            place.prune(max_sessions=self._max_sessions, used_since=now - self._max_idle, current=session)
        return made

    def _touch(self, session: str, stored: StoredSession) -> None:
        """Record the use of a session; write a stored one only now and then."""
        age = self._clock() - stored.used
        if self._store is None or session in self._memory or age > min(MAX_TOUCH_SECONDS, self._max_idle / 10):
            self._update(session, lambda current: current)
