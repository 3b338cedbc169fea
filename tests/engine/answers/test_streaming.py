"""Answers as they are written, by a provider on loopback: tokens, steps and verdicts in order, faults, early ends."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from clew import (
    AnswerEvent,
    Document,
    Engine,
    FinalEvent,
    ScriptedLLM,
    SentenceEvent,
    StepEvent,
    StepStartEvent,
    TokenEvent,
    VerdictEvent,
)
from clew.core.errors import DriverFailed
from clew.core.settings import AnswerConfig, IngestionConfig, RerankerConfig, Settings
from clew.drivers.llm.model import ModelLLM
from clew.drivers.llm.turns import TurnText
from tests.drivers.llm.test_stream import (
    END,
    Reply,
    Server,
    encode_event,
    make_error,
    make_event,
    make_stream,
    server,
)

__all__ = ["server"]  # the fixture

PLAIN = Settings(ingestion=IngestionConfig(), reranker=RerankerConfig(name="overlap"))
QUESTION = "who rotates the signing keys?"
FIRST = "Signing keys are rotated every 90 days by Dan [1]. "
SECOND = "The vault is green [1]."
PAGE = Document("vault", "Signing keys are rotated every 90 days by Dan. The vault is green.", title="Vault")


def make_delta(delta: dict[str, Any]) -> bytes:
    return encode_event({"choices": [{"index": 0, "finish_reason": None, "delta": delta}]})


def make_call(name: str, arguments: dict[str, Any], *, said: str = "", at: int = 0) -> tuple[bytes, ...]:
    """The deltas of a tool call as OpenAI streams them: its name, then its arguments in fragments."""
    text = json.dumps(arguments)
    first = {"index": at, "id": f"c{at}", "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [text[:4], text[4:9], text[9:]]
    return (
        make_delta({"role": "assistant", "content": said or None}),
        make_delta({"tool_calls": [first]}),
        *(make_delta({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in pieces),
    )


def make_tool_turn(*calls: bytes) -> Reply:
    return Reply((*calls, make_event(finish="tool_calls"), *END[1:]))


SEARCH = make_tool_turn(*make_call("search_knowledge_base", {"query": "signing keys"}, said="Let me look."))


@pytest.fixture
def engine(server: Server) -> Iterator[Engine]:
    llm = ModelLLM("m", url=server.url, timeout=2.0, retries=1)
    with Engine.open(":memory:", embedder="hashed", llm=llm, settings=PLAIN) as engine:
        engine.add_documents([PAGE])
        yield engine


def name_events(events: list[AnswerEvent]) -> list[str]:
    """The kinds of the events, tokens in a row once."""
    names = [type(each).__name__.removesuffix("Event") for each in events]
    return [name for at, name in enumerate(names) if name != "Token" or at == 0 or names[at - 1] != "Token"]


def join_tokens(events: list[AnswerEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, TokenEvent))


def test_an_agent_tells_its_steps_its_tokens_and_then_the_verdicts(server: Server, engine: Engine) -> None:
    server.replies = [
        SEARCH,
        make_stream("Signing keys are ", "rotated every 90 days by Dan [1]. ", "The moon is red."),
    ]
    events = list(engine.agent_stream(QUESTION))
    assert name_events(events) == [
        *("Token", "StepStart", "Step", "Token", "Sentence", "Verdict", "Sentence", "Verdict", "Final")
    ]
    assert join_tokens(events) == f"Let me look.{FIRST}The moon is red."
    start = next(each for each in events if isinstance(each, StepStartEvent))
    assert (start.name, start.arguments) == ("search_knowledge_base", {"query": "signing keys", "limit": 5})
    step = next(each for each in events if isinstance(each, StepEvent))
    assert (step.step.name, step.step.out) == ("search_knowledge_base", 1)
    verdicts = [each.sentence for each in events if isinstance(each, VerdictEvent)]
    assert [each.verdict for each in verdicts] == ["supported", "unsupported"]
    last = events[-1]
    assert isinstance(last, FinalEvent)
    assert last.answer.sentences == tuple(verdicts)
    assert "".join(each.text for each in events if isinstance(each, SentenceEvent)).strip() == last.answer.text
    assert [request["stream"] for request in server.requests] == [True, True]
    assert (last.answer.usage.calls, last.answer.usage.input_tokens) == (2, 22)
    shown = server.requests[1]["messages"][-1]
    assert shown["role"] == "tool"  # the fragments came together
    assert "rotated every 90 days" in shown["content"]


def test_two_calls_in_one_turn_are_both_made(server: Server, engine: Engine) -> None:
    both = make_call("search_knowledge_base", {"query": "signing keys"})
    both += make_call("retrieve_full_document", {"title": "Vault"}, at=1)
    server.replies = [make_tool_turn(*both), make_stream(FIRST)]
    events = list(engine.agent_stream(QUESTION))
    assert sorted(each.step.name for each in events if isinstance(each, StepEvent)) == [
        *("retrieve_full_document", "search_knowledge_base")
    ]


def test_tokens_come_while_the_model_still_writes(server: Server, engine: Engine) -> None:
    go = threading.Event()
    for turns, open_stream in (([], engine.ask_stream), ([SEARCH], engine.agent_stream)):
        go.clear()
        server.replies = [*turns, Reply((make_event("Signing keys "), go, make_event(FIRST[13:]), *END))]
        stream = open_stream(QUESTION)
        first = next(each for each in stream if isinstance(each, TokenEvent) and "Signing" in each.text)
        assert first.text == "Signing keys "
        go.set()
        rest = list(stream)
        assert isinstance(rest[-1], FinalEvent)
        assert rest[-1].answer.text == "Signing keys are rotated every 90 days by Dan. [1]"


def test_a_sentence_is_judged_before_the_next_one_ends(server: Server, engine: Engine) -> None:
    go = threading.Event()
    server.replies = [Reply((make_event(FIRST), make_event("The "), go, make_event(SECOND[4:]), *END))]
    stream = engine.ask_stream(QUESTION)
    judged = next(each for each in stream if isinstance(each, VerdictEvent))
    assert (judged.sentence.text, judged.sentence.verdict) == (
        "Signing keys are rotated every 90 days by Dan.",
        "supported",
    )
    go.set()
    assert isinstance(list(stream)[-1], FinalEvent)


@pytest.mark.parametrize("verb", ["ask_stream", "agent_stream"])
def test_a_reader_who_stops_ends_the_request(server: Server, engine: Engine, verb: str) -> None:
    endless = Reply((make_event(FIRST),), then="forever")
    server.replies = [endless] if verb == "ask_stream" else [SEARCH, endless]
    stream = getattr(engine, verb)(QUESTION)
    next(each for each in stream if isinstance(each, TokenEvent) and each.text == FIRST)
    stream.close()
    assert server.hung_up.wait(20)
    assert engine.opened.llm is not None
    requests = 1 if verb == "ask_stream" else 2
    assert len(server.requests) == requests
    for _ in range(1000):
        if engine.opened.llm.usage.calls == requests:  # what was written is paid for
            break
        threading.Event().wait(0.01)
    assert engine.opened.llm.usage.calls == requests


@pytest.mark.parametrize(
    ("broken", "wanted"),
    [
        (Reply((make_event(FIRST), make_event("The vault")), then="break"), "broke off after 60 characters"),
        (Reply((make_event(FIRST), make_event("The vault"))), "broke off after 60 characters"),
        (Reply((make_event(FIRST), make_event("The vault")), then="hang"), "no answer within 2 s"),
        (Reply((make_event(FIRST), b"data: {not json\n\n", *END)), "broke off after 51 characters"),
        (Reply((make_event(FIRST), encode_event({"error": {"message": "disk full", "code": 500}}))), "disk full"),
    ],
    ids=["break", "end", "hang", "json", "error"],
)
@pytest.mark.slow
def test_an_agent_whose_model_breaks_off_does_not_look_complete(
    server: Server, engine: Engine, broken: Reply, wanted: str
) -> None:
    server.replies = [SEARCH, broken]
    last = list(engine.agent_stream(QUESTION))[-1]
    assert isinstance(last, FinalEvent)
    assert wanted in last.answer.fault
    assert last.answer.parts[0].chosen == "Signing keys are rotated every 90 days by Dan."  # what the tools found
    assert len(server.requests) == 2  # a turn that has begun is not paid for twice
    assert last.answer.usage.calls == 2
    assert last.answer.usage.output_tokens > 5  # and is counted
    server.replies = [broken]
    with pytest.raises(DriverFailed, match="broke off"):
        list(engine.agent_stream(QUESTION))  # nothing was found


def test_a_turn_that_breaks_off_in_a_tool_call_fails(server: Server, engine: Engine) -> None:
    half = make_call("search_knowledge_base", {"query": "signing keys"})[:3]
    server.replies = [SEARCH, Reply(half, then="break")]
    last = list(engine.agent_stream(QUESTION))[-1]
    assert isinstance(last, FinalEvent)
    assert "broke off" in last.answer.fault


def test_a_turn_that_has_not_begun_is_tried_again(server: Server, engine: Engine) -> None:
    server.replies = [make_error(429, "slow down"), SEARCH, Reply(then="break"), make_stream(FIRST)]
    events = list(engine.agent_stream(QUESTION))
    assert join_tokens(events) == f"Let me look.{FIRST}"
    assert isinstance(events[-1], FinalEvent)
    assert (events[-1].answer.fault, len(server.requests)) == ("", 4)


def test_a_sentence_that_is_removed_has_a_verdict_and_no_sentence() -> None:
    settings = Settings(ingestion=PLAIN.ingestion, reranker=PLAIN.reranker, answer=AnswerConfig(unsupported="remove"))
    llm = ScriptedLLM(f"{FIRST}The moon is red.")
    with Engine.open(":memory:", embedder="hashed", llm=llm, settings=settings) as engine:
        engine.add_documents([PAGE])
        events = list(engine.ask_stream(QUESTION))
    assert name_events(events) == ["Token", "Sentence", "Verdict", "Token", "Verdict", "Final"]
    assert [each.sentence.shown for each in events if isinstance(each, VerdictEvent)] == [True, False]


@pytest.mark.parametrize("answer", [FIRST + SECOND, json.dumps({"answer": f"{FIRST}\n“{SECOND}” 😀"})])
def test_a_model_without_tool_calls_of_its_own_streams_its_answer(answer: str) -> None:
    call = '{"tool": "search_knowledge_base", "arguments": {"query": "signing keys"}}'
    with Engine.open(":memory:", embedder="hashed", llm=ScriptedLLM([call, answer]), settings=PLAIN) as engine:
        engine.add_documents([PAGE])
        events = list(engine.agent_stream(QUESTION))
    assert name_events(events)[:3] == ["StepStart", "Step", "Token"]
    assert join_tokens(events) == (json.loads(answer)["answer"] if answer.startswith("{") else answer)
    assert sum(isinstance(each, TokenEvent) for each in events) > 5


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ('{"answer": "a \\"b\\" \\u00e9 \\ud83d\\ude00 \\n c"}', 'a "b" é 😀 \n c'),
        ('```json\n{"answer": "yes"}\n```', "yes"),
        ('{"tool": "x", "arguments": {"answer": "no"}}', ""),
        ("plain {text}", "plain {text}"),
        ('{"answer": "cut \\', "cut "),
        ('{"answer": "half \\ud83d', "half "),
        ('{"answer": "lone \\ud83d and more text"}', "lone \ud83d and more text"),
    ],
)
def test_the_answer_in_a_turn_however_it_is_cut(turn: str, said: str) -> None:
    for size in range(1, len(turn) + 1):
        text = TurnText()
        assert "".join(text.feed(turn[at : at + size]) for at in range(0, len(turn), size)) == said
