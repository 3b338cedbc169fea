"""What the embedder and the reranker behind an address make of a server that is busy, down, late, gone or talkative."""

import json
import logging
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from clew.core.errors import DriverFailed
from tests.drivers.embed import test_http as embed
from tests.drivers.rerank import test_http as rerank
from tests.drivers.rerank.test_http import KEY
from tests.loopback import JsonServer, Reply, serving


@pytest.fixture(params=["embedder", "reranker"])
def server(request: pytest.FixtureRequest) -> Iterator[JsonServer]:
    with serving(JsonServer(embed.good if request.param == "embedder" else rerank.good)) as running:
        yield running


def make_driver(server: JsonServer, **options: Any) -> Any:
    """The driver that the server is for."""
    return (embed.make_embedder if server.good is embed.good else rerank.make_reranker)(server, **options)


def ask(driver: Any) -> list[float]:
    given = driver.score("q", ["e"]) if hasattr(driver, "score") else driver.embed(["e"], role="query")[0]
    return list(given)


def failing(server: JsonServer, status: int, message: str = "", headers: dict[str, str] | None = None) -> Reply:
    """A refusal in words as each kind of server has them."""
    body = {"error": {"message": message}} if server.good is embed.good else {"message": message}
    return status, headers or {}, json.dumps(body).encode()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(server: JsonServer, status: int) -> None:
    server.plan(failing(server, status), failing(server, status), None)
    assert len(ask(make_driver(server))) in (1, 4)
    assert len(server.asked) == 3


@pytest.mark.parametrize("asked_for", ["0.3", "date"])
@pytest.mark.slow
def test_retry_after_is_honoured(server: JsonServer, asked_for: str) -> None:
    # A date has whole seconds: two from now is between one and two away.
    header = formatdate(time.time() + 2, usegmt=True) if asked_for == "date" else asked_for
    server.plan(failing(server, 429, headers={"Retry-After": header}), None)
    started = time.monotonic()
    ask(make_driver(server))
    assert time.monotonic() - started >= 0.29


@pytest.mark.parametrize(
    ("status", "message", "wanted", "times"),
    [
        (500, "out of memory", r"answered 500 \(out of memory\), 3 times; try again later", 3),
        (404, "there is no model small", r"refused with 404: there is no model small; trying again will not help", 1),
    ],
)
def test_a_server_that_stays_down_is_left_and_a_refusal_is_not_asked_again(
    server: JsonServer, status: int, message: str, wanted: str, times: int
) -> None:
    server.plan(failing(server, status, message))
    with pytest.raises(DriverFailed, match=wanted):
        ask(make_driver(server))
    assert len(server.asked) == times


def test_a_server_that_does_not_answer(server: JsonServer) -> None:
    def late(asked: dict[str, Any]) -> Reply:
        time.sleep(0.5)
        return server.good(asked)

    server.answer = late
    with pytest.raises(DriverFailed, match="did not answer in time, 2 times"):
        ask(make_driver(server, timeout=0.1, attempts=2))


def test_a_server_that_is_not_there() -> None:
    for good in (embed.good, rerank.good):
        with JsonServer(good) as gone:
            driver = make_driver(gone, attempts=2)
        with pytest.raises(DriverFailed, match="could not be reached"):
            ask(driver)


@pytest.mark.parametrize("status", [401, 500])
def test_the_key_is_never_shown(server: JsonServer, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.plan(failing(server, status, f"Incorrect API key provided: {KEY}"))
    driver = make_driver(server)
    with pytest.raises(DriverFailed) as caught:
        ask(driver)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {error}"
        error = error.__cause__
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert KEY not in logged + repr(driver) + str(driver) + repr(driver._endpoint)
    assert "Incorrect API key provided: …" in str(caught.value)
