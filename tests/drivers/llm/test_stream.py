"""A model behind a server that fails in the middle of a stream: the pieces so far are kept, and the error says so."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import stamina

from clew.core.errors import CostLimit, DriverFailed
from clew.core.metered import MeteredLLM
from clew.core.usage import CostBudget, Price, Usage
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.model import ModelLLM
from tests.loopback import LoopbackHandler, LoopbackServer, serving

pytest.importorskip("pydantic_ai")

KEY = "canary-8f14e45fceea167a"  # looks like no key, so that only knowing it can hide it


def make_event(text: str | None = None, *, finish: str | None = None) -> bytes:
    """A piece of a completion as OpenAI sends it."""
    choice = {"index": 0, "finish_reason": finish, "delta": {"content": text} if text is not None else {}}
    return encode_event({"choices": [choice]})


def encode_event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"id": "1", "object": "c", "created": 1, "model": "m", **body}).encode() + b"\n\n"


USAGE = encode_event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
DONE = b"data: [DONE]\n\n"
END = (make_event(finish="stop"), USAGE, DONE)


@dataclass(frozen=True)
class Reply:
    """What the server does with one request: each part is a chunk of the body, or what it waits for before the next."""

    parts: tuple[bytes | threading.Event, ...] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    then: str = "end"  # or "hang", or "break" the connection in the middle of a chunk, or repeat it "forever"


def make_stream(*texts: str) -> Reply:
    return Reply((*(make_event(text) for text in texts), *END))


def make_error(status: int, message: str, after: str = "") -> Reply:
    body = json.dumps({"error": {"message": message}}).encode()
    return Reply((body,), status, {"Content-Type": "application/json", **({"Retry-After": after} if after else {})})


class Server(LoopbackServer):
    """Gives each request the next reply, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.replies: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.active = self.max_active = 0
        self.pace = 0.0
        self.hung_up = threading.Event()  # set when a client ends a reply that goes on forever
        self.url = f"{self.url}/v1"


class Handler(LoopbackHandler):
    wbufsize = 0  # each chunk as it is written
    server: Server

    def answer(self) -> None:
        request = self.read_json()
        with self.server.lock:
            self.server.requests.append(request)
            self.server.active += 1
            self.server.max_active = max(self.server.max_active, self.server.active)
            reply = self.server.replies.pop(0) if len(self.server.replies) > 1 else self.server.replies[0]
        try:
            self.send(reply)
        finally:
            with self.server.lock:
                self.server.active -= 1

    def send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": "text/event-stream", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in reply.parts:
            if isinstance(part, threading.Event):
                part.wait(60)
            else:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            time.sleep(self.server.pace)
        if reply.then == "forever":
            self.repeat(make_event("and on "))
        if reply.then == "hang":
            self.server.closing.wait(60)
        elif reply.then == "break":
            self.wfile.write(b"ff\r\nhalf of")
        else:
            self.wfile.write(b"0\r\n\r\n")
            return
        self.close_connection = True

    def repeat(self, part: bytes) -> None:
        try:
            while not self.server.closing.wait(0.01):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        except OSError:
            self.server.hung_up.set()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with stamina.set_testing(True, attempts=100, cap=True), serving(Server()) as server:
        yield server


def read_stream(pieces: Iterator[str]) -> tuple[list[str], str]:
    """The pieces of a stream, and the error at its end."""
    came: list[str] = []
    try:
        for piece in pieces:
            came.append(piece)
    except DriverFailed as failure:
        return came, str(failure)
    return came, ""


def test_pieces_come_before_the_answer_is_whole(server: Server) -> None:
    server.replies = [Reply((make_event("Anna "), make_event("does")), then="hang")]
    pieces = ModelLLM("m", url=server.url).stream("Who?", system="Be brief.", max_tokens=42, temperature=0.25)
    assert next(pieces) + next(pieces) == "Anna does"  # the rest never comes
    (request,) = server.requests
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    assert (request["stream"], request["max_tokens"], request["temperature"]) == (True, 42, 0.25)


