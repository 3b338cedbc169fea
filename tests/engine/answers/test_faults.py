"""ask and agent over a provider on loopback that fails: what is tried again, what is said, and that work is kept."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clew import Document, Engine
from clew.core.errors import DriverFailed
from clew.core.settings import IngestionConfig, RerankerConfig, Settings
from clew.core.trace import Trace
from clew.drivers.llm.model import ModelLLM
from tests.drivers.llm.test_stream import (
    DONE,
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


@pytest.fixture
def engine(server: Server) -> Iterator[Engine]:
    llm = ModelLLM("m", url=server.url, timeout=2.0, retries=1)
    with Engine.open(":memory:", embedder="hashed", llm=llm, settings=PLAIN) as engine:
        engine.add_documents(
            [Document("vault", "Signing keys are rotated every 90 days by Dan. The vault is green.", title="Vault")]
        )
        yield engine


# -- ask

BROKEN = [
    Reply((make_event(FIRST), make_event("The vault is")), then="break"),
    Reply((make_event(FIRST), make_event("The vault is"))),
    Reply((make_event(FIRST), make_event("The vault is"), b"data: {not json\n\n", *END)),
    Reply((make_event(FIRST), make_event("The vault is")), then="hang"),
    Reply(
        (
            make_event(FIRST),
            make_event("The vault is"),
            encode_event({"error": {"message": "the disk is full", "code": 500}}),
        )
    ),
]


@pytest.mark.parametrize("half", BROKEN, ids=["break", "end", "json", "hang", "error"])
def test_what_was_said_before_a_stream_broke_is_kept_and_told(server: Server, engine: Engine, half: Reply) -> None:
    server.replies = [half, make_stream("never asked for")]
    heard: list[str] = []
    answer = engine.ask(QUESTION, on_sentence=heard.append)
    assert answer.text == "Signing keys are rotated every 90 days by Dan. [1]"
    assert "".join(heard).strip() == answer.text
    assert answer.found
    assert "broke off after" in answer.fault
    assert [(each.text, each.reason) for each in answer.removed] == [("The vault is", "the model broke off here")]
    assert len(server.requests) == 1  # what was paid for is not paid for twice
    assert answer.usage.calls == 1
    assert answer.usage.input_tokens > 0


def test_a_stream_that_broke_right_behind_a_sentence_loses_nothing(server: Server, engine: Engine) -> None:
    server.replies = [Reply((make_event(FIRST), make_event(SECOND)), then="break")]
    answer = engine.ask(QUESTION)
    assert answer.text.endswith("The vault is green. [1]")
    assert answer.fault
    assert answer.removed == ()


@pytest.mark.parametrize("text", ["Signing keys are", "The moon is cheese [1]. And"])
def test_a_stream_that_broke_before_anything_held_is_a_failure(server: Server, engine: Engine, text: str) -> None:
    server.replies = [Reply((make_event(text),), then="break")]
    with pytest.raises(DriverFailed, match="broke off after"):
        engine.ask(QUESTION)
    assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [make_stream(), make_stream(" ", "\n")], ids=["nothing", "space"])
def test_an_empty_answer_is_a_failure_and_no_answer(server: Server, engine: Engine, reply: Reply) -> None:
    server.replies = [reply]
    with pytest.raises(DriverFailed, match="the model gave an empty answer"):
        engine.ask(QUESTION)


@pytest.mark.slow
def test_on_the_command_line_half_an_answer_is_shown_and_fails(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.surface.cli.app import app

    monkeypatch.chdir(tmp_path)
    environ = {"CLEW_EMBEDDER__NAME": "hashed", "CLEW_RERANKER__NAME": "overlap", "CLEW_LLM__RETRIES": "0"}
    (tmp_path / "vault.md").write_text("# Vault\n\nSigning keys are rotated every 90 days by Dan.\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["add", "vault.md"], env=environ).exit_code == 0
    asked = {**environ, "CLEW_LLM__NAME": "m", "CLEW_LLM__URL": server.url}
    server.replies = [BROKEN[0]]
    done = CliRunner().invoke(app, ["ask", QUESTION], env=asked)
    assert done.exit_code == 6
    assert done.stdout.startswith("Signing keys are rotated every 90 days by Dan. [1]")
    assert "clew: the answer is incomplete: the answer broke off after" in done.stderr
    as_json = CliRunner().invoke(app, ["ask", QUESTION, "--json"], env=asked)
    assert as_json.exit_code == 6
    assert "broke off" in json.loads(as_json.stdout)["fault"]
    chat = CliRunner().invoke(app, ["chat"], env=asked, input=f"{QUESTION}\n")
    assert chat.exit_code == 0
    assert "the answer is incomplete" in chat.stderr
    server.replies = [Reply((make_event(f"{FIRST}The vault is"), make_event(finish="length"), DONE))]
    cut = CliRunner().invoke(app, ["ask", QUESTION], env=asked)
    assert cut.exit_code == 6
    assert "cut off at 600 tokens" in cut.stderr
    server.replies = [make_stream()]
    empty = CliRunner().invoke(app, ["ask", QUESTION], env=asked)
    assert (empty.exit_code, empty.stdout) == (6, "")
    assert "empty answer" in empty.stderr
    assert "No passage clearly answers" not in empty.stdout


@pytest.mark.parametrize(
    ("finish", "wanted"), [("length", "cut off at 600 tokens"), ("content_filter", "content filter")]
)
@pytest.mark.slow
def test_a_reply_that_was_cut_off_says_so(server: Server, engine: Engine, finish: str, wanted: str) -> None:
    server.replies = [Reply((make_event(f"{FIRST}The pump is"), make_event(finish=finish), DONE))]
    answer = engine.ask(QUESTION)
    assert wanted in answer.fault
    assert answer.text == "Signing keys are rotated every 90 days by Dan. [1]"
    assert [each.text for each in answer.removed] == ["The pump is"]
    server.replies = [SEARCH, turn(text=f"{FIRST}The pump is", finish=finish)]
    assert wanted in engine.agent(QUESTION).fault


# -- the agent


def turn(*, text: str | None = None, call: tuple[str, dict[str, Any]] | None = None, finish: str = "stop") -> Reply:
    """A turn of a model with tools, as OpenAI sends it."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    choice = {"index": 0, "finish_reason": "tool_calls" if call else finish, "message": message}
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})


