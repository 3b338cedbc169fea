"""What every SessionStore must do: that of each store, and the one in memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from clew.core.protocols import SessionStore
from clew.core.stored import StoredSession
from clew.core.types import Document, Message
from clew.query.context.session import MemorySessions
from tests.contracts.conftest import DIM, MakeStore

TALK = (Message("when is soup served?"), Message("At noon \ud83d\x00 [1].", role="assistant"))
OpenSessions = Callable[[], SessionStore]


@pytest.fixture(params=["of a store", "in memory"])
def open_sessions(request: pytest.FixtureRequest, make_store: MakeStore) -> OpenSessions:
    """Opens the sessions of one collection; what is in memory is always the same object."""
    memory = MemorySessions()
    return (lambda: make_store().sessions) if request.param == "of a store" else lambda: memory


def set_to(session: StoredSession) -> Callable[[StoredSession], StoredSession]:
    return lambda _: session


def test_a_session_comes_back_as_it_was_written(open_sessions: OpenSessions) -> None:
    sessions, session = open_sessions(), StoredSession(("b", "a", "c'\""), TALK, 12.5, kept=True)
    assert sessions.get("work") is None
    assert sessions.update("work", set_to(session)) == session
    assert sessions.get("work") == session
    assert sessions.get("Work") is None
    assert sessions.names() == ["work"]


def test_a_change_begins_with_what_is_stored_and_a_new_session_is_empty(open_sessions: OpenSessions) -> None:
    sessions, seen = open_sessions(), list[StoredSession]()

    def add(session: StoredSession) -> StoredSession:
        seen.append(session)
        return replace(session, documents=(*session.documents, "x"))

    sessions.update("s", add)
    assert sessions.update("s", add).documents == ("x", "x")
    assert seen[0] == StoredSession()
    assert seen[-1].documents == ("x",)


def test_what_a_change_raises_leaves_the_session_as_it_was(open_sessions: OpenSessions) -> None:
    sessions = open_sessions()

    def fail(_: StoredSession) -> StoredSession:
        raise ValueError("no")

    sessions.update("s", set_to(StoredSession(("a",))))
    for name in ("s", "new"):
        with pytest.raises(ValueError, match="no"):
            sessions.update(name, fail)
    assert sessions.get("s") == StoredSession(("a",))
    assert sessions.names() == ["s"]


def test_sessions_are_dropped_by_name(open_sessions: OpenSessions) -> None:
    sessions = open_sessions()
    for name in "abc":
        sessions.update(name, set_to(StoredSession((name,))))
    assert sessions.drop(["a", "c", "d"]) == 2
    assert sessions.names() == ["b"]
    assert sessions.drop([]) == 0


def test_old_sessions_are_pruned_and_kept_ones_stay(open_sessions: OpenSessions) -> None:
    sessions = open_sessions()
    for used, name in enumerate(("kept", "one", "two", "three", "four"), 1):
        sessions.update(name, set_to(StoredSession(used=used, kept=name == "kept")))
    assert sessions.prune(max_sessions=9, used_since=3.5, current="two") == 1  # one; two is in use
    assert sessions.names() == ["four", "kept", "three", "two"]
    assert sessions.prune(max_sessions=2, used_since=0, current="two") == 1
    assert sessions.names() == ["four", "kept", "two"]
    assert sessions.prune(max_sessions=1, used_since=0, current="four") == 1
    assert sessions.names() == ["four", "kept"]


def test_many_threads_lose_nothing(open_sessions: OpenSessions) -> None:
    sessions = open_sessions()

    def add(number: int) -> None:
        sessions.update("s", lambda session: replace(session, documents=(*session.documents, str(number))))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(40)))
    found = sessions.get("s")
    assert found
    assert sorted(found.documents, key=int) == [str(number) for number in range(40)]


def test_sessions_survive_a_reopen_and_belong_to_one_collection(make_store: MakeStore) -> None:
    store = make_store()
    store.put(Document("a", "", hash="h"), [], np.zeros((0, DIM), np.float32), [])
    change = store.change_number()
    store.sessions.update("s", set_to(StoredSession(("a",), TALK, 1.0)))
    assert store.change_number() == change
    store.drop(["a"])
    found = store.sessions.get("s")
    assert found
    assert found.documents == ("a",)  # the number stays with what is gone
    assert make_store("two").sessions.get("s") is None
    if store.stats().bytes:  # not in memory
        assert make_store().sessions.get("s") == found
