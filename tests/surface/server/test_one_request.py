"""What HTTP takes as Python does: rows of a conversation, kept chats as streams, cursors in and out, plain errors."""

from typing import Any

import pytest

from clew import Client
from tests.surface.server.conftest import Running

QUESTION = "who rotates the vault key?"


def test_the_rows_of_a_conversation_are_a_query_and_a_history(shared: Running) -> None:
    rows: list[dict[str, Any]] = [
        {"timestamp": "2026-03-01T09:00:00", "author": "ada", "message": "The vault key is old."},
        {"role": "user", "content": QUESTION},
    ]
    with Client(shared.address) as client:
        assert client.search(rows)["hits"][0]["document"]["id"] == "keys"
        assert client.search("who does it?", history=rows)["hits"]
    told = shared.post("/v1/search", {"query": [{"said": "hello"}]}).json()["error"]["message"]
    assert told.startswith("query.0 has the columns said; it must have timestamp/ts, author/author_uuid")


def test_a_chat_that_is_kept_streams(running: Running) -> None:
    with Client(running.address) as client:
        names = [name for name, _ in client.chat_stream("work", QUESTION)]
        assert names[0] == "sentence"
        assert names[-1] == "answer"
        *_, (_, answer) = client.chat_stream("work", "and when?")
        kept = client.session("work")["messages"]
    assert [each["text"] for each in kept[::2]] == [QUESTION, "and when?"]
    assert kept[-1]["text"] == answer["text"]


def test_a_list_replies_with_the_cursor_that_it_takes(shared: Running) -> None:
    first = shared.get("/v1/documents?limit=4").json()
    rest = shared.get(f"/v1/documents?limit=4&cursor={first['cursor']}").json()
    assert rest["cursor"] is None
    with Client(shared.address) as client:
        assert [each["id"] for each in client.list()] == [each["id"] for each in first["documents"] + rest["documents"]]


def test_a_read_document_is_left_out(shared: Running) -> None:
    with Client(shared.address) as client:
        found = client.search(QUESTION, k=3)["hits"]
        rest = client.search(QUESTION, k=3, without=["handbook/vault.md"])["hits"]
    assert found[0]["document"]["id"] == "keys"
    assert len(rest) == 3
    assert all(each["document"]["id"] != "keys" for each in rest)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/status?collection=.x", None, "collection is no name of a collection; it begins with no dot"),
        ("/v1/documents?cursor=x", None, "cursor is no cursor; give `cursor` of the reply before"),
        ("/v1/add", {"sources": ["ftp://x"]}, "sources.0 is no web address; give one with http:// or https://"),
        ("/v1/search", {"query": " "}, "query is blank; give a text; see"),
        ("/v1/search", {"query": "x", "where": {"since": "soon"}}, "where.since is 'soon'; give a date or time such"),
        ("/v1/erase", {}, "the body takes one of documents, author and channel, and none is given"),
        ("/v1/feedback", {"question": "x"}, "the body takes one of good and opened, and none is given"),
    ],
)
def test_a_wrong_value_is_told_without_a_pattern(shared: Running, path: str, body: Any, told: str) -> None:
    reply = shared.get(path) if body is None else shared.post(path, body)
    assert reply.status_code == 422
    assert reply.json()["error"]["message"].startswith(told)


def test_a_wrong_method_is_told_those_of_the_path(shared: Running) -> None:
    assert shared.http.options("/v1/evaluations/questions").headers["allow"] == "POST"