SEARCH = turn(call=("search_knowledge_base", {"query": "signing keys"}))


def test_an_agent_goes_on_after_a_provider_in_trouble(server: Server, engine: Engine) -> None:
    server.replies = [SEARCH, make_error(429, "slow down"), turn(text=FIRST)]
    seen: list[Trace] = []
    answer = engine.agent(QUESTION, on_step=seen.append)
    assert (answer.found, answer.fault, answer.usage.calls) == (True, "", 2)
    assert [each.name for each in seen] == ["search_knowledge_base"]  # the tool is not called again


@pytest.mark.parametrize(
    ("failing", "wanted", "tries"),
    [
        (make_error(429, "slow down"), "reached its rate limit", 2),
        (make_error(500, "oh no"), "has a server error", 2),
        (Reply(then="hang"), "no answer within 2 s", 2),
        (Reply(then="break"), "broke off", 2),
        (Reply((b'{"choices": [{"mess',), headers={"Content-Type": "application/json"}), "cannot be read", 1),
        (make_error(401, "who are you"), "rejected the key", 1),
    ],
    ids=["429", "500", "timeout", "half", "json", "key"],
)
@pytest.mark.slow
def test_what_an_agent_found_before_its_model_failed_is_kept(
    server: Server, engine: Engine, failing: Reply, wanted: str, tries: int
) -> None:
    server.replies = [SEARCH, failing]
    answer = engine.agent(QUESTION)
    assert answer.parts[0].chosen == "Signing keys are rotated every 90 days by Dan."
    assert wanted in answer.fault
    assert answer.reason == ""
    assert len(server.requests) == 1 + tries
    assert answer.usage.calls == 1  # what failed is not counted
    server.replies = [failing]
    with pytest.raises(DriverFailed, match=wanted):
        engine.agent(QUESTION)  # nothing was found yet


def test_an_empty_turn_of_an_agent_is_no_answer(server: Server, engine: Engine) -> None:
    server.replies = [SEARCH, turn(text="")]
    answer = engine.agent(QUESTION)
    assert answer.reason.startswith("the model's reply could not be used")
    assert answer.parts[0].chosen == "Signing keys are rotated every 90 days by Dan."
    assert len(server.requests) < 8


def test_arguments_that_are_no_json_are_told_to_the_model(server: Server, engine: Engine) -> None:
    assert isinstance(SEARCH.parts[0], bytes)
    bad = SEARCH.parts[0].replace(rb"{\"query\": \"signing keys\"}", rb"{\"query\": ")
    assert bad != SEARCH.parts[0]
    server.replies = [Reply((bad,), headers=SEARCH.headers), SEARCH, turn(text=FIRST)]
    answer = engine.agent(QUESTION)
    assert answer.found
    assert answer.usage.calls == 3


@pytest.mark.slow
def test_a_try_that_is_made_again_prints_nothing(server: Server) -> None:
    server.replies = [make_error(503, "busy", "0"), make_stream("well")]
    code = (
        "from clew import drivers\n"
        "from clew.core.settings import LLMConfig\n"
        f"llm = drivers.make_language_model(LLMConfig(name='m', url={server.url!r}, retries=1))\n"
        "print(''.join(llm.stream('how are you?')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("well\n", "")
    assert len(server.requests) == 2
