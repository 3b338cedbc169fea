"""Searching over HTTP: the same words and the same JSON as on the command line."""

import subprocess
import sys
from typing import Any

import pytest

from tests.surface.server.conftest import Running


def drop_times(value: Any) -> Any:
    """The JSON without what no two runs share."""
    if isinstance(value, dict):
        return {key: drop_times(each) for key, each in value.items() if key not in ("ms", "trace", "seconds")}
    return [drop_times(each) for each in value] if isinstance(value, list) else value


def test_a_filter_of_the_request_is_a_boundary(shared: Running) -> None:
    body = {"query": "build server", "where": {"channels": ["ops"]}}
    assert {hit["document"]["kind"] for hit in shared.post("/v1/search", body).json()["hits"]} == {"thread"}
    body = {"query": "build server", "where": {"documents": ["handbook/lunch.md"]}}
    assert {hit["document"]["id"] for hit in shared.post("/v1/search", body).json()["hits"]} == {"lunch"}


def test_a_conversation_may_be_rows_of_a_table_or_turns_of_a_chat(shared: Running) -> None:
    said = [{"text": "which build server is it?", "author": "ada", "at": "2025-01-15T10:30:00Z"}]
    rows = [{"message": "which build server is it?", "author_uuid": "ada", "timestamp": "2025-01-15 10:30"}]
    turns = [{"role": "user", "content": "which build server is it?"}]
    first, *others = (shared.post("/v1/search", {"query": each}).json()["hits"] for each in (said, rows, turns))
    assert first
    assert others == [first, first]


@pytest.mark.slow
def test_unknown_parameters_and_methods_are_refused(shared: Running) -> None:
    reply = shared.get("/v1/documents?limits=3")
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "settings_error")
    assert "it takes author, channel, collection, cursor, kind, limit" in reply.json()["error"]["message"]
    reply = shared.http.delete("/v1/documents/keys/chunks?limit=3")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET")
    reply = shared.http.put("/v1/documents/keys")
    assert (reply.status_code, reply.headers["allow"]) == (405, "DELETE, GET")
    assert shared.get("/v1/documents?cursor=99999999999999999999").status_code == 422


def test_nothing_of_the_server_is_imported_before_it_serves() -> None:
    code = (
        "import sys, clew, clew.surface.cli.app; clew.Engine, clew.Client, clew.surface.cli.app.GROUPS;"
        "print(sorted({'fastapi', 'uvicorn', 'mcp', 'prometheus_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
