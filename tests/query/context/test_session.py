"""The numbers of documents in a conversation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import SettingsError
from clew.query.context.session import Sessions


def test_numbers_stay_and_new_documents_take_the_next() -> None:
    sessions = Sessions()
    assert sessions.set_document_index("s", ["a", "b"]) == {"a": 1, "b": 2}
    assert sessions.set_document_index("s", ["c", "a"]) == {"c": 3, "a": 1}
    assert sessions.get_document_numbers("s") == {"a": 1, "b": 2, "c": 3}
    assert sessions.set_document_index("other", ["c"]) == {"c": 1}


def test_what_has_no_number_is_nobody() -> None:
    sessions = Sessions()
    sessions.set_document_index("s", ["a", "b"])
    assert [sessions.get_knowledge_source_id_by_index("s", n) for n in (1, 2)] == ["a", "b"]
    assert [sessions.get_knowledge_source_id_by_index("s", n) for n in (0, -1, 3)] == [None] * 3
    assert sessions.get_knowledge_source_id_by_index("unknown", 1) is None


def test_idle_conversations_are_forgotten() -> None:
    now = [0.0]
    sessions = Sessions(max_idle=10, clock=lambda: now[0])
    sessions.set_document_index("old", ["a"])
    now[0] = 8
    sessions.set_document_index("young", ["b"])
    now[0] = 11
    assert sessions.get_knowledge_source_id_by_index("old", 1) is None
    assert sessions.get_knowledge_source_id_by_index("young", 1) == "b"  # which uses it
    now[0] = 20
    assert sessions.get_knowledge_source_id_by_index("young", 1) == "b"
    assert len(sessions) == 1


def test_the_least_used_goes_first() -> None:
    sessions = Sessions(max_sessions=2)
    sessions.set_document_index("a", ["x"])
    sessions.set_document_index("b", ["x"])
    sessions.get_knowledge_source_id_by_index("a", 1)
    sessions.set_document_index("c", ["x"])
    assert [sessions.get_document_numbers(name) for name in "abc"] == [{"x": 1}, {}, {"x": 1}]


def test_a_conversation_holds_so_many_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.query.context.session.MAX_DOCUMENTS", 2)
    sessions = Sessions()
    assert sessions.set_document_index("s", ["a", "b", "c"]) == {"a": 1, "b": 2}


def test_limits_must_be_more_than_nothing() -> None:
    with pytest.raises(SettingsError, match="max_sessions is 0"):
        Sessions(max_sessions=0)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=5), max_size=12))
def test_a_number_never_changes_its_document(turns: list[list[str]]) -> None:
    sessions, seen = Sessions(), dict[int, str]()
    for documents in turns:
        for document, number in sessions.set_document_index("s", documents).items():
            assert seen.setdefault(number, document) == document
            assert sessions.get_knowledge_source_id_by_index("s", number) == document
    assert sorted(seen) == list(range(1, len(seen) + 1))
