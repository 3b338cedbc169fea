"""Names that a path, a disk or a parser could take for something else, and requests that would cost too much."""

from pathlib import Path

import pytest

from clew import Client, Document, SettingsError
from tests.surface.server.conftest import Running, serving


@pytest.mark.slow
def test_an_id_with_dots_and_slashes_leads_nowhere_else(running: Running) -> None:
    with Client(running.address) as client:
        kept = client.status()["documents"]
        odd = "../collections/default"
        client.add_documents([Document(odd, "An odd page.")])
        assert client.read(odd)["text"] == "An odd page."
        assert client.drop(odd) == 1
        assert client.status()["documents"] == kept
        for name in (".", ".."):
            for call in (client.message, client.drop_messages, client.profile, client.job):
                with pytest.raises(SettingsError, match="over HTTP"):
                    call(name)


@pytest.mark.slow
def test_a_document_is_read_and_dropped_by_any_id(running: Running) -> None:
    with Client(running.address) as client:
        client.add_documents([Document("a", "The page above.")])
        kept = {record["id"] for record in client.list()}
        for odd in ("a/chunks", "a/links", "chunks", "..", "a\nb", "a?b#c&d=e", "%2e%2e", "*", "é/ü", "a//b"):
            client.add_documents([Document(odd, "An odd page.")])
            assert client.read(odd)["text"] == "An odd page."
            assert [chunk["text"] for chunk in client.chunks(odd)] == ["An odd page."]
            assert client.links(odd)["cites"] == []
            assert client.drop(odd) == 1
            assert {record["id"] for record in client.list()} == kept


def test_a_body_of_many_unknown_fields_is_one_error(shared: Running) -> None:
    body = {"query": "x", **{f"n{number}": 1 for number in range(101)}}
    reply = shared.post("/v1/search", body)
    assert reply.status_code == 422
    assert "102 fields, and the limit is 100" in reply.json()["error"]["message"]


@pytest.mark.slow
def test_names_are_measured_in_bytes(running: Running) -> None:
    long = "é" * 150
    for path in ("status", "feedback"):
        assert running.get(f"/v1/{path}", params={"collection": long}).status_code == 422
    chat = {"model": f"clew:{'a' * 400}", "messages": [{"role": "user", "content": "x"}]}
    assert running.post("/v1/chat/completions", chat).status_code == 422


def test_feedback_is_for_collections_that_are_there(running: Running) -> None:
    body = {"question": "x", "good": True}
    assert running.post("/v1/feedback", body).status_code == 201
    assert running.post("/v1/feedback?collection=nowhere", body).status_code == 404


@pytest.mark.slow
def test_mcp_is_reached_by_the_hosts_and_origins_of_the_settings(folder: Path) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"accept": "application/json, text/event-stream"}
    with serving(folder, hosts=("clew.example.com",), origins=("https://app.example.com",)) as made:
        for more in ({}, {"host": "clew.example.com"}, {"origin": "https://app.example.com"}):
            reply = made.post("/mcp", ping, headers={**accepts, **more})
            assert reply.status_code == 200, more
        assert made.post("/mcp", ping, headers={"host": "evil.example"}).status_code == 421