def test_what_the_provider_counted_is_what_counts(server: Server) -> None:
    server.replies = [make_stream("Anna ", "does.")]
    llm = ModelLLM("m", url=server.url)
    assert read_stream(llm.stream("Who?")) == (["Anna ", "does."], "")
    assert llm.usage == Usage(calls=1, input_tokens=11, output_tokens=5)
    server.replies = [
        Reply((make_event("Anna does."), make_event(finish="stop"), DONE))
    ]  # a server that counts nothing
    assert read_stream(llm.stream("Who rotates the keys?")) == (["Anna does."], "")
    assert llm.usage == Usage(calls=2, input_tokens=11 + 6, output_tokens=5 + 3)


@pytest.mark.parametrize(
    "half",
    [
        Reply((make_event("Anna "), make_event("does")), then="break"),
        Reply((make_event("Anna "), make_event("does"))),  # closed in good order, but nobody said that this is the end
        Reply((make_event("Anna "), make_event("does"), DONE)),
        Reply((make_event("Anna "), make_event("does"), b"data: {not json\n\n", *END)),
        Reply(
            (
                make_event("Anna "),
                make_event("does"),
                encode_event({"error": {"message": "the disk is full", "code": 500}}),
            )
        ),
    ],
    ids=["break", "end", "done", "json", "error"],
)
def test_half_a_stream_says_so_after_the_pieces_that_came(server: Server, half: Reply, tmp_path: Path) -> None:
    server.replies = [half, make_stream("never asked again")]
    model = ModelLLM("m", url=server.url)
    llm = CachedLLM(model, tmp_path / "answers.db")
    came, reason = read_stream(llm.stream("Who?"))
    assert "".join(came) == "Anna does"
    assert "broke off after 9 characters, which are kept" in reason
    assert len(server.requests) == 1  # money is not spent twice
    assert llm.usage.calls == 1  # and what was spent is counted
    assert llm.usage.input_tokens > 0
    assert "".join(llm.stream("Who?")) == "never asked again"  # half an answer is not kept
    assert llm.usage.cached == 0
    assert "".join(llm.stream("Who?")) == "never asked again"  # a whole one is
    assert (len(server.requests), llm.usage.cached, llm.usage.calls) == (2, 1, 2)


def test_a_stream_that_stops_coming(server: Server) -> None:
    server.replies = [Reply((make_event("Anna "),), then="hang")]
    came, reason = read_stream(ModelLLM("m", url=server.url, timeout=2.0).stream("Who?"))
    assert came == ["Anna "]
    assert "broke off after 5 characters" in reason
    assert "within 2 s" in reason
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_slow_stream_that_keeps_coming_is_not_cut(server: Server) -> None:
    server.pace = 0.3  # more than the time of a piece in all
    server.replies = [make_stream(*"abcdefgh")]
    assert read_stream(ModelLLM("m", url=server.url, timeout=2.0).stream("Who?")) == (list("abcdefgh"), "")


@pytest.mark.parametrize(
    "first",
    [
        make_error(429, "slow down", after="1"),
        make_error(503, "in a moment"),
        Reply(then="break"),
        Reply(then="hang"),
        Reply((make_event(""), DONE)),
        Reply((encode_event({"error": {"message": "overloaded", "type": "server_error", "code": 500}}),)),
    ],
    ids=["429", "503", "break", "hang", "empty", "error"],
)
@pytest.mark.slow
def test_before_the_first_piece_it_is_tried_again(server: Server, first: Reply) -> None:
    server.replies = [first, make_stream("now")]
    llm = ModelLLM("m", url=server.url, timeout=3.0)
    assert read_stream(llm.stream("a")) == (["now"], "")
    assert len(server.requests) == 2
    assert llm.usage == Usage(calls=1, input_tokens=11, output_tokens=5)  # the try that gave nothing costs nothing


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (make_error(401, "bad key"), "rejected the key (401"),
        (make_error(429, "tomorrow", after="3600"), "try again in 3600 s"),
        (Reply(), "cannot be read"),
        (Reply((b"<html>hello</html>",), headers={"Content-Type": "text/html"}), "cannot be read"),
        (Reply((b"data: {not json\n\n", *END)), "cannot be read"),
    ],
)
def test_what_another_try_cannot_help_is_said_at_once(server: Server, reply: Reply, wanted: str) -> None:
    server.replies = [reply]
    llm = ModelLLM("m", url=server.url)
    came, reason = read_stream(llm.stream("a"))
    assert came == []
    assert wanted in reason
    assert len(server.requests) == 1
    assert llm.usage == Usage()


