"""A model behind a misbehaving server: what is sent, what is retried, the error messages, and no key in any of them."""

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import sleep
from typing import Any

import pytest
import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLMFailure
from clew.core.usage import Usage
from clew.drivers.llm.model import ModelLLM
from tests.loopback import LoopbackHandler, LoopbackServer, make_completion, serving

pytest.importorskip("pydantic_ai")

KEY = "sk-very-secret-0123456789"


@dataclass(frozen=True)
class Reply:
    """What the server does with one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0  # bytes that are promised and never sent
    hang: bool = False


def make_reply(text: str | None, *, finish: str = "stop") -> Reply:
    return Reply(body=json.dumps(make_completion(text, finish=finish)).encode())


def make_error(status: int, message: str = "no", *, code: str = "", after: str = "") -> Reply:
    """An error as OpenAI sends it."""
    body = json.dumps({"error": {"message": message, "code": code or None}}).encode()
    return Reply(status, body, {"Retry-After": after} if after else {})


class Server(LoopbackServer):
    """Gives each request the next reply, the last one for ever, and records the requests."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.replies: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = f"{self.url}/v1"


class Handler(LoopbackHandler):
    server: Server

    def answer(self) -> None:
        request = self.read_json()
        with self.server.lock:
            self.server.requests.append(request)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.server.paths.append(self.path)
            reply = self.server.replies.pop(0) if len(self.server.replies) > 1 else self.server.replies[0]
        if reply.hang:
            self.server.closing.wait(60)
        else:
            headers = {"Content-Type": "application/json", **reply.headers}
            self.reply(reply.status, headers, reply.body, missing=reply.missing)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as server:
        yield server


