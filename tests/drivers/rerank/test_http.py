"""The reranker behind an address, against a server on loopback that answers well, late, badly or not at all."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import pytest

from clew.core.errors import ClewError, DriverFailed, SettingsError
from clew.core.settings import RerankerConfig
from clew.drivers.rerank.http import HttpReranker, make_http_reranker

KEY = "sk-very-secret-4417"
COHERE = "https://api.cohere.com/v2"

Reply = tuple[int, dict[str, str], bytes]


def good(asked: dict[str, Any]) -> Reply:
    """The share of the letter e, the last text first."""
    results = [{"index": at, "relevance_score": share(text)} for at, text in enumerate(asked["documents"])]
    return 200, {}, json.dumps({"id": "x", "results": results[::-1], "meta": {}}).encode()


def share(text: str) -> float:
    return text.count("e") / len(text)


def tei(asked: dict[str, Any]) -> Reply:
    """As text-embeddings-inference answers: other names, and no more than 32 texts."""
    if "texts" not in asked:
        return 422, {}, b"Failed to deserialize the JSON body into the target type: missing field `texts` at line 1"
    if len(asked["texts"]) > 32:
        return 422, {}, b'{"error": "batch size 33 > maximum allowed batch size 32", "error_type": "Validation"}'
    return 200, {}, json.dumps([{"index": at, "score": share(text)} for at, text in enumerate(asked["texts"])]).encode()


def failing(status: int, message: str = "", headers: dict[str, str] | None = None) -> Reply:
    return status, headers or {}, json.dumps({"message": message}).encode()


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

    def reranker(self, **options: Any) -> HttpReranker:
        given = {"api_key": KEY, "timeout": 5.0, "attempts": 3, "backoff": 0.01, **options}
        return HttpReranker("small", url=f"http://127.0.0.1:{self.server_port}/v2/", **given)


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


def test_the_scores_come_back_in_order(server: Server) -> None:
    assert server.reranker().score("q", ["a", "be", "eee"]) == [0, 0.5, 1]
    asked = {"path": "/v2/rerank", "model": "small", "query": "q", "documents": ["a", "be", "eee"], "top_n": 3}
    assert server.asked == [asked]
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_is_sent_and_without_texts_nothing(server: Server) -> None:
    assert server.reranker().score("q", []) == []
    server.reranker(api_key="").score("q", ["a"])
    assert server.keys == [None]


def test_text_embeddings_inference_is_asked_in_its_own_way_once_it_said_so(server: Server) -> None:
    server.answer = tei
    reranker = server.reranker()
    assert reranker.score("q", ["a", "be"]) == [0, 0.5]
    assert [set(asked) - {"path"} for asked in server.asked] == [
        {"model", "query", "documents", "top_n"},
        {"query", "texts"},
    ]
    assert reranker.score("q", ["e" * n + "x" for n in range(70)]) == [n / (n + 1) for n in range(70)]
    assert sorted(len(asked["texts"]) for asked in server.asked[2:]) == [6, 32, 32]


def test_many_texts_go_in_several_requests(server: Server) -> None:
    texts = ["e" * (n % 90) + "x" for n in range(250)]
    assert server.reranker().score("q", texts) == [share(text) for text in texts]
    assert sorted(asked["top_n"] for asked in server.asked) == [50, 100, 100]


@pytest.mark.parametrize("word", ["wört", "鍵", "key"])
def test_a_text_that_is_too_long_goes_in_windows_of_which_the_best_counts(server: Server, word: str) -> None:
    text = " ".join(f"{word}{n}" for n in range(300)) + " eeeeeeeee" * 3
    (score,) = server.reranker(max_tokens=128).score("q", [text])
    pieces = server.asked[0]["documents"]
    assert len(pieces) > 1
    assert text.startswith(pieces[0])
    assert text.endswith(pieces[-1])
    assert all(piece in text for piece in pieces)
    assert all(len(piece.encode()) <= 128 * 3.3 for piece in pieces)
    assert score == max(map(share, pieces))


def test_a_long_question_keeps_its_start_and_its_end(server: Server) -> None:
    server.reranker(max_tokens=128).score("first " + "filler " * 500 + "last", ["a"])
    query = server.asked[0]["query"]
    assert query.startswith("first filler")
    assert query.endswith("filler last")
    assert len(query) < 64 * 3


def test_empty_ones_are_sent_as_a_space(server: Server) -> None:
    server.reranker().score("", ["", "a"])
    assert (server.asked[0]["query"], server.asked[0]["documents"]) == (" ", [" ", "a"])


def test_chances_are_taken_as_they_are_and_logits_are_not(server: Server) -> None:
    reranker = server.reranker()
    reranker.score("q", ["a", "be"])
    assert reranker.calibrate(0.3) == 0.3
    server.plan((200, {}, b'{"results": [{"index": 0, "relevance_score": -4.5}]}'))
    assert reranker.score("q", ["a"]) == [-4.5]
    assert reranker.calibrate(0) == 0.5
    assert reranker.calibrate(-4.5) == pytest.approx(0.011, abs=1e-3)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(server: Server, status: int) -> None:
    server.plan(failing(status), failing(status), None)
    assert server.reranker().score("q", ["e"]) == [1]
    assert len(server.asked) == 3


@pytest.mark.parametrize("asked_for", ["0.3", "date"])
@pytest.mark.slow
def test_retry_after_is_honoured(server: Server, asked_for: str) -> None:
    # A date has whole seconds: two from now is between one and two away.
    header = formatdate(time.time() + 2, usegmt=True) if asked_for == "date" else asked_for
    server.plan(failing(429, headers={"Retry-After": header}), None)
    started = time.monotonic()
    server.reranker().score("q", ["a"])
    assert time.monotonic() - started >= 0.29


def test_a_server_that_stays_down(server: Server) -> None:
    server.plan(failing(500, "out of memory"))
    with pytest.raises(DriverFailed, match=r"answered 500 \(out of memory\), 3 times; try again later"):
        server.reranker().score("q", ["a"])
    assert len(server.asked) == 3


def test_a_refusal_is_not_asked_again(server: Server) -> None:
    server.plan(failing(404, "there is no model small"))
    with pytest.raises(DriverFailed, match=r"refused with 404: there is no model small; trying again will not help"):
        server.reranker().score("q", ["a"])
    assert len(server.asked) == 1


def test_a_server_that_does_not_answer(server: Server) -> None:
    def late(asked: dict[str, Any]) -> Reply:
        time.sleep(0.5)
        return good(asked)

    server.answer = late
    with pytest.raises(DriverFailed, match="did not answer in time, 2 times"):
        server.reranker(timeout=0.1, attempts=2).score("q", ["a"])


def test_a_server_that_is_not_there() -> None:
    with Server() as gone:
        reranker = gone.reranker(attempts=2)
    with pytest.raises(DriverFailed, match="could not be reached"):
        reranker.score("q", ["a"])


def results(*pairs: tuple[Any, Any]) -> bytes:
    return json.dumps({"results": [{"index": at, "relevance_score": score} for at, score in pairs]}).encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "not JSON"),
        (b'{"results": [{"index"', "not JSON"),
        (b'{"object": "list"}', "without scores"),
        (b"[1, 2]", "without scores"),
        (b'"ok"', "without scores"),
        (b"null", "without scores"),
        (b'[{"index": 0}, {"index": 1}]', "without scores"),
        (results((0, "high"), (1, 0.5)), "without scores"),
        (results(([0], 0.5), (1, 0.5)), "without scores"),
        (results((0, 0.5)), "count mismatch, 2 texts were sent and 1 scores came back"),
        (results((0, 0.5), (1, 0.5), (2, 0.5)), "count mismatch"),
        (results((0, 0.5), (0, 0.6)), "2 scores came back for 1 of them"),
        (results((1, 0.5), (2, 0.5)), "count mismatch"),
        (results((-1, 0.5), (0, 0.5)), "count mismatch"),
        (results((0, float("nan")), (1, 0.5)), "a score that is not a number"),
    ],
)
def test_an_answer_that_cannot_be_used(server: Server, body: bytes, message: str) -> None:
    server.plan((200, {}, body))
    with pytest.raises(DriverFailed, match=message):
        server.reranker().score("q", ["a", "b"])


@pytest.mark.parametrize("status", [401, 500])
def test_the_key_is_never_shown(server: Server, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.plan(failing(status, f"Incorrect API key provided: {KEY}"))
    reranker = server.reranker()
    with pytest.raises(DriverFailed) as caught:
        reranker.score("q", ["a"])
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {error}"
        error = error.__cause__
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert KEY not in logged + repr(reranker) + repr(reranker._endpoint)
    assert "Incorrect API key provided: …" in str(caught.value)


def test_it_is_made_by_name() -> None:
    made = make_http_reranker(RerankerConfig(name="http:rerank-v3.5", url=COHERE, api_key=KEY))
    assert made.name == "http:rerank-v3.5"
    assert repr(made) == "HttpReranker('rerank-v3.5' at api.cohere.com)"
    own = make_http_reranker(RerankerConfig(name="http:bge", url="http://127.0.0.1:9/v1"))
    assert repr(own) == "HttpReranker('bge' at 127.0.0.1)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_http_reranker(RerankerConfig(name="http:", api_key=KEY)),
        lambda: make_http_reranker(RerankerConfig(name="http:small")),
        lambda: make_http_reranker(RerankerConfig(name="http:small", url="ftp://example.com")),
        lambda: make_http_reranker(RerankerConfig(name="http:small", url="localhost:8080")),
        lambda: HttpReranker("small", url=COHERE, api_key=f"{KEY}\n"),
        lambda: HttpReranker("small", url=COHERE, api_key=f"{KEY} {KEY}"),
        lambda: HttpReranker("small", url=COHERE, max_tokens=8),
    ],
)
def test_settings_that_cannot_be(make: Callable[[], HttpReranker]) -> None:
    with pytest.raises(SettingsError, match="reranker") as caught:
        make()
    assert isinstance(caught.value, ClewError)
    assert KEY not in str(caught.value)
