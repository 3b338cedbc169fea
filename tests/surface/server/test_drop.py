"""Removing documents over HTTP: one by its name, several only where it is said."""

import pytest

from clew import Client, Document, NotFound
from tests.surface.server.conftest import Running


def test_a_folder_or_pattern_removes_nothing_by_itself(running: Running) -> None:
    with Client(running.address) as client:
        before = list(client.list())
        for name in ("*", "**", "handbook", "handbook/", "handbook/*", "handbook/*.md", "handbook/[vl]*"):
            assert running.http.delete(f"/v1/documents/{name}").status_code == 404
            with pytest.raises(NotFound, match="pattern=true"):
                client.drop(name)
        assert list(client.list()) == before


@pytest.mark.slow
def test_a_pattern_is_listed_first_and_then_removed(running: Running) -> None:
    reply = running.http.delete("/v1/documents/handbook/*")
    assert "stands for 2 of them; pattern=true removes them all" in reply.json()["error"]["message"]
    listed = running.http.delete("/v1/documents/handbook/*", params={"pattern": True, "dry_run": True}).json()
    assert listed == {"dropped": 0, "documents": ["handbook/lunch.md", "handbook/vault.md"], "dry_run": True}
    with Client(running.address) as client:
        assert client.preview_drop("handbook", pattern=True) == listed["documents"]
        assert client.preview_drop("keys") == ["handbook/vault.md"]
        count = client.status()["documents"]
        assert client.drop("handbook", pattern=True) == 2
        assert client.status()["documents"] == count - 2


def test_a_parameter_that_is_given_twice_is_refused(running: Running) -> None:
    asked = {"pattern": "true", "dry_run": ["true", "false"]}
    reply = running.http.delete("/v1/documents/handbook/*", params=asked)
    assert (reply.status_code, reply.json()["error"]["message"]) == (422, "'dry_run' is given 2 times; give it once")
    reply = running.get("/v1/documents", params={"collection": ["default", "other"]})
    assert reply.status_code == 422
    reply = running.get("/v1/documents", params={"kind": ["page", "thread"]})  # a list
    assert {each["kind"] for each in reply.json()["documents"]} == {"page", "thread"}


def test_one_document_goes_by_id_address_or_as_the_sections_of_its_source(running: Running) -> None:
    with Client(running.address) as client:
        client.add_documents([Document("a", "One.", uri="notes/*"), Document("b", "Two.", uri="notes/x")])
        assert client.drop("notes/*") == 1  # a document has this very address
        assert client.read("b")["text"] == "Two."
        assert client.drop("b") == 1
        with pytest.raises(NotFound, match="there is no document 'b'"):
            client.drop("b")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["*" * 80 + "!", "**a" * 100 + "!", "[z-a]", "a\0b/*"])
@pytest.mark.slow
def test_no_pattern_holds_the_server_up(running: Running, pattern: str) -> None:
    reply = running.http.post("/v1/search", json={"query": "keys", "where": {"documents": [pattern]}})
    assert reply.status_code == 404, reply.text
    removed = running.http.delete("/v1/document", params={"id": pattern, "pattern": "true"})
    assert removed.status_code == 404, removed.text
