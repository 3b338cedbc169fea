"""Sessions: the document numbers of each conversation, so that `[2]` means the same document throughout."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from clew.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class DocumentNumbers:
    """The numbers that documents have, and a function that assigns the next numbers to new ones."""

    known: Mapping[str, int]
    assign: Callable[[Iterable[str]], dict[str, int]]


@dataclass(slots=True)
class _Session:
    used: float
    ids: list[str] = field(default_factory=list)


class Sessions:
    """Document numbers by session, from 1. An LRU cache: drops the least recently used sessions, and idle ones.

    Thread-safe.
    """

    def __init__(
        self,
        *,
        max_sessions: int = 1000,
        max_documents: int = 1000,
        max_idle: float = 86_400,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        for name, value in (("max_sessions", max_sessions), ("max_documents", max_documents), ("max_idle", max_idle)):
            if value <= 0:
                raise SettingsError(f"{name} is {value}; it must be more than 0")
        self._max_sessions = max_sessions
        self._max_documents = max_documents
        self._max_idle = max_idle
        self._clock = clock
        self._lock = threading.Lock()
        self._answer_lock = threading.RLock()  # a renderer may ask the engine for another context
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def set_document_index(self, session: str, ids: Sequence[str]) -> dict[str, int]:
        """The number of each document; known ones keep theirs, new ones get the next in the given order.

        Documents beyond the limit of a session get none.
        """
        with self._lock:
            known = self._open_session(session)
            for doc_id in dict.fromkeys(ids):
                if doc_id not in known.ids and len(known.ids) < self._max_documents:
                    known.ids.append(doc_id)
            return {doc_id: known.ids.index(doc_id) + 1 for doc_id in dict.fromkeys(ids) if doc_id in known.ids}

    def get_knowledge_source_id_by_index(self, session: str, number: int) -> str | None:
        """The document with that number in the session, or None; there is none for 0 and below."""
        with self._lock:
            self._expire_idle_sessions()
            known = self._sessions.get(session)
            if known is None:
                return None
            known.used = self._clock()
            self._sessions.move_to_end(session)
            return known.ids[number - 1] if 1 <= number <= len(known.ids) else None

    @contextmanager
    def lock_document_numbers(self, session: str | None) -> "Iterator[DocumentNumbers]":
        """The numbers of a session, locked for one answer so that no other assigns numbers meanwhile.

        Without a session they start at 1 and nothing is stored.
        """
        if session is None:
            yield DocumentNumbers({}, lambda ids: {doc_id: number for number, doc_id in enumerate(ids, 1)})
            return
        with self._answer_lock:
            yield DocumentNumbers(
                self.get_document_numbers(session), lambda ids: self.set_document_index(session, list(ids))
            )

    def get_document_numbers(self, session: str) -> dict[str, int]:
        """All numbers of a session by document id; empty for an unknown session."""
        with self._lock:
            self._expire_idle_sessions()
            known = self._sessions.get(session)
            return {doc_id: number for number, doc_id in enumerate(known.ids, 1)} if known else {}

    def __len__(self) -> int:
        with self._lock:
            self._expire_idle_sessions()
            return len(self._sessions)

    def _open_session(self, session: str) -> _Session:
        self._expire_idle_sessions()
        known = self._sessions.setdefault(session, _Session(self._clock()))
        known.used = self._clock()
        self._sessions.move_to_end(session)
        while len(self._sessions) > self._max_sessions:
            self._sessions.popitem(last=False)
        return known

    def _expire_idle_sessions(self) -> None:
        """Drops the sessions that have been idle for too long; the least recently used come first."""
        while self._sessions:
            session = next(iter(self._sessions))
            if self._clock() - self._sessions[session].used <= self._max_idle:
                return
            del self._sessions[session]
