"""The embedder behind an address, against a server on loopback that answers well, late, badly or not at all."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest

from clew.core.errors import ClewError, DriverFailed, SettingsError
from clew.core.settings import EmbedderConfig
from clew.drivers.embed import http
from clew.drivers.embed.http import HttpEmbedder, make_http_embedder

KEY = "sk-very-secret-4417"

Reply = tuple[int, dict[str, str], bytes]


def vectors(texts: list[str], *, width: int = 4) -> list[list[float]]:
    return [[float(len(text)), 1.0, *[0.5] * (width - 2)] for text in texts]


def good(asked: dict[str, Any]) -> Reply:
    data = [{"index": at, "embedding": row} for at, row in enumerate(vectors(asked["input"]))]
    return 200, {}, json.dumps({"data": data[::-1]}).encode()


def failing(status: int, message: str = "", headers: dict[str, str] | None = None) -> Reply:
    return status, headers or {}, json.dumps({"error": {"message": message}}).encode()


class Server(ThreadingHTTPServer):
    """Answers by a function from what was asked; keeps what was asked and how."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Callable[[dict[str, Any]], Reply] = good
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.lock = Lock()

    def plan(self, *replies: Reply | None) -> None:
        """Each reply once, in order (None: a good one), the last for ever."""
        left = list(replies)

        def answer(asked: dict[str, Any]) -> Reply:
            reply = left.pop(0) if len(left) > 1 else left[0]
            return good(asked) if reply is None else reply

        self.answer = answer

    def embedder(self, **options: Any) -> HttpEmbedder:
        given = {"api_key": KEY, "timeout": 5.0, "attempts": 3, "backoff": 0.01, **options}
        return HttpEmbedder("small", url=f"http://127.0.0.1:{self.server_port}/v1/", **given)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append({"path": self.path, **asked})
            self.server.keys.append(self.headers["Authorization"])
        status, headers, body = self.server.answer(asked)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that gave up waiting
            super().handle()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_the_vectors_come_back_in_order_and_of_unit_length(server: Server) -> None:
    rows = server.embedder().embed(["a", "bcd", "ef"], role="passage")
    expected = np.array(vectors(["a", "bcd", "ef"]))
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    assert server.asked == [{"path": "/v1/embeddings", "model": "small", "input": ["a", "bcd", "ef"]}]
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_is_sent(server: Server) -> None:
    server.embedder(api_key="").embed(["a"], role="query")
    assert server.keys == [None]


def test_the_width_is_learned_from_the_first_answer(server: Server) -> None:
    embedder = server.embedder()
    embedder.embed(["a"], role="query")
    assert embedder.dim == 4
    assert len(server.asked) == 1
    fresh = server.embedder()
    assert fresh.dim == fresh.dim == 4
    assert len(server.asked) == 2


def test_many_texts_go_in_several_requests(server: Server) -> None:
    texts = ["x" * (1 + n % 90) for n in range(300)]
    rows = server.embedder().embed(texts, role="passage")
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], [len(text) for text in texts], rtol=1e-5)
    assert sorted(len(asked["input"]) for asked in server.asked) == [44, 128, 128]


def test_long_texts_go_in_several_requests(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1000)
    server.embedder().embed(["é" * 200] * 5, role="passage")
    assert sorted(len(asked["input"]) for asked in server.asked) == [1, 2, 2]


def test_a_text_that_is_too_long_goes_in_windows_and_nothing_of_it_is_lost(server: Server) -> None:
    text = " ".join(f"wört{n}" for n in range(100))
    (row,) = server.embedder(max_tokens=64).embed([text], role="passage")
    pieces = [piece for asked in server.asked for piece in asked["input"]]
    assert "".join(pieces) == text
    assert len(pieces) > 1
    assert all(len(piece.encode()) <= 128 for piece in pieces)
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)


def test_an_empty_text_is_sent_as_a_space(server: Server) -> None:
    server.embedder().embed(["", "a"], role="passage")
    assert server.asked[0]["input"] == [" ", "a"]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(server: Server, status: int) -> None:
    server.plan(failing(status), failing(status), None)
    assert server.embedder().embed(["a"], role="query").shape == (1, 4)
    assert len(server.asked) == 3


