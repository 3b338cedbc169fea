"""Requests while they run: clients that hang up or send nothing, keys that end, a server that stops."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clew import Client, Engine
from clew.core.events import EventStream, SentenceEvent
from clew.core.parallel import is_cancelled
from tests.surface.server.conftest import Running, serving
from tests.surface.server.test_guard import bearer

ASK = {"query": "who rotates the vault key?"}


def connect(running: Running, data: bytes = b"") -> socket.socket:
    """A connection to the server that has sent some bytes."""
    host, _, port = running.address.partition("://")[2].partition(":")
    made = socket.create_connection((host, int(port)), timeout=20)
    made.sendall(data)
    return made


def format_request(path: str, body: Any) -> bytes:
    """A request as it is sent."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(text)}"
    return f"{head}\r\n\r\n".encode() + text


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so, and fails if it never is."""
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Work:
    """A long piece of work in place of an answer: it counts how many run at once, and ends when it may."""

    def __init__(self) -> None:
        self.started = self.running = self.most = 0
        self.was_cancelled = threading.Event()
        self.release = threading.Event()
        self._lock = threading.Lock()

    def run(self, *_: Any, **__: Any) -> Any:
        with self._lock:
            self.started += 1
            self.running += 1
            self.most = max(self.most, self.running)
        while not self.release.wait(0.02):
            if is_cancelled():
                self.was_cancelled.set()
        with self._lock:
            self.running -= 1
        raise RuntimeError("the work was let go")


@pytest.fixture
def work() -> Iterator[Work]:
    """Work that is let go at the end of the test."""
    made = Work()
    yield made
    made.release.set()


def test_a_plain_call_ends_when_its_client_hangs_up(folder: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "ask", work.run)
    with serving(folder) as running:
        with closing(connect(running, format_request("/v1/ask", ASK))):
            wait_until(lambda: work.running == 1)
        assert work.was_cancelled.wait(20)
        work.release.set()


@pytest.mark.slow
def test_a_get_ends_when_its_client_hangs_up(folder: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "doctor", work.run)
    with serving(folder) as running:
        with closing(connect(running, b"GET /v1/doctor HTTP/1.1\r\nhost: localhost\r\n\r\n")):
            wait_until(lambda: work.running == 1)
        assert work.was_cancelled.wait(20)
        work.release.set()


def test_hanging_up_frees_no_place_while_the_work_goes_on(
    folder: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "ask_stream", lambda *_, **__: EventStream(work.run))
    request = format_request("/v1/ask", {**ASK, "stream": True})
    with serving(folder, max_answers=2, max_waiting=1) as running:
        for count in (1, 2):
            with closing(connect(running, request)):
                wait_until(lambda count=count: work.started == count)  # type: ignore[misc]
        with closing(connect(running, request)) as third:  # it waits, and nobody else may
            assert b" 200 " in third.recv(4096)
            with closing(connect(running, request)) as fourth:
                assert b"too many requests are waiting" in read_all(fourth)
            assert (work.started, work.most) == (2, 2)
            work.release.set()
            wait_until(lambda: work.started == 3)
        wait_until(lambda: running.server.streams.count_open() == 0)


def read_all(connection: socket.socket, *, end: bytes = b"0\r\n\r\n") -> bytes:
    """What comes until the last chunk, or another end, or until the connection is closed."""
    found = b""
    while not found.endswith(end) and (part := connection.recv(65536)):
        found += part
    return found


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost: loc"])
@pytest.mark.slow
def test_a_connection_without_a_whole_head_is_closed(folder: Path, sent: bytes) -> None:
    with serving(folder, body_timeout=0.3) as running:
        with closing(connect(running, sent)) as waiting:
            assert waiting.recv(4096) == b""
        with closing(connect(running, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")) as kept:
            assert b" 200 " in read_all(kept, end=b"}")
            kept.sendall(b"GET /health HTTP")  # the next one, in part
            assert kept.recv(4096) == b""


@pytest.mark.slow
def test_connections_beyond_the_limit_are_refused(folder: Path) -> None:
    with serving(folder, max_connections=3) as running:
        held = [connect(running) for _ in range(3)]
        with closing(connect(running)) as fourth:
            head, _, body = read_all(fourth).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["error"]["code"] == "server_busy"
        for each in held:
            each.close()
        wait_until(lambda: b" 200 " in ask_health(running))


def ask_health(running: Running) -> bytes:
    """The reply to a request on a connection of its own."""
    with closing(connect(running, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")) as connection:
        return connection.recv(4096)


@pytest.mark.slow
def test_json_has_a_limit_of_its_own(folder: Path) -> None:
    with serving(folder, max_json=2048) as running:
        large = "x" * 4000
        for path in ("/v1/chat/completions", "/v1/search", "/mcp"):
            reply = running.post(path, {"query": "a", "ignored": [large]})
            assert (reply.status_code, "more than 2048 bytes; send less" in reply.text) == (413, True), path
        with Client(running.address) as client:
            file = folder.parent / "large.md"
            file.write_text(f"# Large\n\n{large}")
            client.add(file)
            assert client.read("large.md")["title"] == "Large"


def talk(work: Work) -> Callable[..., EventStream]:
    """A stream that says something and then works on."""

    def call(emit: Callable[[Any], None]) -> Any:
        emit(SentenceEvent("It begins."))
        return work.run()

    return lambda *_, **__: EventStream(call)


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
@pytest.mark.slow
def test_a_stream_ends_with_its_key(folder: Path, work: Work, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(Engine, "ask_stream", talk(work))
    body = {"model": "clew", "messages": [{"role": "user", "content": "who?"}]} if "chat" in path else ASK
    with serving(folder) as running:
        keys = running.server.keys
        key, token = keys.add("ada")
        with running.http.stream("POST", path, json={**body, "stream": True}, headers=bearer(token)) as reply:
            lines = reply.iter_lines()
            assert any("It begins." in line for line in lines)
            keys.revoke(key.id)
            rest = list(lines)
        assert json.loads(rest[-2].partition(": ")[2])["error"]["code"] == "key_invalid"
        assert work.was_cancelled.wait(20)
        work.release.set()


def test_streams_end_at_once_when_the_server_stops(folder: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "ask_stream", talk(work))
    monkeypatch.setattr("clew.surface.server.run.GRACE_SECONDS", 600)  # it is not waited for
    began, ended = threading.Event(), list[str]()

    def follow(address: str, method: str, path: str, body: Any) -> None:
        with httpx2.Client(base_url=address, timeout=60) as http, http.stream(method, path, json=body) as reply:
            lines = reply.iter_lines()
            next(lines)
            began.set()
            ended.append([line for line in lines if line][-1])

    with serving(folder) as running:
        thread = threading.Thread(target=follow, args=(running.address, "POST", "/v1/ask", {**ASK, "stream": True}))
        thread.start()
        assert began.wait(20)
    thread.join(20)
    assert [json.loads(line.partition(": ")[2])["error"]["code"] for line in ended] == ["server_busy"]
