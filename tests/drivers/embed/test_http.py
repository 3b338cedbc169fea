"""The embedder behind an address: what is sent, and answers that are good or cannot be used."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from clew.core.errors import ClewError, DriverFailed, SettingsError
from clew.core.settings import EmbedderConfig
from clew.drivers.embed import http
from clew.drivers.embed.http import HttpEmbedder, make_http_embedder
from tests.loopback import JsonServer, Reply, serving

KEY = "sk-very-secret-4417"


def vectors(texts: list[str], *, width: int = 4) -> list[list[float]]:
    return [[float(len(text)), 1.0, *[0.5] * (width - 2)] for text in texts]


def good(asked: dict[str, Any]) -> Reply:
    data = [{"index": at, "embedding": row} for at, row in enumerate(vectors(asked["input"]))]
    return 200, {}, json.dumps({"data": data[::-1]}).encode()


def make_embedder(server: JsonServer, **options: Any) -> HttpEmbedder:
    given = {"api_key": KEY, "timeout": 5.0, "attempts": 3, "backoff": 0.01, **options}
    return HttpEmbedder("small", url=f"{server.url}/v1/", **given)


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serving(JsonServer(good)) as running:
        yield running


def test_the_vectors_come_back_in_order_and_of_unit_length(server: JsonServer) -> None:
    rows = make_embedder(server).embed(["a", "bcd", "ef"], role="passage")
    expected = np.array(vectors(["a", "bcd", "ef"]))
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    assert server.asked == [{"path": "/v1/embeddings", "model": "small", "input": ["a", "bcd", "ef"]}]
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_is_sent(server: JsonServer) -> None:
    make_embedder(server, api_key="").embed(["a"], role="query")
    assert server.keys == [None]


def test_the_width_is_learned_from_the_first_answer(server: JsonServer) -> None:
    embedder = make_embedder(server)
    embedder.embed(["a"], role="query")
    assert embedder.dim == 4
    assert len(server.asked) == 1
    fresh = make_embedder(server)
    assert fresh.dim == fresh.dim == 4
    assert len(server.asked) == 2


def test_many_texts_go_in_several_requests(server: JsonServer) -> None:
    texts = ["x" * (1 + n % 90) for n in range(300)]
    rows = make_embedder(server).embed(texts, role="passage")
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], [len(text) for text in texts], rtol=1e-5)
    assert sorted(len(asked["input"]) for asked in server.asked) == [44, 128, 128]


def test_long_texts_go_in_several_requests(server: JsonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1000)
    make_embedder(server).embed(["é" * 200] * 5, role="passage")
    assert sorted(len(asked["input"]) for asked in server.asked) == [1, 2, 2]


def test_a_text_that_is_too_long_goes_in_windows_and_nothing_of_it_is_lost(server: JsonServer) -> None:
    text = " ".join(f"wört{n}" for n in range(100))
    (row,) = make_embedder(server, max_tokens=64).embed([text], role="passage")
    pieces = [piece for asked in server.asked for piece in asked["input"]]
    assert "".join(pieces) == text
    assert len(pieces) > 1
    assert all(len(piece.encode()) <= 128 for piece in pieces)
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)


def test_an_empty_text_is_sent_as_a_space(server: JsonServer) -> None:
    make_embedder(server).embed(["", "a"], role="passage")
    assert server.asked[0]["input"] == [" ", "a"]


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
def test_an_answer_that_cannot_be_used(server: JsonServer, body: bytes, message: str) -> None:
    server.plan((200, {}, body))
    with pytest.raises(DriverFailed, match=message):
        make_embedder(server).embed(["a", "b"], role="query")


def test_a_width_that_changes(server: JsonServer) -> None:
    embedder = make_embedder(server)
    embedder.embed(["a"], role="query")
    server.plan((200, {}, data([1.0, 2.0])))
    with pytest.raises(DriverFailed, match="changed the vector length from 4 to 2"):
        embedder.embed(["a"], role="query")


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
    assert KEY not in str(caught.value) + repr(EmbedderConfig(api_key=KEY))