@pytest.mark.parametrize("asked_for", ["0.3", "date"])
@pytest.mark.slow
def test_retry_after_is_honoured(server: Server, asked_for: str) -> None:
    # A date has whole seconds: two from now is between one and two away.
    header = formatdate(time.time() + 2, usegmt=True) if asked_for == "date" else asked_for
    server.plan(failing(429, headers={"Retry-After": header}), None)
    started = time.monotonic()
    server.embedder().embed(["a"], role="query")
    assert time.monotonic() - started >= 0.29


def test_a_server_that_stays_down(server: Server) -> None:
    server.plan(failing(500, "out of memory"))
    with pytest.raises(DriverFailed, match=r"answered 500 \(out of memory\), 3 times; try again later"):
        server.embedder().embed(["a"], role="query")
    assert len(server.asked) == 3


def test_a_refusal_is_not_asked_again(server: Server) -> None:
    server.plan(failing(404, "there is no model small"))
    with pytest.raises(DriverFailed, match=r"refused with 404: there is no model small; trying again will not help"):
        server.embedder().embed(["a"], role="query")
    assert len(server.asked) == 1


def test_a_server_that_does_not_answer(server: Server) -> None:
    def late(asked: dict[str, Any]) -> Reply:
        time.sleep(0.5)
        return good(asked)

    server.answer = late
    with pytest.raises(DriverFailed, match="did not answer in time, 2 times"):
        server.embedder(timeout=0.1, attempts=2).embed(["a"], role="query")


def test_a_server_that_is_not_there() -> None:
    with Server() as gone:
        embedder = gone.embedder(attempts=2)
    with pytest.raises(DriverFailed, match="could not be reached"):
        embedder.embed(["a"], role="query")


def data(*rows: Any) -> bytes:
    return json.dumps({"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}).encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "not JSON"),
        (b'{"data": [{"index"', "not JSON"),
        (b'{"object": "list"}', "without vectors"),
        (b"[1, 2]", "without vectors"),
        (data([1, 0]), "count mismatch, 2 texts were sent and 1 vectors came back"),
        (data([1, 0], [0, 1], [1, 1]), "count mismatch"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "count mismatch"),
        (data([1, 0], [float("nan"), 1]), "zero or not a number"),
        (data([1, 0], [0, 0]), "zero or not a number"),
        (data([1, 0], [1, 0, 0]), "not rows of numbers of one length"),
        (data("AACAPw==", "AACAPw=="), "not rows of numbers"),
        (data([1, None], [1, 0]), "zero or not a number"),
    ],
)
def test_an_answer_that_cannot_be_used(server: Server, body: bytes, message: str) -> None:
    server.plan((200, {}, body))
    with pytest.raises(DriverFailed, match=message):
        server.embedder().embed(["a", "b"], role="query")


def test_a_width_that_changes(server: Server) -> None:
    embedder = server.embedder()
    embedder.embed(["a"], role="query")
    server.plan((200, {}, data([1.0, 2.0])))
    with pytest.raises(DriverFailed, match="changed the vector length from 4 to 2"):
        embedder.embed(["a"], role="query")


@pytest.mark.parametrize("status", [401, 500])
def test_the_key_is_never_shown(server: Server, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.plan(failing(status, f"Incorrect API key provided: {KEY}"))
    embedder = server.embedder()
    with pytest.raises(DriverFailed) as caught:
        embedder.embed(["a"], role="query")
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {error}"
        error = error.__cause__
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert KEY not in logged + repr(embedder) + str(embedder) + repr(EmbedderConfig(api_key=KEY))
    assert "Incorrect API key provided: …" in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_http_embedder(EmbedderConfig(name="openai:", api_key=KEY)),
        lambda: make_http_embedder(EmbedderConfig(name="openai:small")),
        lambda: make_http_embedder(EmbedderConfig(name="openai:small", url="ftp://example.com")),
        lambda: make_http_embedder(EmbedderConfig(name="openai:small", url="localhost:8080")),
        lambda: HttpEmbedder("small", api_key=f"{KEY}\n"),
        lambda: HttpEmbedder("small", api_key=f"{KEY} {KEY}"),
    ],
)
def test_settings_that_cannot_be(make: Callable[[], HttpEmbedder]) -> None:
    with pytest.raises(SettingsError, match="embedder") as caught:
        make()
    assert isinstance(caught.value, ClewError)
    assert KEY not in str(caught.value)
