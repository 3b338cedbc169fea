"""Names and forms that help: suggestions, folders and patterns, questions from a pipe, messages, groups, settings."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clew import Document, Engine, Message
from clew.core.settings import Settings
from clew.surface.settings.load import list_setting_keys, load_invocation
from tests.surface.cli.conftest import Clew


@pytest.fixture
def chats(fresh: Clew) -> Clew:
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        engine.add_documents([Document("plan", "The soup plan", uri="plan.md", access={"board"})])
        engine.add_messages(
            [
                Message("Soup is on", author="Ben Okafor", channel="ops", id="m1"),
                Message("Soup was on", author="ben", channel="general", id="m2"),
                *(Message(f"Soup {n}", author=f"p{n}", channel=f"room{n}", id=f"r{n}") for n in range(5)),
            ]
        )
    return fresh


@pytest.mark.parametrize(
    "command", [("list",), ("status",), ("search", "soup"), ("context", "soup"), ("ask", "soup?"), ("explain", "soup")]
)
def test_an_unknown_author_is_told_by_every_command(chats: Clew, command: tuple[str, ...]) -> None:
    done = chats(*command, "--author", "Ben")
    assert done.code == 0
    assert (done.out + done.err).count("there is no author 'Ben'; did you mean ben, Ben Okafor?") == 1


def test_unknown_kinds_and_channels_are_told_and_do_not_spoil_json(chats: Clew) -> None:
    done = chats("list", "--kind", "pdf", "--json")
    assert (done.json, done.err) == ({"documents": []}, "there is no kind 'pdf'; there are page, thread\n")
    done = chats("search", "soup", "--channel", "zzz", "--json")
    assert done.json["reason"] == "there is no channel 'zzz'; there are general, ops, room0 and 4 more"
    done = chats("search", "soup", "--channel", "ops", "--channel", "opps")
    assert "Soup is on" in done.out
    assert "there is no channel 'opps'; did you mean ops?" in done.err


def test_a_document_outside_the_filter_is_not_suggested(chats: Clew) -> None:
    assert "did you mean plan.md" in chats("search", "soup", "--document", "plam.md").err
    hidden = chats("search", "soup", "--document", "plam.md", "--access", "staff")
    assert hidden.code == 3
    assert "plan.md" not in hidden.err


def test_documents_by_folder_and_pattern(fresh: Clew) -> None:
    fresh("add", "pages")
    assert len(fresh("list", "--document", "pages", "--json").json["documents"]) == 4
    assert set(fresh.hits("keys", "--document", "pages/*.py")) == {"tide.py"}
    assert fresh("drop", "*.md").out == "3 dropped\n"
    assert fresh("drop", "pages/").out == "1 dropped\n"


def test_a_dry_run_of_drop_names_what_would_go(fresh: Clew) -> None:
    fresh("add", "pages")
    shown = fresh("drop", "*.md", "--dry-run").out.splitlines()
    assert shown[0] == "would drop 3 documents"
    assert sorted(line.strip() for line in shown[1:]) == ["pages/lunch.md", "pages/oncall.md", "pages/vault.md"]
    assert fresh("drop", "pages/lunch.md", "--dry-run").out.startswith("would drop 1 document\n")
    assert len(fresh("drop", "pages", "--dry-run", "--json").json["documents"]) == 4
    assert fresh("drop", "m1", "--messages", "--dry-run").code == 2
    assert len(fresh("list", "--json").json["documents"]) == 4


@pytest.mark.parametrize(
    ("words", "answer", "out"),
    [
        (["*.md"], "n", ""),
        (["*.md"], "y", "3 dropped"),
        (["*.md", "--yes"], "", "3 dropped"),
        (["pages/lunch.md"], "", "1 dropped"),  # a name: there is nothing to ask
    ],
)
@pytest.mark.slow
def test_a_pattern_of_drop_asks_on_a_terminal(fresh: Clew, words: list[str], answer: str, out: str) -> None:
    fresh("add", "pages")
    terminal = "import sys; sys.stdin.isatty = sys.stderr.isatty = lambda: True; "
    script = f"{terminal}from clew.surface.cli.app import main; main()"
    command = [sys.executable, "-c", script, "drop", *words]
    done = subprocess.run(command, input=f"{answer}\n", capture_output=True, text=True, check=False, cwd=fresh.folder)
    assert done.stdout.strip() == out, done.stderr
    assert ("Drop 3 documents?" in done.stderr) is ("pages/oncall.md" in done.stderr) is bool(answer)
    assert (done.returncode == 0) is bool(out)


def test_a_question_comes_from_standard_input(chats: Clew) -> None:
    for command in ("search", "context", "ask", "explain"):
        done = chats(command, "-", stdin="is the soup on?\n")
        assert done.code == 0, done.err
        assert "soup" in done.out.lower()
    piped, given = chats("search", "-", "--json", stdin="soup plan\n"), chats("search", "soup plan", "--json")
    assert piped.json["hits"] == given.json["hits"] != []
    assert (chats("ask", "-", stdin=" \n").code, chats("search", "-", stdin="").code) == (4, 4)
    assert chats("search", "-", "--conversation", "-", stdin="x").code == 2


def test_a_message_is_read_by_its_id(chats: Clew) -> None:
    assert chats("read", "m1").out == "Ben Okafor, undated: Soup is on\n"
    shown = chats("read", "m2", "--json").json
    assert (shown["id"], shown["channel"], shown["author"], shown["text"]) == ("m2", "general", "ben", "Soup was on")
    assert chats("read", "m1", "--author", "ben").code == 3
    missing = chats("read", "plam.md")
    assert (missing.code, "did you mean plan.md" in missing.err) == (3, True)


def test_a_status_of_a_part_tells_no_size_and_no_change(chats: Clew) -> None:
    whole, part = chats("status").out, chats("status", "--channel", "ops").out
    assert re.search(r"^size +[\d.]+ kB, after \d+ changes$", whole, re.MULTILINE)
    assert "size" not in part
    assert "changes" not in part
    shown = chats("status", "--channel", "ops", "--json").json
    assert (shown["bytes"], shown["change"], shown["documents"]) == (None, None, 1)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("serach", "search"),
        ("remove", "drop"),
        ("ls", "list"),
        ("statsu", "status"),
        ("reed", "read"),
        ("info", "status"),
    ],
)
def test_an_unknown_command_has_a_suggestion(fresh: Clew, given: str, meant: str) -> None:
    done = fresh(given, "x")
    assert done.code == 2
    assert f"no such command '{given}'. Did you mean '{meant}'" in done.err
    assert fresh("Why_Not", "--help").code == 0
    assert "Did you mean" not in fresh("zzzzzz").err


def test_config_init_writes_every_setting_and_what_was_chosen(fresh: Clew) -> None:
    done = fresh("config", "init", "--path", "store", "--embedder", "hashed:64")
    assert (done.code, done.out) == (0, "clew.toml written; remove the # before a line to set it\n")
    text = Path("clew.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == {"path": "store", "embedder": {"name": "hashed:64"}, **empty_tables()}
    assert all(f"{name.rpartition('.')[2]} " in text for name in list_setting_keys())
    started = load_invocation(environ={}, overrides={"embedder.name": ""})
    assert (Path(started.path).name, started.settings) == ("store", Settings())
    again = fresh("config", "init")
    assert (again.code, "--force" in again.err) == (2, True)
    assert fresh("config", "init", "--force", "--json").json == {"file": "clew.toml"}
    uncommented = "\n".join(
        line.removeprefix("# ") if " = " in line and "=5" not in line else line for line in text.splitlines()
    )
    Path("clew.toml").write_text(uncommented.replace('path = "store"', ""), encoding="utf-8")
    assert fresh("config", "show").code == 0
    assert fresh("config", "init", "--config", "no/such/folder.toml").code == 6


def empty_tables() -> dict[str, dict[str, str]]:
    """The tables of settings, all of whose lines are comments."""
    tables = {name.rpartition(".")[0] for name in list_setting_keys()} - {"", "embedder"}
    return {name: {} for name in tables}


def test_models_are_listed_with_what_they_need(fresh: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = fresh("models", "--json").json
    assert listed["chosen"]["embedder.name"] == "hashed"
    names = {(each["setting"], each["name"]) for each in listed["models"]}
    assert {("embedder.name", "bge-small"), ("reranker.name", "overlap"), ("llm.name", "local:smollm2")} <= names
    monkeypatch.setattr("clew.drivers.models.find_spec", lambda _: None)
    needs = {each["name"]: each["needs"] for each in fresh("models", "--json").json["models"]}
    assert needs["wordllama"] == 'pip install "clew[fast]"'
    assert needs["hashed"] == ""
    out = fresh("models")
    assert out.out.splitlines()[0].split("\t") == ["setting", "name", "from", "needs", "about"]
    assert "embedder.name is hashed" in out.err