@pytest.fixture
def without_waits() -> Iterator[None]:
    """Retries without waits."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@pytest.fixture
def waits() -> Iterator[list[float]]:
    """The waits between attempts."""
    seen: list[float] = []

    def note(details: RetryDetails) -> None:
        seen.append(details.wait_for)

    set_on_retry_hooks([note])
    yield seen
    set_on_retry_hooks(None)


def test_everything_reaches_the_wire(server: Server) -> None:
    server.replies = [make_reply("Anna does.")]
    llm = ModelLLM("openai:small", url=server.url, api_key=KEY)
    assert llm.complete("Who?", system="Be brief.", max_tokens=42, temperature=0.25) == "Anna does."
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    (request,) = server.requests
    assert request["model"] == "small"
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    assert (request["max_tokens"], request["temperature"]) == (42, 0.25)
    assert llm.usage == Usage(calls=1, input_tokens=11, output_tokens=5)
    assert llm.name == f"openai:small@{server.url}"


def test_without_a_system_prompt_none_is_sent(server: Server) -> None:
    server.replies = [make_reply("yes")]
    llm = ModelLLM("llama3:8b", url=server.url)
    llm.complete_many(["a", "b"], max_tokens=7)
    assert [request["model"] for request in server.requests] == ["llama3:8b"] * 2  # the colon is part of the name
    assert {len(request["messages"]) for request in server.requests} == {1}
    assert {request["temperature"] for request in server.requests} == {0.0}
    assert {request["max_tokens"] for request in server.requests} == {7}


def test_a_key_of_the_environment_is_not_sent_to_another_address(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    server.replies = [make_reply("yes")]
    for name in ("small", "ollama:small"):
        ModelLLM(name, url=server.url).complete("a")
    assert KEY not in str(server.headers)


def test_ollama_is_found_where_it_usually_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    monkeypatch.setattr("clew.drivers.llm.model.OLLAMA_URL", server.url)
    server.replies = [make_reply("yes")]
    assert ModelLLM("ollama:llama3.2:1b").complete("a") == "yes"
    assert server.requests[0]["model"] == "llama3.2:1b"


@pytest.mark.slow
def test_a_full_provider_is_asked_again_when_it_says(server: Server, waits: list[float]) -> None:
    server.replies = [make_error(429, after="1"), make_reply("now")]
    llm = ModelLLM("m", url=server.url)
    assert llm.complete("a") == "now"
    assert waits == [1.0]
    assert len(server.requests) == 2
    assert llm.usage.calls == 1


def test_without_a_hint_the_waits_grow(server: Server, waits: list[float]) -> None:
    server.replies = [make_error(503), make_reply("now")]
    assert ModelLLM("m", url=server.url).complete("a") == "now"
    assert 0.5 <= waits[0] <= 1.5


def test_a_wait_that_is_too_long_is_left_to_the_caller(server: Server) -> None:
    server.replies = [make_error(429, after="3600")]
    with pytest.raises(DriverFailed, match="try again in 3600 s"):
        ModelLLM("m", url=server.url).complete("a")
    assert len(server.requests) == 1


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.usefixtures("without_waits")
def test_a_provider_in_trouble_for_ever(server: Server, retries: int) -> None:
    server.replies = [make_error(500, "the database is on fire")]
    llm = ModelLLM("m", url=server.url, retries=retries)
    with pytest.raises(DriverFailed, match=r"the database is on fire.*try again later") as caught:
        llm.complete("a")
    assert ("tried 4 times" in str(caught.value)) == (retries == 3)
    assert len(server.requests) == retries + 1
    assert llm.usage == Usage()


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (make_error(400, "too long"), "rejected the request .400: too long.; retrying will not help"),
        (make_error(401, "bad key"), "rejected the key .401"),
        (make_error(403, "not yours"), "rejected the key .403"),
        (make_error(404, "no model m"), "was not found .404: no model m.; check the model's name"),
        (make_error(429, "pay", code="insufficient_quota"), "the account's quota is used up"),
        (
            Reply(body=b"<html>hello</html>", headers={"Content-Type": "text/html"}),
            "cannot be read.*check that its addr",
        ),
        (Reply(body=b'{"choices": [{"mess'), "cannot be read"),
        (Reply(body=b"[]"), "m@http"),
        (Reply(body=b'{"choices": []}'), "cannot be read"),
    ],
)
def test_what_another_try_cannot_help_is_not_tried_again(server: Server, reply: Reply, wanted: str) -> None:
    server.replies = [reply]
    with pytest.raises(DriverFailed, match=wanted) as caught:
        ModelLLM("m", url=server.url).complete("a")
    assert len(server.requests) == 1
    assert type(caught.value) is DriverFailed


@pytest.mark.usefixtures("without_waits")
def test_half_an_answer_is_asked_for_again(server: Server) -> None:
    whole = make_reply("all of it")
    server.replies = [Reply(body=whole.body[:40], missing=200), whole]
    assert ModelLLM("m", url=server.url).complete("a") == "all of it"
    server.replies = [Reply(body=whole.body[:40], missing=200)]
    with pytest.raises(DriverFailed, match=r"broke off.*try again.*tried 2 times"):
        ModelLLM("m", url=server.url, retries=1).complete("a")


@pytest.mark.usefixtures("without_waits")
def test_a_provider_that_hangs_or_is_not_there(server: Server) -> None:
    server.replies = [Reply(hang=True)]
    with pytest.raises(DriverFailed, match=r"no answer within 1 s; try again later.*tried 2 times"):
        ModelLLM("m", url=server.url, timeout=1.0, retries=1).complete("a")
    for _ in range(100):  # the client may give up before a busy server has read the request
        if len(server.requests) == 2:
            break
        sleep(0.05)
    assert len(server.requests) == 2
    with pytest.raises(DriverFailed, match="cannot be reached"):
        ModelLLM("m", url="http://127.0.0.1:9/v1", retries=1).complete("a")


def test_an_empty_or_cut_answer_is_an_answer(server: Server) -> None:
    server.replies = [make_reply(""), make_reply("the first ha", finish="length")]
    llm = ModelLLM("m", url=server.url)
    assert [llm.complete("a"), llm.complete("a")] == ["", "the first ha"]
    assert llm.usage.calls == 2


@pytest.mark.usefixtures("without_waits")
@pytest.mark.slow
def test_the_key_is_never_shown(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    llm = ModelLLM("m", url=server.url, api_key=KEY, retries=1)
    texts = [repr(llm), str(vars(llm))]
    long = "x" * 290 + KEY  # shortening must not leave half of it
    bodies = [Reply(status, body) for status in (401, 500) for body in (KEY.encode(), long.encode())]
    for reply in [
        make_error(401, f"wrong key {KEY}"),
        make_error(500, f"Bearer {KEY}"),
        Reply(body=KEY.encode()),
        *bodies,
    ]:
        server.replies = [reply]
        with pytest.raises(DriverFailed) as caught:
            llm.complete("a")
        error: BaseException | None = caught.value
        while error is not None:
            texts += [str(error), repr(error)]
            error = error.__cause__ or error.__context__
        (failure, _) = llm.complete_many(["a", "b"])
        assert isinstance(failure, LLMFailure)
        texts.append(failure.reason)
    texts += [record.getMessage() + str(vars(record)) for record in caplog.records]
    assert any("stamina" in text for text in texts)
    for text in texts:
        assert "very-secret" not in text


def test_an_address_that_holds_a_key_is_refused() -> None:
    for url in (f"http://me:{KEY}@localhost/v1", f"http://localhost/v1?key={KEY}", f"file:///{KEY}", f"http://[{KEY}"):
        with pytest.raises(SettingsError, match="url") as caught:
            ModelLLM("m", url=url)
        assert KEY not in str(caught.value)


def test_numbers_that_cannot_be() -> None:
    with pytest.raises(SettingsError, match="timeout is 0"):
        ModelLLM("m", url="http://localhost:1/v1", timeout=0)
    with pytest.raises(SettingsError, match="retries is -1"):
        ModelLLM("m", url="http://localhost:1/v1", retries=-1)


def test_what_is_no_longer_used_leaves_nothing_behind(server: Server) -> None:
    before = set(threading.enumerate())
    server.replies = [make_reply("yes")]
    llm = ModelLLM("m", url=server.url)
    llm.complete_many(["a", "b", "c"])
    del llm
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("clew")]
