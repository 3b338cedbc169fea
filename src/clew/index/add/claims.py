"""Claims on documents: what a model is paid for is not made by two processes at the same time."""

import uuid
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from clew.core.errors import ClewError
from clew.core.protocols import Store

LEASE_SECONDS = 60.0  # a claim outlives its process by so much
RENEWALS = 3  # per lease


class Claims:
    """The claims of one run on documents: extended while it goes on, given back at its end or by `release`.

    After a crash they end by themselves.
    """

    def __init__(self, store: Store, *, seconds: float = LEASE_SECONDS) -> None:
        self._store, self._seconds = store, seconds
        self._owner = uuid.uuid4().hex
        self._held: set[str] = set()
        self._lock = Lock()
        self._closed = Event()
        self._renewing = Thread(target=self._renew, name="clew-claims", daemon=True)

    def __enter__(self) -> Self:
        self._renewing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        self._renewing.join()
        with self._lock:
            held, self._held = sorted(self._held), set()
        if held:
            self._store.claim(held, owner=self._owner, seconds=0)

    def take(self, doc_id: str) -> bool:
        """Claims a document; whether nobody else has."""
        if not self._store.claim([doc_id], owner=self._owner, seconds=self._seconds):
            return False
        with self._lock:
            self._held.add(doc_id)
        return True

    def release(self, doc_id: str) -> None:
        """Gives the claim on a document back."""
        with self._lock:
            if doc_id not in self._held:
                return
            self._held.discard(doc_id)
        self._store.claim([doc_id], owner=self._owner, seconds=0)

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / RENEWALS):
            with self._lock:
                held = sorted(self._held)
            try:
                self._store.claim(held, owner=self._owner, seconds=self._seconds)
            except ClewError:  # the run itself meets what is wrong with the store
                continue
