"""Text that forges nothing: what a terminal, a pipe and JSON get of control and bidi characters, and lines that fit."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from clew import Document, Engine, Message
from clew.surface.cli.app import app
from clew.surface.cli.table import clean_text, escape_json, fit_table, shorten, wrap_words
from tests.surface.cli.conftest import Clew

EVIL = "\x1b[31mred \x9b33m\u202eback\u2066 \x07\r\x00\x85 end"
ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f]")
OURS = re.compile(r"\x1b\[[0-9;]*m")  # the colours of the program itself


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


Show = Callable[..., tuple[str, str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Runs a command line on a terminal of 100 columns; what it shows on stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")

    def run(*words: str) -> tuple[str, str]:
        out, err = Terminal(), Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            app(list(words), standalone_mode=False)
        return OURS.sub("", out.getvalue()), OURS.sub("", err.getvalue())

    return run


@pytest.fixture
def evil(fresh: Clew) -> Clew:
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        meta = {"author": f"eve{EVIL}", "channel": f"ops{EVIL}"}
        engine.add_documents([Document("d1", f"Soup {EVIL} is served.", uri=f"so{EVIL}up.md", title=EVIL, meta=meta)])
        engine.add_messages([Message(f"Soup {EVIL}", author=f"ben{EVIL}", channel="ops", id="m1")])
    return fresh


COMMANDS = [
    ("list",),
    ("read", "d1"),
    ("read", "m1"),
    ("search", "soup"),
    ("context", "soup"),
    ("ask", "what is served?"),
    ("explain", "soup"),
    ("why-not", "soup", "d1"),
    ("drop", "soupp.md"),
    ("read", "s\x1b[31m\u202e.md"),
    ("links", "d1"),
    ("window", "ops", "soup"),
    ("profile", "nobody"),
    ("search", "soup", "--author", "eve"),
    ("search", "soup", "--channel", "opsi"),
    ("erase", "d1", "--dry-run"),
    ("check", "no\x1b[31mthing\u202e"),
    ("jobs", "show", "\x1b[31m"),
]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.slow
def test_no_output_has_control_characters(
    evil: Clew, show: Show, command: tuple[str, ...], form: tuple[str, ...]
) -> None:
    shown, told = show(*command, *form)
    told = told.replace("Searching …\r\x1b[K", "")  # our own, and only on a terminal
    assert shown + told
    assert not ESCAPES.search(shown + told)
    assert not BIDI.search(shown + told)
    piped = evil(*command, *form)
    assert not ESCAPES.search(piped.out + piped.err)
    if form and command[0] != "drop":
        assert json.loads(shown)
    if form and command == ("read", "d1"):
        assert json.loads(shown)["title"] == EVIL  # in JSON nothing is lost
        assert not BIDI.search(piped.out)


def test_a_traceback_and_the_log_are_cleaned_too(evil: Clew, show: Show) -> None:
    _, told = show("read", "s\x1b[31m\u202e.md", "--verbose")
    assert "Traceback" in told
    assert not ESCAPES.search(told)
    assert not BIDI.search(told)


def test_a_text_in_a_pipe_keeps_what_belongs_to_it() -> None:
    assert clean_text("a\r\nb\tc\u2067שלום\u2069\x1b[0m", terminal=False) == "a\nb\tc\u2067שלום\u2069\ufffd[0m"
    assert clean_text("a\u2067b\u2069\u200e", terminal=True) == "a\ufffdb\ufffd"
    assert clean_text("plain", terminal=True) == "plain"


def test_escaped_json_means_the_same() -> None:
    text = json.dumps({"a": EVIL + "\U000e0041\u2028é"}, ensure_ascii=False)
    assert json.loads(escape_json(text)) == json.loads(text)
    assert "é" in escape_json(text)
    assert not ESCAPES.search(escape_json(text))


@pytest.mark.skipif(sys.platform == "win32", reason="stderr of the process is read by its number")
def test_warnings_of_other_packages_are_not_shown() -> None:
    program = """
import logging, sys, warnings
from clew.surface.cli import app
real = app.app
def warn(**options):
    warnings.warn("mind the gap", FutureWarning)
    logging.getLogger("other").warning("mind the step")
    real(["--version"], **options)
app.app = warn
app.main()
"""
    env = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("clew ")


@pytest.mark.parametrize("command", [("list",), ("collections",), ("jobs",), ("ask", "soup", "-k", "3")], ids=" ".join)
def test_nothing_is_broken_in_a_word_at_a_hundred_columns(fresh: Clew, show: Show, command: tuple[str, ...]) -> None:
    words = " ".join(f"word{n}" for n in range(40))
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        for n in range(3):
            uri = "/".join(f"folder{n}{level}" for level in range(12)) + ".md"
            engine.add_documents([Document(f"d{n}", f"Soup {n} is served. {words}", uri=uri, title=f"Soup {words}")])
        engine.enqueue_add(*(f"pages/{n}{'long' * 9}.md" for n in range(3)))
    shown, _ = show(*command)
    assert shown
    known = {*words.split(), "Soup", "is", "served."}
    for line in shown.splitlines():
        assert len(line) <= 100 or " " not in line.strip()
        cut = [word for word in re.findall(r"\bword\d+(?=\s|$)", line) if word not in known]
        assert not cut
    if command == ("list",):
        assert shown.split()[:3] == ["kind", "chunks", "title"]
        assert "…" in shown


def test_columns_are_left_out_and_texts_are_shortened_until_a_table_fits() -> None:
    columns, rows = ("id", "chunks", "title", "uri"), [("0123456789", "12", "A title of words", "a/b/c/d.md")]
    assert fit_table(columns, rows, width=60, texts={"title": 16, "uri": 10}) == [
        "id          chunks  title             uri",
        "0123456789      12  A title of words  a/b/c/d.md",
    ]
    assert fit_table(columns, rows, width=40, optional=("id",), texts={"title": 16, "uri": 10}) == [
        "chunks  title             uri",
        "    12  A title of words  a/b/c/d.md",
    ]
    narrow = fit_table(columns, [("0", "1", "A title of many words", "a/b/c/d.md")], width=38, texts={"title": 16})
    assert narrow[1] == "0        1  A title of…     a/b/c/d.md"
    wide = [("A title of words", "a b/c d/e f.md")]
    tight = fit_table(("title", "uri"), wide, width=26, texts={"title": 16, "uri": 14})
    assert tight[1] == "A title of…   …/c d/e f.md"
    assert (shorten("a/b/c.md", 5), shorten("日本語です", 5), shorten("ab", 5)) == ("…c.md", "日本…", "ab")


def test_words_are_wrapped_and_code_is_not() -> None:
    assert wrap_words("one two three", width=8) == "one two\nthree"
    assert wrap_words("two three", width=8, column=6) == "\ntwo\nthree"
    assert wrap_words(" two", width=8, column=3) == " two"
    assert wrap_words("    x = 1  # a long line", width=8) == "    x = 1  # a long line"
    assert wrap_words("unbreakable-word a", width=8) == "unbreakable-word\na"
