"""`clew keys`, and what the server does not tell and does not keep."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from typer.testing import CliRunner

from clew import Filter, SettingsError
from clew.surface.cli.app import app
from clew.surface.server.keys import find_server_folder
from clew.surface.server.state import Server
from clew.surface.settings.load import load_invocation
from tests.engine.upkeep.changes import change_folder
from tests.surface.server.conftest import fill, read_start, serving, started
from tests.surface.server.test_guard import bearer


def run(folder: Path | str, *words: str, status: int = 0) -> Any:
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
        run(folder, "add", "ada")
        change_folder(folder / ".server", "UPDATE named SET value = '{}'")
        broken = running.post("/v1/search", {"query": "a"}, headers=bearer("clew_a_b"))
        assert (broken.status_code, broken.json()["error"]["code"]) == (502, "driver_failed")
        texts = [each.text for each in (missing, tool, broken, running.get("/openapi.json"))]
    for file in (folder / "default").iterdir():
        if file.is_file():
            file.write_bytes(b"not a database, and long enough to be seen as none" * 100)
    shutil.rmtree(folder / ".server")
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
        assert running.server.engines.get("default").list_feedback() == []


@pytest.mark.parametrize("kind", ["lance", "postgres"])
def test_a_server_asks_for_its_keys_wherever_it_is_started(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "postgres":
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        store = make()
    else:
        store = f"lance://{tmp_path}/lake"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    fill(store)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    token = run(store, "add", "admin").stdout.strip()
    assert not list(here.iterdir())
    again = f"{store}&application_name=other" if kind == "postgres" else f"lance://{tmp_path}/here/../lake/"
    with started(again, "--json", cwd=there) as process:
        shown = read_start(process)
        assert shown["keys"] == 1
        search: dict[str, Any] = {"json": {"query": "vault key"}, "timeout": 60}
        assert httpx2.post(f"{shown['address']}/v1/search", **search).status_code == 401
        found = httpx2.post(f"{shown['address']}/v1/search", headers=bearer(token), **search)
        assert found.json()["hits"]


@pytest.mark.slow
def test_a_server_says_which_keys_it_uses(folder: Path) -> None:
    def read_start() -> str:
        with started(folder, cwd=folder.parent) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("serving on http://127.0.0.1:")
            return process.stdout.readline()

    assert read_start().startswith("no keys: everybody who reaches this address may use it; `clew keys add NAME`")
    run(folder, "add", "ada")
    run(folder, "add", "ben")
    assert read_start() == f"keys: 2 in {folder} (.server)\n"
    run(folder, "revoke", "ada")
    run(folder, "drop", "ben")
    assert read_start().startswith(f"keys: none is valid in {folder} (.server), so nobody may use it; ")
    run(folder, "reset")
    assert read_start().startswith("no keys: everybody")
    run(folder, "add", "ada")
    change_folder(folder / ".server", "UPDATE named SET value = '{}'")
    broken = CliRunner().invoke(app, ["--path", str(folder), "serve"])
    assert (broken.exit_code, "cannot be reached" in broken.stderr) == (6, True)


def find_folder(store: str) -> Path:
    """Where a server over a store keeps its uploads."""
    return find_server_folder(load_invocation(environ={}, overrides={"path": store}, folder=Path("/")))


def test_a_server_finds_its_uploads_however_its_database_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = find_folder("postgresql://ada:secret@localhost:5432/db")
    for address in (
        *(
            "postgres://ben@LOCALHOST./db",
            "postgresql://127.0.0.1/db",
            "postgresql://[0:0::1]:05432/db",
            "postgresql:///db",
        ),
        *("postgresql:///db?host=/var/run/postgresql/", "postgresql://localhost,localhost/db?sslmode=require"),
        *("postgresql://db@localhost", "postgresql://x/y?dbname=db&host=localhost&port=5432"),
    ):
        assert find_folder(address) == own, address
    for address in ("postgresql://localhost/other", "postgresql://localhost:5433/db", "postgresql://prod/db"):
        assert find_folder(address) != own, address
    other = find_folder("postgresql://prod:6000/main")
    for name, value in (("PGHOST", "prod"), ("PGPORT", "6000"), ("PGDATABASE", "main")):
        monkeypatch.setenv(name, value)
    assert find_folder("postgresql://") == other
    assert find_folder("postgresql://localhost:5432/db") == own
    assert find_folder("postgresql:///?hostaddr=10.0.0.7") != other


def test_object_stores_at_other_endpoints_have_other_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = find_folder("s3://bucket/team")
    for address in ("s3://bucket//team/", "s3://bucket/./team", "s3://bucket/team?region=x"):
        assert find_folder(address) == own, address
    there = find_folder("s3://bucket/team?endpoint=http://there:9000/")
    assert there != own
    monkeypatch.setenv("AWS_ENDPOINT", "http://there:9000")
    assert find_folder("s3://bucket/team") == there


def test_a_relative_data_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.chdir(tmp_path)
    assert find_folder("s3://bucket/team").is_relative_to(tmp_path / "home")


@pytest.mark.parametrize("place", ["clew.db", "."])
@pytest.mark.parametrize("kind", ["dangling", "loop", "file"])
def test_keys_that_cannot_be_reached_are_an_error(folder: Path, place: str, kind: str) -> None:
    run(folder, "add", "admin")
    broken = folder / ".server" / place
    broken.rename(folder.parent / "moved")
    if kind == "file":
        broken.parent.mkdir(exist_ok=True)
        broken.write_text("")
    else:
        broken.symlink_to(broken if kind == "loop" else folder / "nowhere")
    for words in ((), ("add", "other"), ("revoke", "admin")):
        said = " ".join(run(folder, *words, status=6).stderr.split())
        assert "cannot be reached" in said
        assert "begin without keys" in said
    served = CliRunner().invoke(app, ["--path", str(folder), "serve"])
    assert (served.exit_code, "cannot be reached" in served.stderr) == (6, True)


@pytest.mark.parametrize("loss", ["folder", "another", "lance", "rows"])
def test_a_server_refuses_when_its_keys_are_gone(
    tmp_path: Path, folder: Path, request: pytest.FixtureRequest, loss: str
) -> None:
    store = str(folder)
    if loss in ("lance", "rows"):
        store = request.getfixturevalue("postgres_database")() if loss == "rows" else f"lance://{tmp_path}/lake"
        fill(store)
    token = run(store, "add", "admin").stdout.strip()
    asked = {"query": "vault key"}
    with serving(store) as running:
        assert running.post("/v1/search", asked).status_code == 401
        assert running.post("/v1/search", asked, headers=bearer(token)).status_code == 200
        if loss == "rows":
            with psycopg.connect(store, autocommit=True) as db:
                db.execute("DELETE FROM clew.named WHERE kind = 'keys'")
        else:
            shutil.rmtree((tmp_path / "lake" if loss == "lance" else folder) / ".server")
        if loss == "another":
            run(store, "add", "other")
        for headers in ({}, bearer(token)):
            refused = running.post("/v1/search", asked, headers=headers)
            assert refused.status_code == 502, refused.text
            assert "cannot read its keys" in refused.json()["error"]["message"]


def test_a_lost_log_of_the_keys_is_noticed(folder: Path) -> None:
    run(folder, "add", "admin")
    home, kept = folder / ".server", folder.parent / "kept"
    with serving(folder) as running:
        shutil.copytree(home, kept)
        running.server.keys.revoke("admin")
        shutil.copy(home / "clew.db", kept)  # as after a crash, but without the log that has the change
        shutil.copy(home / "clew.change", kept)
    shutil.rmtree(home)
    kept.rename(home)
    for log in home.glob("clew.db-*"):
        log.unlink()
    said = " ".join(run(folder, status=6).stderr.split())
    assert "cannot be reached" in said
    assert "changes are missing" in said
    served = CliRunner().invoke(app, ["--path", str(folder), "serve"])
    assert (served.exit_code, "cannot be reached" in served.stderr) == (6, True)
