"""chat through the command line, with a pipe for a person."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from typer.testing import CliRunner

from clew import Engine, Message
from clew.core.errors import DriverFailed
from clew.drivers.llm.model import ModelLLM
from clew.drivers.llm.scripted import ScriptedLLM
from clew.surface.cli.app import app
from tests.surface.cli.conftest import Clew, Done, UseLLM

KEYS = "Signing keys are rotated every ninety days by Dan."

pytestmark = pytest.mark.usefixtures("no_weights")


def run_chat(*lines: str, options: tuple[str, ...] = (), ending: str = "\n") -> Done:
    result = CliRunner().invoke(app, ("chat", *options), input="\n".join(lines) + ending)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


@pytest.mark.slow
def test_answers_with_sources_that_keep_their_numbers(clew: Clew) -> None:
    done = run_chat(
        "who rotates the signing keys?", "", "when is soup served at noon?", "who rotates the signing keys?"
    )
    assert done.code == 0, done.err
    first = done.out.index(f"{KEYS} [1]")
    soup = done.out.index("Soup is served at noon. ")
    number = done.out[soup:].split("[")[1].split("]")[0]
    assert number != "1"
    assert f"[{number}] Lunch  pages/lunch.md" in done.out
    assert done.out.index(f"{KEYS} [1]", first + 1) > soup
    assert not any(line.startswith("> ") for line in done.out.splitlines())  # a pipe gets no prompt


def test_the_end_of_the_input_and_quit_end_it(clew: Clew) -> None:
    assert run_chat(ending="").code == 0
    done = run_chat("/quit", "who rotates the signing keys?")
    assert (done.code, done.out) == (0, "")
    assert run_chat("/quit now", "who rotates the signing keys?").out == ""
    assert run_chat("/help", ending="").out.startswith("Type a question.")  # no newline at the end


def test_commands(clew: Clew) -> None:
    done = run_chat("/sources", "who rotates the signing keys?", "/sources", "/read 1", "/read\t1\twho rotates keys?")
    assert done.code == 0, done.err
    assert done.out.startswith("no documents shown yet\n")
    assert "[1] Vault  pages/vault.md" in done.out
    assert "Secrets live in the vault." in done.out  # the whole page
    assert done.out.count(KEYS) > 1  # in the whole page, and as the part that answers, without the tags for a model
    assert "<CONTENT>" not in done.out


def test_a_thread_is_read_with_who_and_when(fresh: Clew) -> None:
    at = datetime(2026, 4, 1, 9, tzinfo=UTC)
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        engine.add_messages(
            [Message("The kittiwakes are back at the pier.", author="eva", channel="ops", id="k", at=at)]
        )
    done = run_chat("where are the kittiwakes?", "/read 1")
    assert "ops/k  eva, 2026-04-01 09:00" in done.out
    assert "\neva, 2026-04-01 09:00: The kittiwakes are back at the pier.\n" in done.out


@pytest.mark.slow
def test_a_strategy_holds_from_then_on(clew: Clew) -> None:
    done = run_chat("/strategy", "/strategy lexical", "/strategy", "/strategy psychic", "who rotates?")
    assert "current: from the settings; available: semantic, lexical" in done.out
    assert "current: lexical; available: semantic" in done.out
    assert "clew: there is no strategy 'psychic'. There are: semantic, " in done.err
    shape = run_chat("/strategy lexical", "who rotates the signing keys?", options=("--json",)).json
    assert "'strategy': 'lexical'" in str(shape["trace"])
    assert run_chat(options=("--strategy", "psychic")).code == 3


def test_errors_are_shown_and_the_conversation_goes_on(clew: Clew, use_llm: UseLLM) -> None:
    use_llm(ScriptedLLM([DriverFailed("the model is asleep"), f"{KEYS} [1]"]))
    lines = ("who rotates the signing keys?", "/read 99", "/read x", "/fly", "who rotates the signing keys?")
    done = run_chat(*lines)
    assert done.code == 0
    assert done.err.splitlines()[:4] == [
        "clew: the model is asleep",
        "clew: Document 99 not found",
        "clew: /read needs the number of a document; /sources lists them",
        "clew: there is no command /fly; /help lists them",
    ]
    assert done.out.startswith(KEYS)


def test_what_is_unexpected_is_shown_too(clew: Clew, use_llm: UseLLM) -> None:
    def broken(prompt: str) -> str:
        raise ZeroDivisionError("oh")

    use_llm(ScriptedLLM(broken))
    done = run_chat("who rotates the signing keys?", "/sources")
    assert done.code == 0
    assert "clew: unexpected ZeroDivisionError: oh" in done.err
    assert "[1] " in done.out


def test_an_interrupt_ends_an_answer_and_not_the_conversation(clew: Clew, use_llm: UseLLM) -> None:
    said: Iterator[str | BaseException] = iter([KeyboardInterrupt(), f"{KEYS} [1]"])

    def model(prompt: str) -> str:
        line = next(said)
        if isinstance(line, BaseException):
            raise line
        return line

    llm = ScriptedLLM(model)
    use_llm(llm)
    done = run_chat("when is soup served?", "who rotates the signing keys?")
    assert done.code == 0
    assert "interrupted" in done.err
    assert done.out.startswith(KEYS)
    assert "soup" not in llm.requests[-1].prompt.partition("The conversation so far")[2]  # it was never answered


def test_history_is_told_and_searched_with(clew: Clew, use_llm: UseLLM) -> None:
    llm = ScriptedLLM(["Soup is served at noon [1].", "more on the soup that is served?", "NOT FOUND"])
    use_llm(llm)
    shown = run_chat("when is the soup served?", "more on that?", options=("--json",)).out.splitlines()
    assert len(shown) == 2
    assert "The conversation so far:\nuser: when is the soup served?\nassistant: Soup is served at noon. [1]" in (
        llm.requests[2].prompt
    )
    assert "E-4417 means no soup" in llm.requests[2].prompt  # found by what was said before
    assert [json.loads(line)["searched"] for line in shown] == ["", "more on the soup that is served?"]


@pytest.mark.slow
def test_a_conversation_of_a_name_is_kept(fresh: Clew) -> None:
    fresh("add", "pages")
    run_chat("when is soup served at noon?", options=("--session", "work"))
    done = run_chat("/sources", options=("--session", "work"))
    assert done.out.startswith("[1] ")
    assert run_chat("/sources").out == "no documents shown yet\n"
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        engine.drop(*(record.id for record in engine.list()))
    gone = run_chat("/sources", "/read 1", options=("--session", "work"))
    assert "(deleted)" in gone.out
    assert "Document 1 not found" in gone.err


def test_an_agent_searches_by_the_strategy_that_was_chosen(clew: Clew, use_llm: UseLLM) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse([ToolCallPart("search_knowledge_base", {"query": "signing keys", "limit": 1})])
        return ModelResponse([TextPart(f"{KEYS} [1]")])

    use_llm(ModelLLM.wrap(FunctionModel(model)))
    lines = ("who rotates the signing keys?", "/strategy lexical", "who rotates the signing keys?")
    first, second = run_chat(*lines, options=("--agent", "--json")).out.splitlines()
    assert '"strategy": "lexical"' not in first
    assert '"strategy": "lexical"' in second


def test_an_agent_without_a_model_says_so(clew: Clew) -> None:
    done = run_chat("who?", options=("--agent",))
    assert done.code == 0
    assert "an agent needs a language model" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.slow
def test_on_a_terminal_an_interrupt_at_the_prompt_changes_nothing(collection: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    env = {**kept, "CLEW_EMBEDDER__NAME": "hashed", "CLEW_RERANKER__NAME": "overlap", "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "chat"],
        cwd=collection,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""

    def until(wanted: bytes, *, sent: int = 0) -> None:
        """Reads on; a signal is sent again, since one that comes before the prompt waits for a key is not heard."""
        nonlocal shown
        end = time.monotonic() + 60
        while wanted not in shown and time.monotonic() < end:
            if sent:
                process.send_signal(sent)
            if select.select([ours], [], [], 0.5)[0]:
                shown += os.read(ours, 65536)
        assert wanted in shown, shown

    try:
        until(b"> ")
        until(b"/quit to quit", sent=signal.SIGINT)
        os.write(ours, b"who rotates the signing keys?\n")
        until(b"pages/vault.md")
        os.write(ours, b"/quit\n")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
