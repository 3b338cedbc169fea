"""A conversation as the query, through the command line: from a file or standard input, alone or before a question."""

import json
import re
import shlex
from pathlib import Path

import pytest

from clew import Engine
from clew.surface.cli.files import load_conversation
from tests.surface.cli.conftest import Clew

ROWS = [
    {"timestamp": "2025-06-02T09:10:00Z", "author": "ada", "message": "And when is the soup served?"},
    {"timestamp": "2025-06-02T09:00:00Z", "author": "eve", "message": "Who rotates the signing keys in the vault?"},
]
TURNS = [{"role": "user", "content": row["message"]} for row in reversed(ROWS)]
JSON_LINES = "\n".join(map(json.dumps, ROWS)) + "\n"
VERBS = ["search", "context", "explain"]


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    file = tmp_path / "talk.jsonl"
    file.write_text(JSON_LINES, encoding="utf-8")
    return file


def test_the_whole_conversation_is_the_query(clew: Clew, talk: Path) -> None:
    with Engine.open(clew.folder / ".clew", embedder="hashed") as engine:
        expected = [hit.chunk.id for hit in engine.search(ROWS, k=3)]
    shape = clew("search", "--conversation", str(talk), "-k", "3", "--json").json
    assert [hit["chunk"]["id"] for hit in shape["hits"]] == expected
    assert shape["trace"]["steps"][0]["notes"]["strategy"] == "chunked"
    assert {Path(hit["document"]["uri"]).name for hit in shape["hits"]} >= {"vault.md", "lunch.md"}


@pytest.mark.parametrize(
    "text",
    [
        JSON_LINES,
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\n\n".join(json.dumps(row, indent=1) for row in ROWS),
        "\ufeff" + JSON_LINES.replace("\n", "\r\n"),
        json.dumps(TURNS),
        json.dumps({"model": "any", "messages": TURNS}),
        json.dumps({"messages": ROWS}),
        json.dumps([{"ts": row["timestamp"], "author_uuid": row["author"], "text": row["message"]} for row in ROWS]),
    ],
    ids=[
        "lines",
        "array",
        "indented array",
        "indented objects",
        "windows",
        "turns",
        "request body",
        "body of rows",
        "aliases",
    ],
)
def test_every_form_is_the_same_conversation(clew: Clew, talk: Path, text: str) -> None:
    expected = clew.hits("--conversation", str(talk), "-k", "4")
    found = clew("search", "--conversation", "-", "-k", "4", "--json", stdin=text.encode()).json["hits"]
    assert [Path(hit["document"]["uri"]).name for hit in found] == expected


def test_snippets_show_the_words_of_a_conversation(clew: Clew, talk: Path) -> None:
    done = clew("search", "--conversation", str(talk), "-k", "2")
    assert done.code == 0
    assert "Signing keys are rotated" in done.out


def test_words_are_a_question_after_the_conversation(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(ROWS[1:]))
    with Engine.open(clew.folder / ".clew", embedder="hashed") as engine:
        history = load_conversation(tmp_path / "keys.json")
        expected = [hit.chunk.id for hit in engine.search("how often?", k=3, history=history)]
    asked = ("search", "how often?", "-k", "3", "--json")
    shape = clew(*asked, "--conversation", str(tmp_path / "keys.json")).json
    assert [hit["chunk"]["id"] for hit in shape["hits"]] == expected
    assert shape["hits"] != clew(*asked).json["hits"]  # alone it is ambiguous
    assert shape["trace"]["steps"][0]["notes"]["strategy"] == "hybrid"


def test_context_of_a_conversation(clew: Clew, talk: Path) -> None:
    unbound = {"CLEW_CONTEXT__MIN_CHANCE": "0", "CLEW_CONTEXT__MIN_RELEVANCE": "0"}
    done = clew("context", "--conversation", str(talk), **unbound)
    assert done.code == 0
    assert "rotated every ninety days" in done.out
    assert "Soup is served at noon" in done.out


def test_explain_of_a_conversation(clew: Clew, talk: Path) -> None:
    done = clew("explain", "--conversation", str(talk), "-k", "2")
    assert done.out.startswith("a conversation of 2 messages by chunked: 2 hits\n")
    after = clew("explain", "how often?", "--conversation", str(talk), "-k", "2")
    assert after.out.startswith("'how often?' by hybrid: 2 hits\n")


def test_why_not_of_a_conversation(clew: Clew, talk: Path) -> None:
    target = "pages/tide.py"
    shape = clew("why-not", "--conversation", str(talk), target, "-k", "1", "--json").json
    assert (shape["query"], shape["target"]) == ("the conversation", target)
    assert shape["stage"] != "found"
    after = clew("why-not", "how often?", target, "--conversation", str(talk), "-k", "1", "--json").json
    assert (after["query"], after["target"]) == ("how often?", target)


@pytest.mark.parametrize("command", VERBS)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no messages"),
        ("[]", "has no messages"),
        (json.dumps([{**ROWS[0], "message": " \n"}]), "has no messages"),
        ("ada: hello", "is not JSON in line 1, column 1: "),
        (JSON_LINES + '{"role": "user", "content"', "is not JSON in line 3, column "),
        ('{"messages": []}', "has no messages"),
        ('{"messages": 3}', "message 1 cannot be read: a row has the columns messages; it must have timestamp/ts, "),
        (JSON_LINES + '"hello"', "message 3 cannot be read: a row is a str; it must be a mapping"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_a_conversation_that_cannot_be_read(clew: Clew, command: str, text: str | bytes, said: str) -> None:
    done = clew(command, "--conversation", "-", stdin=text)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith(f"clew: standard input: {said}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", VERBS)
def test_a_missing_file_and_nothing_to_ask(clew: Clew, command: str, tmp_path: Path) -> None:
    missing = clew(command, "--conversation", str(tmp_path / "none.json"))
    assert (missing.code, missing.err) == (4, f"clew: {tmp_path}/none.json: does not exist\n")
    nothing = clew(command)
    assert nothing.code == 2
    assert nothing.err == f"clew: missing argument 'QUERY', or --conversation FILE; see clew {command} --help\n"
    assert clew(command, " ", "--conversation", "-", stdin=JSON_LINES).code == 2  # an empty question


def test_why_not_without_a_target(clew: Clew, talk: Path) -> None:
    for words in (("question",), ("--conversation", str(talk))):
        done = clew("why-not", *words)
        assert (done.code, done.err) == (2, "clew: missing argument 'TARGET'; see clew why-not --help\n")
    assert clew("why-not").err.startswith("clew: missing argument 'QUERY', or --conversation FILE")


def test_the_examples_of_the_docs(fresh: Clew) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    [talk] = re.findall(r"^```jsonl\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    commands = re.findall(r"^\$ cat talk.jsonl \| clew (.+)$", page, re.MULTILINE)
    (fresh.folder / "handbook").mkdir()
    (fresh.folder / "handbook" / "index.md").write_text("# Handbook\n\nSigning keys are rotated by Dan.\n")
    fresh("add", "pages", "handbook")
    assert commands
    for command in commands:
        done = fresh(*shlex.split(command), stdin=talk)
        assert done.code == 0, command + done.err
