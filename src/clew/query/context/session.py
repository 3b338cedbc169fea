"""The numbers of documents in a conversation: `[2]` keeps meaning the same document for as long as it lasts."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from clew.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that documents have, and a function that gives new ones the next."""

    known: Mapping[str, int]
    taken: Callable[[Iterable[str]], dict[str, int]]


@dataclass(slots=True)
class _Session:
    used: float
    ids: list[str] = field(default_factory=list)


class Sessions:
    """Document numbers by conversation, from 1. The least used go first when there are too many, the idle by time.

    Several threads may use it.
    """

    def __init__(
        self, *, most: int = 1000, documents: int = 1000, idle: float = 86_400, clock: Callable[[], float] = monotonic
    ) -> None:
        for name, value in (("most", most), ("documents", documents), ("idle", idle)):
            if value <= 0:
                raise SettingsError(f"{name} is {value}; it must be more than 0")
        self._most = most
        self._documents = documents
        self._idle = idle
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def set_document_index(self, session: str, ids: Sequence[str]) -> dict[str, int]:
        """The number of each document; those that have one keep it, new ones take the next in the order given.

        A conversation holds so many numbers at most; documents beyond get none.
        """
        with self._lock:
            known = self._opened(session)
            for doc_id in dict.fromkeys(ids):
                if doc_id not in known.ids and len(known.ids) < self._documents:
                    known.ids.append(doc_id)
            return {doc_id: known.ids.index(doc_id) + 1 for doc_id in dict.fromkeys(ids) if doc_id in known.ids}

    def get_knowledge_source_id_by_index(self, session: str, number: int) -> str | None:
        """The document that has the number in the conversation; None where none has. 0 and below are nobody's."""
        with self._lock:
            self._expire()
            known = self._sessions.get(session)
            if known is None:
                return None
            known.used = self._clock()
            self._sessions.move_to_end(session)
            return known.ids[number - 1] if 1 <= number <= len(known.ids) else None

    @contextmanager
    def numbered(self, session: str | None) -> "Iterator[Numbers]":
        """The numbers of a conversation for one answer; while it is made, no other takes numbers.

        Without a conversation they begin at 1 and nothing is kept.
        """
        if session is None:
            yield Numbers({}, lambda ids: {doc_id: number for number, doc_id in enumerate(ids, 1)})
            return
        with self._turn:
            yield Numbers(self.numbers(session), lambda ids: self.set_document_index(session, list(ids)))

    def numbers(self, session: str) -> dict[str, int]:
        """All numbers of a conversation by document; empty where there is no such conversation."""
        with self._lock:
            self._expire()
            known = self._sessions.get(session)
            return {doc_id: number for number, doc_id in enumerate(known.ids, 1)} if known else {}

    def __len__(self) -> int:
        with self._lock:
            self._expire()
            return len(self._sessions)

    def _opened(self, session: str) -> _Session:
        self._expire()
        known = self._sessions.setdefault(session, _Session(self._clock()))
        known.used = self._clock()
        self._sessions.move_to_end(session)
        while len(self._sessions) > self._most:
            self._sessions.popitem(last=False)
        return known

    def _expire(self) -> None:
        """Forgets the conversations that have not been used for too long; the least used stand first."""
        while self._sessions:
            session = next(iter(self._sessions))
            if self._clock() - self._sessions[session].used <= self._idle:
                return
            del self._sessions[session]