def test_an_empty_stream_is_an_empty_answer(server: Server, tmp_path: Path) -> None:
    server.replies = [make_stream()]
    llm = CachedLLM(ModelLLM("m", url=server.url), tmp_path / "answers.db")
    assert read_stream(llm.stream("a")) == ([], "")
    assert read_stream(llm.stream("a")) == ([], "")
    assert llm.usage.calls == 2  # nothing is no answer to keep


def test_whoever_stops_reading_hangs_up(server: Server) -> None:
    server.replies = [Reply((make_event("one "), make_event("two ")), then="hang")]
    llm = ModelLLM("m", url=server.url, max_concurrent=1)
    pieces = llm.stream("a")
    assert next(pieces) == "one "
    del pieces
    server.replies = [make_stream("next")]
    assert read_stream(llm.stream("b")) == (["next"], "")  # the one place is free again
    assert llm.usage.calls == 2


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_so_many_requests_at_once(server: Server, most: int) -> None:
    server.pace = 0.02
    server.replies = [make_stream("a", "b")]
    llm = ModelLLM("m", url=server.url, max_concurrent=most)
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append("".join(llm.stream("x")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["ab"] * 8
    assert server.max_active == most


def test_each_job_pays_for_its_own_calls_alone(server: Server) -> None:
    server.pace = 0.02
    server.replies = [make_stream("a", "b")]
    llm = ModelLLM("m", url=server.url)
    budgets = [CostBudget({llm.name: Price(1e6, 1e6)}) for _ in range(6)]  # a token costs 1
    threads = [threading.Thread(target=lambda p=each: list(MeteredLLM(llm, p).stream("x"))) for each in budgets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [budget.spent for budget in budgets] == [16.0] * 6


def test_a_stream_is_paid_for_however_it_ends(server: Server) -> None:
    server.replies = [Reply((make_event("Anna "), make_event("does")), then="break")]
    llm = ModelLLM("m", url=server.url)
    budget = CostBudget({llm.name: Price(1e6, 1e6)}, limit=100.0)
    came, reason = read_stream(MeteredLLM(llm, budget).stream("Who?", max_tokens=20))
    assert (came, "broke off" in reason) == (["Anna ", "does"], True)
    assert budget.spent == 1 + 3  # tokens of the question and of what came, about
    pieces = MeteredLLM(llm, budget).stream("Who?", max_tokens=20)
    assert next(pieces) == "Anna "
    del pieces
    assert budget.spent == 4 + 1 + 2
    with pytest.raises(CostLimit):
        next(MeteredLLM(llm, budget).stream("Who?", max_tokens=200))
    assert len(server.requests) == 2


@pytest.mark.slow
def test_the_key_is_in_no_error_and_no_log(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    llm = ModelLLM("m", url=server.url, api_key=KEY, retries=1, timeout=3.0)
    texts: list[str] = []
    for reply in (
        make_error(401, f"wrong key {KEY}"),
        make_error(429, f"too often, {KEY}", after="1"),
        make_error(500, f"Bearer {KEY}"),
        Reply((make_event("a"), encode_event({"error": {"message": f"no more for {KEY}", "code": 500}}))),
        Reply((make_event("a"), b"data: {" + KEY.encode() + b"\n\n")),
        Reply((make_event("a"),), then="break"),
        Reply(then="hang"),
    ):
        server.replies = [reply]
        with pytest.raises(DriverFailed) as caught:
            list(llm.stream("a"))
        error: BaseException | None = caught.value
        while error is not None:
            texts += [str(error), repr(error)]
            error = error.__cause__ or error.__context__
    texts += [record.getMessage() + str(vars(record)) for record in caplog.records]
    assert len(texts) > 20
    assert [text for text in texts if KEY in text] == []
