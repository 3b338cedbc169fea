"""The filter options of every command that reads: what they exclude is in no output."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clew import Document, Engine, Message
from tests.surface.cli.conftest import Clew

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SAID = [
    ("ana", "The canary merger is signed", {"board"}),
    ("ben", "Who tells the harbour?", None),
    ("eva", "I tell the harbour, see plan.md", None),
]


@pytest.fixture
def clew(fresh: Clew) -> Clew:
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        engine.add_messages(
            Message(text, author=author, channel="ops", id=f"m{n}", at=NOON + timedelta(hours=n), access=access)
            for n, (author, text, access) in enumerate(SAID)
        )
        engine.add_documents([Document("plan", "The canary plan of the harbour", uri="plan.md", access={"board"})])
    return fresh


COMMANDS = [
    ("list",),
    ("status",),
    ("search", "canary harbour"),
    ("context", "canary harbour"),
    ("ask", "who tells the harbour?"),
    ("explain", "canary harbour"),
    ("why-not", "harbour", "m1"),
    ("window", "ops", "canary harbour"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.slow
def test_labels_bound_every_command(clew: Clew, command: tuple[str, ...], form: tuple[str, ...]) -> None:
    whole, part = clew(*command, *form), clew(*command, *form, "--access", "staff")
    assert part.code in (0, 1), part.err
    assert "canary" not in (part.out + part.err).replace("canary harbour", "")
    assert command[0] in ("ask", "why-not", "explain", "status") or "canary" in whole.out.replace("canary harbour", "")


def test_labels_come_from_front_matter_and_json_lines(fresh: Clew) -> None:
    (fresh.folder / "pay.md").write_text("---\naccess: [hr]\n---\n# Pay\n\nSalaries rise in May.\n")
    (fresh.folder / "own.md").write_text("---\naccess: board\n---\n# Own\n\nSalaries of the board.\n")
    said = {
        "text": "salaries are late",
        "author": "ana",
        "channel": "ops",
        "at": "2026-04-01T12:00:00Z",
        "access": ["hr"],
    }
    (fresh.folder / "chat.jsonl").write_text(json.dumps(said) + "\n")
    assert fresh("add", "pay.md", "own.md", "chat.jsonl").code == 0
    found = {who: fresh.hits("salaries", "--access", who) for who in ("hr", "board", "staff")}
    assert len(found["hr"]) == 2
    assert "pay.md" in found["hr"]
    assert (found["board"], found["staff"]) == (["own.md"], [])
    (fresh.folder / "bad.jsonl").write_text(json.dumps({**said, "access": "hr"}) + "\n")
    assert "access that is not a list of labels" in fresh("add", "bad.jsonl").err


def test_counts_are_of_what_is_admitted(clew: Clew) -> None:
    assert clew("status", "--json").json["chunks"] == 4
    assert clew("status", "--access", "staff", "--json").json["chunks"] == 2
    assert clew("status", "--author", "ben", "--json").json["chunks"] == 1


@pytest.mark.parametrize(
    "option", [("--access", "staff"), ("--author", "ben"), ("--since", "2026-04-01T12:30"), ("--kind", "thread")]
)
def test_a_thread_is_read_as_far_as_it_is_admitted(clew: Clew, option: tuple[str, str]) -> None:
    done = clew("read", "ops/m0", *option) if option[0] == "--kind" else clew("read", _thread_id(clew), *option)
    assert done.code == 0, done.err
    assert ("canary" in done.out) == (option[0] == "--kind")
    assert "Who tells the harbour?" in done.out


def test_a_style_is_measured_on_what_is_admitted(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.query.messages.style.MIN_MESSAGES", 1)
    assert clew("profile", "ana").code == 0
    hidden = clew("profile", "ana", "--access", "staff")
    assert hidden.code != 0
    assert "ana" not in hidden.err.replace("'ana'", "")


def test_links_are_those_that_are_admitted(clew: Clew) -> None:
    thread = _thread_id(clew)
    assert [record["uri"] for record in clew("links", thread, "--json").json["cites"]] == ["plan.md"]
    assert clew("links", thread, "--access", "staff", "--json").json["cites"] == []


def test_a_citation_of_what_is_not_admitted_is_gone(clew: Clew) -> None:
    answer = clew("context", "canary plan", "--document", "plan.md", "--json")
    (clew.folder / "answer.json").write_text(answer.out)
    file = str(Path(clew.folder, "answer.json"))
    assert clew("check", file, "--json").code == 0
    assert clew("check", file, "--access", "staff", "--json").code == 8


def _thread_id(clew: Clew) -> str:
    documents = clew("list", "--kind", "thread", "--json").json["documents"]
    return str(documents[0]["id"])
