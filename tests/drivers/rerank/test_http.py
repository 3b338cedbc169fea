"""The reranker behind an address: what is sent, and answers that are good or cannot be used."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clew.core.errors import ClewError, DriverFailed, SettingsError
from clew.core.settings import RerankerConfig
from clew.drivers.rerank.http import HttpReranker, make_http_reranker
from tests.loopback import JsonServer, Reply, serving

KEY = "sk-very-secret-4417"
COHERE = "https://api.cohere.com/v2"


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


def make_reranker(server: JsonServer, **options: Any) -> HttpReranker:
    given = {"api_key": KEY, "timeout": 5.0, "attempts": 3, "backoff": 0.01, **options}
    return HttpReranker("small", url=f"{server.url}/v2/", **given)


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serving(JsonServer(good)) as running:
        yield running


def test_the_scores_come_back_in_order(server: JsonServer) -> None:
    assert make_reranker(server).score("q", ["a", "be", "eee"]) == [0, 0.5, 1]
    asked = {"path": "/v2/rerank", "model": "small", "query": "q", "documents": ["a", "be", "eee"], "top_n": 3}
    assert server.asked == [asked]
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_is_sent_and_without_texts_nothing(server: JsonServer) -> None:
    assert make_reranker(server).score("q", []) == []
    make_reranker(server, api_key="").score("q", ["a"])
    assert server.keys == [None]


def test_text_embeddings_inference_is_asked_in_its_own_way_once_it_said_so(server: JsonServer) -> None:
    server.answer = tei
    reranker = make_reranker(server)
    assert reranker.score("q", ["a", "be"]) == [0, 0.5]
    assert [set(asked) - {"path"} for asked in server.asked] == [
        {"model", "query", "documents", "top_n"},
        {"query", "texts"},
    ]
    assert reranker.score("q", ["e" * n + "x" for n in range(70)]) == [n / (n + 1) for n in range(70)]
    assert sorted(len(asked["texts"]) for asked in server.asked[2:]) == [6, 32, 32]


def test_many_texts_go_in_several_requests(server: JsonServer) -> None:
    texts = ["e" * (n % 90) + "x" for n in range(250)]
    assert make_reranker(server).score("q", texts) == [share(text) for text in texts]
    assert sorted(asked["top_n"] for asked in server.asked) == [50, 100, 100]


@pytest.mark.parametrize("word", ["wört", "鍵", "key"])
def test_a_text_that_is_too_long_goes_in_windows_of_which_the_best_counts(server: JsonServer, word: str) -> None:
    text = " ".join(f"{word}{n}" for n in range(300)) + " eeeeeeeee" * 3
    (score,) = make_reranker(server, max_tokens=128).score("q", [text])
    pieces = server.asked[0]["documents"]
    assert len(pieces) > 1
    assert text.startswith(pieces[0])
    assert text.endswith(pieces[-1])
    assert all(piece in text for piece in pieces)
    assert all(len(piece.encode()) <= 128 * 3.3 for piece in pieces)
    assert score == max(map(share, pieces))


def test_a_long_question_keeps_its_start_and_its_end(server: JsonServer) -> None:
    make_reranker(server, max_tokens=128).score("first " + "filler " * 500 + "last", ["a"])
    query = server.asked[0]["query"]
    assert query.startswith("first filler")
    assert query.endswith("filler last")
    assert len(query) < 64 * 3


def test_empty_ones_are_sent_as_a_space(server: JsonServer) -> None:
    make_reranker(server).score("", ["", "a"])
    assert (server.asked[0]["query"], server.asked[0]["documents"]) == (" ", [" ", "a"])


def test_chances_are_taken_as_they_are_and_logits_are_not(server: JsonServer) -> None:
    reranker = make_reranker(server)
    reranker.score("q", ["a", "be"])
    assert reranker.calibrate(0.3) == 0.3
    server.plan((200, {}, b'{"results": [{"index": 0, "relevance_score": -4.5}]}'))
    assert reranker.score("q", ["a"]) == [-4.5]
    assert reranker.calibrate(0) == 0.5
    assert reranker.calibrate(-4.5) == pytest.approx(0.011, abs=1e-3)


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
def test_an_answer_that_cannot_be_used(server: JsonServer, body: bytes, message: str) -> None:
    server.plan((200, {}, body))
    with pytest.raises(DriverFailed, match=message):
        make_reranker(server).score("q", ["a", "b"])


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
