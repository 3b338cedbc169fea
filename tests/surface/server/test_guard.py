"""Who may ask and how much: keys, hosts, origins, and the limits of bodies, rate and time."""

import json
import logging
import socket
import threading
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clew import Engine, Filter, SettingsError, StoreConfig
from clew.surface.cli.app import app
from clew.surface.server.errors import RateExceeded
from clew.surface.server.guard import RateLimit
from clew.surface.server.hosts import HostRules, is_loopback, split_host
from clew.surface.server.keys import Keys
from clew.surface.server.state import Server
from clew.surface.settings.load import load_invocation
from tests.engine.upkeep.changes import change_folder
from tests.surface.server.conftest import Running, serving

log = logging.getLogger(__name__)
SEARCH = {"query": "vault key"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_no_secret_of_a_key_is_kept(tmp_path: Path) -> None:
    with closing(Keys(str(tmp_path), StoreConfig())) as keys, closing(Keys(str(tmp_path), StoreConfig())) as others:
        assert not others.exists()
        assert not list(tmp_path.iterdir())
        key, token = keys.add("ada", where=Filter(channels={"ops"}) | Filter(kinds={"page"}, access={"staff"}))
        assert others.find(token) == key
        with pytest.raises(SettingsError, match="only reads"):
            keys.add(rights="write", where=Filter(channels={"ops"}))
    files = [file for file in (tmp_path / ".server").rglob("*") if file.is_file()]
    assert all(token.split("_", 2)[2].encode() not in file.read_bytes() for file in files)
    assert not any(file.stat().st_mode & 0o077 for file in files)
    assert Engine.collections(tmp_path) == []


def test_keys_are_made_on_the_command_line(folder: Path) -> None:
    def run_plain(*words: str) -> str:
        done = CliRunner().invoke(app, ["keys", *words, "--path", str(folder)])
        assert done.exit_code == 0, done.output
        return done.stdout

    def run(*words: str) -> Any:
        return json.loads(run_plain(*words, "--json"))

    made = run("add", "ada", "--channel", "ops", "--only", "default", "--expires", "2h")
    assert made["where"] == {"channels": ["ops"]}
    assert made["collections"] == ["default"]
    with serving(folder) as running:
        reply = running.post("/v1/search", {"query": "build", "k": 50}, headers=bearer(made["key"]))
        assert {hit["message"]["channel"] for hit in reply.json()["hits"]} == {"ops"}
        assert [key["id"] for key in run("list")["keys"]] == [made["id"]]
        assert run("revoke", made["id"])["revoked"]
        assert running.post("/v1/search", SEARCH, headers=bearer(made["key"])).status_code == 401
        assert run("drop", made["id"])["name"] == "ada"
        assert running.post("/v1/search", SEARCH).status_code == 401  # the last key is gone: nobody may
        run_plain("reset")
        assert running.post("/v1/search", SEARCH).status_code == 200  # as before the first


@pytest.mark.parametrize("name", ["guide/*", "guide/", "page[12].md"])
def test_a_key_is_made_for_documents_not_for_a_pattern(folder: Path, name: str) -> None:
    done = CliRunner().invoke(app, ["keys", "add", "ada", "--path", str(folder), "--document", name])
    assert done.exit_code != 0
    assert "no folders or patterns" in " ".join(done.output.split())


def test_other_addresses_need_keys(folder: Path) -> None:
    start = load_invocation(environ={}, overrides={"path": str(folder), "server.host": "0.0.0.0"}, folder=Path("/"))
    with pytest.raises(SettingsError, match="clew keys add"):
        Server(start)
    with closing(Keys(str(folder), StoreConfig())) as keys:
        keys.add("one")
    with serving(folder, host="0.0.0.0") as running:
        assert running.post("/v1/search", SEARCH).status_code == 401


def test_a_foreign_host_or_origin_is_refused(folder: Path) -> None:
    with serving(folder, hosts=("clew.test",), origins=("https://app.test",)) as running:

        def ask(**headers: str) -> Any:
            return running.post("/v1/search", SEARCH, headers=headers)

        own = running.address.partition("://")[2]
        for foreign in ("evil.test", f"{own}, evil.test", "[::1]x", "[::1]:x", "localhost:", "localhost/evil", "::1"):
            assert ask(host=foreign).status_code == 421, foreign
        assert ask(host="[::1]:80").status_code == 200
        assert ask(host="clew.test").status_code == 200
        assert ask(host="localhost:1234").status_code == 200
        assert ask(origin="https://evil.test").status_code == 403
        assert ask(origin="null").status_code == 403
        assert ask(origin=f"http://{own}").status_code == 200
        reply = ask(origin="https://app.test")
        assert reply.headers["access-control-allow-origin"] == "https://app.test"
        asked = {"origin": "https://app.test", "access-control-request-method": "POST"}
        assert running.http.options("/v1/search", headers=asked).status_code == 204
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert running.post("/mcp", rpc, headers={"host": "evil.test"}).status_code == 421
        assert running.post("/mcp", rpc, headers={"origin": "https://evil.test"}).status_code == 403


def test_hosts_are_read_whole() -> None:
    assert split_host("[::1]:8080") == "::1"
    assert split_host("LocalHost:80") == "localhost"
    assert split_host("localhost.evil.test:80") == "localhost.evil.test"
    assert is_loopback("127.8.0.1")
    assert not is_loopback("0.0.0.0")
    from clew import ServerConfig

    HostRules(ServerConfig(host="0.0.0.0")).check_host("anything")  # it needs keys


@pytest.mark.slow
def test_a_server_that_cannot_read_its_keys_is_not_ready(folder: Path) -> None:
    with serving(folder) as running:
        running.server.keys.add("one")
        assert running.get("/ready").status_code == 200
        change_folder(folder / ".server", "UPDATE named SET value = '{}'")
        for reply in (running.get("/ready"), running.post("/v1/search", SEARCH, headers=bearer("x"))):
            assert (reply.status_code, reply.json()["error"]["type"]) == (502, "DriverFailed")
            assert "cannot read its keys" in reply.text
            assert ".server" not in reply.text


@pytest.mark.slow
def test_the_status_does_not_tell_where_the_store_is(folder: Path) -> None:
    with serving(folder) as running:
        reply = running.get("/v1/status")
        assert reply.json()["documents"] > 0
        assert str(folder) not in reply.text


@pytest.mark.slow
def test_keys_open_what_they_say_and_each_reason_to_refuse_has_its_status(folder: Path) -> None:
    with serving(folder, max_body=2048, body_timeout=0.5) as running:
        keys = running.server.keys
        gone, revoked = keys.add("gone")
        keys.revoke(gone.id)
        _, reader = keys.add("reader")
        tokens = {
            "reader": reader,
            "writer": keys.add("writer", rights="write")[1],
            "expired": keys.add("old", expires=datetime.now(UTC) - timedelta(seconds=1))[1],
            "revoked": revoked,
            "wrong": "clew_00000000_x",
            "cut": reader[:-1],
            "of another collection": keys.add("other", collections=frozenset({"other"}))[1],
        }
        page = {"documents": [{"id": "new", "text": "new"}]}
        search, add, mcp = "/v1/search?collection=default", "/v1/add-documents", "/mcp"
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        asked: list[tuple[str, str, Any, str, dict[str, str], int]] = [
            ("a key that may", search, SEARCH, "reader", {}, 200),
            ("a key in a header of its own", search, SEARCH, "", {"x-api-key": reader}, 200),
            ("no key", search, SEARCH, "", {}, 401),
            ("wrong key", search, SEARCH, "wrong", {}, 401),
            ("cut key", search, SEARCH, "cut", {}, 401),
            ("key of another scheme", search, SEARCH, "", {"authorization": f"Basic {reader}"}, 401),
            ("expired key", search, SEARCH, "expired", {}, 401),
            ("revoked key", search, SEARCH, "revoked", {}, 401),
            ("key of another collection", search, SEARCH, "of another collection", {}, 403),
            ("key whose only collection is not there", "/v1/search", SEARCH, "of another collection", {}, 404),
            ("reading key that writes", add, page, "reader", {}, 403),
            ("writing key that writes", add, page, "writer", {}, 200),
            ("foreign host", search, SEARCH, "reader", {"host": "evil.test"}, 421),
            ("foreign origin", search, SEARCH, "reader", {"origin": "https://evil.test"}, 403),
            ("oversized body", search, {"query": "x" * 4000}, "reader", {}, 413),
            ("unknown field", search, {**SEARCH, "no": 1}, "reader", {}, 422),
            ("no such path", "/v1/nothing", SEARCH, "reader", {}, 404),
            ("no key, /mcp", mcp, rpc, "", {}, 401),
            ("revoked key, /mcp", mcp, rpc, "revoked", {}, 401),
            ("foreign host, /mcp", mcp, rpc, "reader", {"host": "evil.test"}, 421),
            ("foreign origin, /mcp", mcp, rpc, "reader", {"origin": "https://evil.test"}, 403),
            ("oversized body, /mcp", mcp, {**rpc, "params": {"x": "x" * 4000}}, "reader", {}, 413),
        ]
        rows = []
        for name, path, body, key, headers, wanted in asked:
            sent = {"accept": "application/json, text/event-stream", **headers}
            reply = running.post(path, body, headers={**sent, **(bearer(tokens[key]) if key else {})})
            error = reply.json().get("error", {})
            rows.append((name, reply.status_code, error.get("code", ""), wanted))
            if wanted == 401 or "another collection" in key:
                assert error["type"] == {401: "KeyInvalid", 403: "NotAllowed", 404: "NotFound"}[wanted]
                assert error["request_id"] == reply.headers["x-request-id"]
        assert running.get("/metrics").status_code == 401
        assert running.get("/health").status_code == 200
        keys.drop(gone.id)
        assert running.post(search, SEARCH, headers=bearer(revoked)).status_code == 401
        head = f"POST /v1/search HTTP/1.1\nhost: localhost\nauthorization: Bearer {tokens['reader']}\n"
        line = send_raw(running, f"{head}content-type: application/json\ncontent-length: 100\n\n", b"{")
        rows.append(("slow body", int(line.split()[1]), "body_too_slow", 408))
    log.info("\n" + "\n".join(f"{name:<40}{status}  {code}" for name, status, code, _ in rows))
    assert [(name, status) for name, status, _, _ in rows] == [(name, wanted) for name, _, _, wanted in rows]


def send_raw(running: Running, head: str, *parts: bytes) -> str:
    """The first line of the reply to a request that is sent part by part."""
    host, _, port = running.address.partition("://")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        for part in parts:
            connection.sendall(part)
        return connection.recv(4096).split(b"\r\n")[0].decode()


@pytest.mark.parametrize("path", ["/v1/search", "/mcp", "/v1/documents"])
@pytest.mark.slow
def test_large_and_slow_bodies_are_refused(folder: Path, path: str) -> None:
    kind = "multipart/form-data; boundary=x" if path == "/v1/documents" else "application/json"
    with serving(folder, max_body=2048, body_timeout=1.0) as running:
        common = f"POST {path} HTTP/1.1\nhost: localhost\ncontent-type: {kind}\naccept: */*\n"
        assert " 413 " in send_raw(running, f"{common}content-length: 99999\n\n", b"{")
        part = b'--x\r\ncontent-disposition: form-data; name="files"; filename="a.md"\r\n\r\n'
        begin = part if path == "/v1/documents" else b"{"
        first, rest = (b"400\r\n" + data.ljust(1024) + b"\r\n" for data in (begin, b""))
        assert " 413 " in send_raw(running, f"{common}transfer-encoding: chunked\n\n", first, rest, rest, b"0\r\n\r\n")
        assert " 408 " in send_raw(running, f"{common}content-length: 1000\n\n", begin)


@pytest.mark.slow
def test_a_slow_client_does_not_hold_others_up(folder: Path) -> None:
    head = (
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    )
    with serving(folder) as running, ExitStack() as stack:
        host, _, port = running.address.partition("://")[2].partition(":")
        for _ in range(20):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=20)).sendall(head.encode())
        assert running.post("/v1/search", SEARCH).status_code == 200


def test_the_rate_of_one_caller_is_limited() -> None:
    limit = RateLimit(2)
    for _ in range(4):
        limit.check("ada", now=0.0)
    with pytest.raises(RateExceeded) as refused:
        limit.check("ada", now=0.0)
    assert refused.value.headers == {"retry-after": "1"}
    limit.check("ben", now=0.0)
    limit.check("ada", now=0.5)


@pytest.mark.slow
def test_too_many_requests_are_told_to_wait(folder: Path) -> None:
    with serving(folder, rate=0.01) as running:
        assert [running.post("/v1/search", SEARCH).status_code for _ in range(3)] == [200, 429, 429]
        assert running.get("/health").status_code == 200


def test_a_call_that_takes_too_long_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(Engine, "search", lambda *_, **__: release.wait(60))
    with serving(folder, timeout=0.3, max_concurrent=1, max_waiting=1) as running:
        found: list[int] = []
        asking = [
            threading.Thread(target=lambda: found.append(running.post("/v1/search", SEARCH).status_code))
            for _ in range(4)
        ]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
        release.set()
    assert set(found) == {503, 504}
