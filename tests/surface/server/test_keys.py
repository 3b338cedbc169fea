"""`clew keys`, and what the server does not tell and does not keep."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clew import Filter, SettingsError
from clew.surface.cli.app import app
from clew.surface.server.state import Server
from clew.surface.settings.load import load_invocation
from tests.surface.server.conftest import fill, serving
from tests.surface.server.test_guard import bearer


def run(folder: Path, *words: str, status: int = 0) -> Any:
    """What a command of the keys prints: its lines, or its error."""
    done = CliRunner().invoke(app, ["--path", str(folder), "keys", *words], env={"CLEW_EMBEDDER__NAME": "hashed"})
    assert done.exit_code == status, done.output
    return done


def test_names_of_keys(folder: Path) -> None:
    assert "`clew keys add NAME` makes one" in run(folder).stderr
    assert "NAME" in run(folder, "add", status=2).output
    assert "has no name" in run(folder, "add", " ", status=2).output
    first = run(folder, "add", "ada")
    assert "reads every collection" in first.stderr
    assert "a valid key of the name 'ada'" in run(folder, "add", "ada", status=2).output
    run(folder, "revoke", "ada")
    second = json.loads(run(folder, "add", "ada", "--json").stdout)
    assert run(folder, "revoke", "ada").stdout == f"key {second['id']} revoked\n"  # the one that was valid
    assert "2 keys have the name" in run(folder, "drop", "ada", status=3).output
    run(folder, "drop", second["id"])
    assert "answers nobody" in run(folder, "drop", "ada").stderr


def test_what_a_new_key_names_may_be_unknown(folder: Path) -> None:
    fill(folder, "other")
    made = run(folder, "add", "a", "--only", "defualt", "--only", "other", "--channel", "opps", "--channel", "ops")
    assert "there is no collection 'defualt'; did you mean default?" in made.stderr
    assert "there is no channel 'opps'; did you mean ops?" in made.stderr
    assert made.stderr.count("there is no") == 2
    assert "there is no" not in run(folder, "add", "b", "--only", "default", "--channel", "ops").stderr


@pytest.mark.parametrize("given", ["soon", "99999999999d", "90x"])
def test_expires_says_what_it_takes(folder: Path, given: str) -> None:
    assert "a span such as 12h or 90d" in run(folder, "add", "a", "--expires", given, status=2).output


def test_a_host_that_is_none_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:  # as the resolver of a machine that knows no such name
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    start = load_invocation(environ={}, overrides={"path": str(folder), "server.host": "no such"}, folder=Path("/"))
    with pytest.raises(SettingsError, match="'no such', which is no address; 127"):
        Server(start)


@pytest.mark.slow
def test_errors_do_not_say_where_the_store_is(folder: Path) -> None:
    with serving(folder) as running:
        missing = running.post("/v1/search?collection=none", {"query": "a"})
        assert missing.status_code == 404
        assert missing.json()["error"]["message"].startswith("there is no collection 'none'; ")
        rpc = {"name": "search", "arguments": {"query": "a"}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": rpc}
        accept = {"accept": "application/json, text/event-stream"}
        tool = running.post("/mcp?collection=none", asked, headers=accept)
        assert "there is no collection 'none'" in tool.text
        assert str(folder) not in missing.text + tool.text
        running.server.keys.file.parent.mkdir(exist_ok=True)
        running.server.keys.file.write_text("{")
        broken = running.post("/v1/search", {"query": "a"}, headers=bearer("clew_a_b"))
        assert (broken.status_code, broken.json()["error"]["code"]) == (502, "driver_failed")
        texts = [each.text for each in (missing, tool, broken, running.get("/openapi.json"))]
    for file in (folder / "default").iterdir():
        if file.is_file():
            file.write_bytes(b"not a database, and long enough to be seen as none" * 100)
    running.server.keys.file.unlink()
    with serving(folder) as running:
        ready = running.get("/ready")
        assert ready.status_code != 200
    assert not [text for text in [*texts, ready.text] if str(folder) in text]


def test_a_server_that_only_reads_keeps_no_feedback(folder: Path) -> None:
    given = {"question": "who?", "good": True}
    with serving(folder, read_only=True) as running:
        assert running.post("/v1/feedback", given).status_code == 403
        _, token = running.server.keys.add("reads", where=Filter(channels={"ops"}))
        assert running.post("/v1/feedback", given, headers=bearer(token)).status_code == 403
        assert not list(folder.rglob("feedback.jsonl"))
