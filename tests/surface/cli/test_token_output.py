"""Tokens on a terminal: shown as they come, and replaced by the checked sentences so that nothing is left of them."""

import io
import os
import re
import select
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from clew.core.answer import AnswerSentence
from clew.core.events import AnswerEvent, SentenceEvent, StepStartEvent, TokenEvent, VerdictEvent
from clew.surface.cli.commands.chat import SentencePrinter
from tests.drivers.llm.test_stream import END, Reply, Server, make_event, server
from tests.engine.answers.test_streaming import make_call, make_tool_turn

__all__ = ["server"]  # the fixture

_CODES = re.compile(r"\x1b\[(\d*)([A-Za-z])|(.|\n)", re.DOTALL)


def draw_screen(output: str, *, width: int) -> str:
    """What a terminal shows after an output."""
    rows, row, column = [""], 0, 0
    for count, code, character in _CODES.findall(output):
        if code == "A":
            row -= int(count or 1)
        elif code == "C":
            column += int(count or 1)
        elif code in ("J", "K"):
            rows[row] = rows[row][:column]
            rows = rows[: row + 1] if code == "J" else rows
        elif character == "\r":
            column = 0
        elif character == "\n":
            row, column = row + 1, 0
        elif character:
            if column == width:
                row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
            rows[row] = rows[row][:column].ljust(column) + character + rows[row][column + 1 :]
            column += 1
        rows += [""] * (row + 1 - len(rows))
    return "\n".join(each.rstrip() for each in rows).rstrip()


class Terminal(io.StringIO):
    """A terminal of 30 columns and 12 rows."""

    def isatty(self) -> bool:
        return True

    def handle(self, printer: SentencePrinter, event: AnswerEvent) -> None:
        with redirect_stdout(self):  # for each event, since pytest sets its own before a test
            printer.handle_event(event)

    def draw(self) -> str:
        return draw_screen(self.getvalue(), width=30)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "12")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_the_chosen_part_of_a_passage_is_bold(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    event = SentenceEvent("Ovens are cleaned weekly. The kiln is fired on Friday. It cools. [1]", (26, 54))
    terminal.handle(SentencePrinter(), event)
    assert "\x1b[1mThe\nkiln is fired on Friday.\x1b[0m" in terminal.getvalue()
    assert terminal.draw() == "Ovens are cleaned weekly. The\nkiln is fired on Friday. It\ncools. [1]"
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    plain.handle(SentencePrinter(), event)
    assert "\x1b" not in plain.getvalue()


REPLY = (
    "Signing keys are rotated by Dan every ninety days [1]. The moon is made of green cheese (2). "
    "日本語の文です [3]。 Fin."
)
SENTENCES = [
    ("Signing keys are rotated by Dan every ninety days.", "Signing keys are rotated by Dan every ninety days. [1] "),
    ("The moon is made of green cheese.", ""),  # removed
    ("日本語の文です。", "日本語の文です。 [2] "),
    ("Fin.", "Fin. [not supported]"),
]


@pytest.mark.parametrize("size", [1, 3, 7, 200])
def test_the_checked_sentences_take_the_place_of_the_tokens(size: int, terminal: Terminal) -> None:
    printer = SentencePrinter()
    for at in range(0, len(REPLY), size):
        terminal.handle(printer, TokenEvent(REPLY[at : at + size]))
    assert " ".join(terminal.draw().split()).startswith(REPLY[:60])
    assert "\x1b[2m" in terminal.getvalue()
    for text, shown in SENTENCES:
        if shown:
            terminal.handle(printer, SentenceEvent(shown))
        terminal.handle(printer, VerdictEvent(AnswerSentence(text, "supported", shown=bool(shown))))
        assert ("moon" in terminal.draw()) == text.startswith("Signing")
    assert " ".join(terminal.draw().split()) == " ".join("".join(shown for _, shown in SENTENCES).split())


def test_what_comes_before_a_step_is_erased(terminal: Terminal) -> None:
    printer = SentencePrinter()
    terminal.handle(printer, TokenEvent("I will look for the rotation of the signing keys. "))
    assert terminal.draw()
    terminal.handle(printer, StepStartEvent("search_knowledge_base"))
    assert terminal.draw() == ""


def test_a_reply_that_is_higher_than_the_terminal_can_still_be_erased(terminal: Terminal) -> None:
    printer = SentencePrinter()
    for _ in range(200):
        terminal.handle(printer, TokenEvent("word after word "))
    assert 5 < len(terminal.draw().splitlines()) < 12
    terminal.handle(printer, StepStartEvent("search_knowledge_base"))
    assert terminal.draw() == ""


def test_a_pipe_and_a_dumb_terminal_get_sentences_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    SentencePrinter().handle_event(TokenEvent("Signing keys"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    SentencePrinter().handle_event(TokenEvent("Signing keys"))
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.slow
def test_an_agent_on_a_terminal_shows_tokens_before_its_answer_is_complete(collection: Path, server: Server) -> None:
    import pty

    go = threading.Event()
    sentence = "Signing keys are rotated every ninety days by Dan [1]."
    turn = make_tool_turn(*make_call("search_knowledge_base", {"query": "signing keys"}, said="Let me look."))
    server.replies = [turn, Reply((make_event(sentence[:12]), go, make_event(sentence[12:]), *END))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    own = {"EMBEDDER__NAME": "hashed", "RERANKER__NAME": "overlap", "LLM__NAME": "m", "LLM__URL": server.url}
    env = {**kept, **{f"CLEW_{name}": value for name, value in own.items()}, "TERM": "xterm", "COLUMNS": "200"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "ask", "--agent", "who rotates the signing keys?"],
        cwd=collection,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=env,
    )
    os.close(theirs)
    shown = b""
    try:
        end = time.monotonic() + 60
        while b"Signing keys" not in shown and time.monotonic() < end:
            if select.select([ours], [], [], 0.5)[0]:
                shown += os.read(ours, 65536)
        assert b"\x1b[2mSigning keys" in shown
        assert b"ninety" not in shown
        go.set()
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux says so when the other end is closed
        pass
    finally:
        go.set()
        os.close(ours)
        _, err = process.communicate()
    assert process.returncode == 0
    screen = draw_screen(shown.decode().replace("\r\n", "\n"), width=200)
    assert screen.startswith("Signing keys are rotated every ninety days by Dan. [1]\n\n[1] Vault")
    assert "Let me look" not in screen
    assert b"search_knowledge_base(query='signing keys', limit=5): " in err
