"""What the server says of a request that is wrong: by the names of its fields, and what to do over HTTP."""

from typing import Any

import pytest

from clew import Client, NotFound
from tests.surface.server.conftest import Running


def read_message(reply: Any, status: int) -> str:
    assert reply.status_code == status, reply.text
    return str(reply.json()["error"]["message"])


def test_a_wrong_request_is_told_by_its_fields(shared: Running) -> None:
    told = {
        '{"k": 3}': "query is missing; see /docs",
        '{"query": 3}': "query should be a text or a list; see /docs",
        '{"query": "x", "where": {"kindz": ["page"]}}': "where.kindz is not known here; see /docs",
        '{"query": "x", "where": {"kinds": "page"}}': "where.kinds should be a list; see /docs",
        '{"query": "x", "mode": "fast"}': "mode should be 'ann' or 'exact'; see /docs",
        '{"query": "x", "k": 0, "My-Field": 1}': "k should be greater than or equal to 1, My-Field is not known here",
        "{'query': 1}": "the body is not valid JSON (Expecting property name enclosed in double quotes at character 1)",
    }
    for body, message in told.items():
        headers = {"content-type": "application/json"}
        reply = shared.http.post("/v1/search", content=body.encode(), headers=headers)
        assert read_message(reply, 422).startswith(message), body


def test_a_body_without_its_type_is_told_so(shared: Running) -> None:
    bare = shared.http.post("/v1/search", content=b'{"query": "x"}')
    assert read_message(bare, 422).startswith("the body has no content-type; send JSON with `content-type: application")
    form = shared.http.post("/v1/search", data={"query": "x"})
    assert "'application/x-www-form-urlencoded'; send JSON" in read_message(form, 422)
    assert read_message(shared.http.post("/v1/documents", files=[("file", ("a.md", b"x"))]), 422).startswith("files is")


def test_advice_is_that_of_http(shared: Running) -> None:
    assert "; GET /v1/documents shows the documents" in read_message(shared.get("/v1/documents/zzzzzzz"), 404)
    assert read_message(shared.get("/v1/jobs/nope"), 404) == "there is no job 'nope'; GET /v1/jobs lists them"
    assert "GET /v1/collections lists them" in read_message(shared.get("/v1/status?collection=nope"), 404)


def test_a_stream_that_cannot_begin_is_an_error_of_its_own(shared: Running) -> None:
    for wrong in ({"strategy": "nope"}, {"agent": True}, {"person": "dan"}):
        reply = shared.post("/v1/ask", {"query": "x", "stream": True, **wrong})
        assert reply.status_code == 404, reply.text
    wrong_time = {"query": "x", "stream": True, "where": {"since": "soon"}}
    assert shared.post("/v1/ask", wrong_time).status_code == 422
    with Client(shared.address) as client, pytest.raises(NotFound, match="there is no strategy 'nope'"):
        next(client.ask_stream("x", strategy="nope"))
