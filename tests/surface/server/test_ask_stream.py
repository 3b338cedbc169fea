"""Answers over HTTP while a provider on loopback writes them: tokens, steps, verdicts, faults, a reader who leaves."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import Client, DriverFailed, Engine
from clew.drivers.llm.model import ModelLLM
from tests.drivers.llm.test_stream import DONE, Reply, Server, make_event, make_stream, server
from tests.engine.answers.test_streaming import make_call, make_tool_turn
from tests.surface.server.conftest import Running, serving

__all__ = ["server"]  # the fixture

Event = tuple[str, dict[str, Any]]
QUESTION = "who rotates the vault key?"
SENTENCE = "Dan rotates the vault key on Monday [1]. "
SEARCH = make_tool_turn(*make_call("search_knowledge_base", {"query": "vault key"}))


@pytest.fixture
def running(folder: Path, server: Server) -> Iterator[Running]:
    with serving(folder) as running:
        engine = running.server.engines.get("default")
        llm = ModelLLM("m", url=server.url, timeout=5, retries=0)
        running.server.engines._engines["default"] = Engine(replace(engine.opened, llm=llm))
        yield running


def read_events(stream: Iterator[Event]) -> tuple[list[Event], str]:
    """The events of a stream, and the fault at its end."""
    seen: list[Event] = []
    try:
        seen.extend(stream)
    except DriverFailed as fault:
        return seen, str(fault)
    return seen, ""


def shorten(events: list[Event]) -> list[str]:
    names = [name for name, _ in events]
    return [name for at, name in enumerate(names) if name != "token" or at == 0 or names[at - 1] != "token"]


def test_the_events_of_a_model_and_of_an_agent(running: Running, server: Server) -> None:
    server.replies = [make_stream("Dan rotates ", "the vault key on Monday [1]. ", "He paints the ferry.")]
    with Client(running.address) as client:
        events = list(client.ask_stream(QUESTION))
        assert shorten(events) == ["token", *("sentence", "verdict") * 2, "citation", "answer"]
        assert "".join(data["text"] for name, data in events if name == "token") == f"{SENTENCE}He paints the ferry."
        server.replies = [SEARCH, make_stream("Dan rotates ", "the vault key on Monday [1].")]
        events = list(client.agent_stream(QUESTION))
    assert shorten(events) == ["step_start", "step", "token", "sentence", "verdict", "citation", "answer"]
    assert events[0][1] == {"name": "search_knowledge_base", "arguments": {"query": "vault key", "limit": 5}}
    assert events[1][1]["name"] == "search_knowledge_base"
    verdict = next(data for name, data in events if name == "verdict")
    assert events[-1][1]["sentences"] == [verdict]
    assert verdict["verdict"] == "supported"


@pytest.mark.parametrize("agent", [False, True])
@pytest.mark.parametrize(
    ("half", "wanted"),
    [
        (Reply((make_event(SENTENCE), make_event("He also")), then="break"), "broke off after"),
        (Reply((make_event(f"{SENTENCE}He also"), make_event(finish="length"), DONE)), "cut off at 600 tokens"),
    ],
    ids=["break", "length"],
)
@pytest.mark.slow
def test_half_an_answer_ends_in_an_error(
    running: Running, server: Server, half: Reply, wanted: str, *, agent: bool
) -> None:
    server.replies = [SEARCH, half] if agent else [half]
    with Client(running.address) as client:
        ask = client.agent_stream if agent else client.ask_stream
        seen, fault = read_events(ask(QUESTION))
        assert wanted in fault
        assert seen[-1][0] == "answer"
        assert wanted in seen[-1][1]["fault"]
        server.replies = [Reply((make_event("He"),), then="break")]
        seen, fault = read_events(ask(QUESTION))
        assert "broke off" in fault
        assert shorten(seen) == ["token"]  # and no answer


@pytest.mark.parametrize("agent", [False, True])
def test_a_reader_who_leaves_ends_the_request_to_the_model(running: Running, server: Server, *, agent: bool) -> None:
    endless = Reply((make_event(SENTENCE),), then="forever")
    server.replies = [SEARCH, endless] if agent else [endless]
    with Client(running.address) as client:
        stream: Any = client.agent_stream(QUESTION) if agent else client.ask_stream(QUESTION)
        assert any(name == "token" for name, _ in stream)
        stream.close()
        assert server.hung_up.wait(20)


@pytest.mark.slow
def test_an_incomplete_completion_is_not_called_whole(running: Running, server: Server) -> None:
    server.replies = [Reply((make_event(f"{SENTENCE}He also"), make_event(finish="length"), DONE))]
    body = {"model": "clew", "messages": [{"role": "user", "content": QUESTION}]}
    whole = running.post("/v1/chat/completions", body).json()
    assert whole["choices"][0]["finish_reason"] == "length"
    assert "cut off" in whole["clew"]["fault"]
    streamed = running.post("/v1/chat/completions", {**body, "stream": True}).text
    assert '"finish_reason":"length"' in streamed.replace(" ", "")
    server.replies = [make_stream(SENTENCE)]
    assert running.post("/v1/chat/completions", body).json()["choices"][0]["finish_reason"] == "stop"
