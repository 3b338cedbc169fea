"""One verb that writes, one answer: by the engine, the command line, the client and as a tool."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clew import Client, Document, Engine, Message, NotFound
from clew.core.trace import Trace
from clew.surface.cli.app import app
from clew.surface.to_json import answer_to_json, to_json
from tests.surface.server.conftest import serving
from tests.surface.server.test_mcp import connect_http
from tests.surface.server.test_search import drop_times

PAGE = Document(
    "tea", "# Tea\n\nTea is at four.", title="Tea", uri="tea.md", meta={"tags": ("drinks",)}, access={"all"}
)
SAID = [
    Message("Who makes tea?", author="ada", channel="kitchen", id="t1"),
    Message("The kettle is broken since Tuesday.", author="ben", channel="kitchen", id="t2"),
    Message("The harvest festival needs volunteers.", author="eve", channel="hall", id="t3"),
]
QUESTION = "when is tea?"


@dataclass(frozen=True)
class Writing:
    """A call of a verb that writes: by the engine, the client, and the command line (words, and what is typed)."""

    engine: Callable[[Engine, Path], Any]
    client: Callable[[Client, Path], Any]
    cli: tuple[str, ...] = ()
    typed: str | None = None


CALLS: dict[str, Writing] = {  # in this order, each on what those before it left
    "add_documents": Writing(
        lambda engine, _: engine.add_documents([PAGE]), lambda client, _: client.add_documents([PAGE])
    ),
    "add_messages": Writing(lambda engine, _: engine.add_messages(SAID), lambda client, _: client.add_messages(SAID)),
    "add": Writing(
        lambda engine, file: engine.add(file),
        lambda client, file: client.add(file),
        ("add", "FILE"),
    ),
    "read": Writing(lambda engine, _: engine.read("tea"), lambda client, _: client.read("tea"), ("read", "tea")),
    "chat": Writing(
        lambda engine, _: answer_to_json(engine.chat("work").ask(QUESTION), trace=Trace("chat")),
        lambda client, _: client.chat("work", QUESTION),
        ("chat", "--session", "work"),
        QUESTION,
    ),
    "chat again": Writing(
        lambda engine, _: answer_to_json(engine.chat("work").ask("and soup?"), trace=Trace("chat")),
        lambda client, _: client.chat("work", "and soup?"),
        ("chat", "--session", "work"),
        "and soup?",
    ),
    "drop_messages": Writing(
        lambda engine, _: {"dropped": engine.drop_messages("t1")},
        lambda client, _: {"dropped": client.drop_messages("t1")},
        ("drop", "--messages", "t1"),
    ),
    "erase dry": Writing(
        lambda engine, _: engine.erase(author="ben", dry_run=True),
        lambda client, _: client.erase(author="ben", dry_run=True),
        ("erase", "--author", "ben", "--dry-run"),
    ),
    "erase": Writing(
        lambda engine, _: engine.erase(author="ben"),
        lambda client, _: client.erase(author="ben"),
        ("erase", "--author", "ben", "--yes"),
    ),
    "drop": Writing(
        lambda engine, _: {"dropped": engine.drop("tea.md")},
        lambda client, _: {"dropped": client.drop("tea.md")},
        ("drop", "tea.md"),
    ),
    "list": Writing(
        lambda engine, _: {"documents": list(engine.list())},
        lambda client, _: {"documents": list(client.list())},
        ("list",),
    ),
    "doctor": Writing(lambda engine, _: engine.doctor(), lambda client, _: client.doctor(), ("doctor",)),
}
OWN = ("at", "created", "updated", "bytes")  # what differs from one collection to another


def drop_own(value: Any) -> Any:
    """The JSON without times and sizes."""
    if isinstance(value, dict):
        return {key: drop_own(each) for key, each in value.items() if key not in OWN}
    return [drop_own(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(params=["folder", "postgres"])
def empty_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "folder" else request.getfixturevalue("postgres_database")()


@contextmanager
def typing(place: str, collection: str) -> Iterator[Callable[..., Any]]:
    """A function that runs a command on a collection and reads the JSON that it prints."""

    def run(*words: str, typed: str | None = None) -> Any:
        options = ["--path", place, "--collection", collection, "--embedder", "hashed", "--json"]
        done = CliRunner().invoke(app, [*words, *options], input=typed)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    yield run


@pytest.mark.slow
def test_writing_is_the_same_everywhere(empty_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "soup.md"
    file.write_text("# Soup\n\nSoup is hot.")
    monkeypatch.chdir(tmp_path)
    replies: dict[str, list[Any]] = {}
    with Engine.open(empty_place, collection="local", embedder="hashed") as engine:
        replies["local"] = [call.engine(engine, file) for call in CALLS.values()]
    with Engine.open(empty_place, collection="typed", embedder="hashed") as engine:
        engine.add_documents([])
    with typing(empty_place, "typed") as run:
        replies["typed"] = []
        for call in CALLS.values():
            if call.cli:
                words = [str(file) if word == "FILE" else word for word in call.cli]
                replies["typed"].append(run(*words, typed=call.typed))
            else:
                with Engine.open(empty_place, collection="typed", embedder="hashed") as engine:
                    replies["typed"].append(call.engine(engine, file))
    with (
        serving(empty_place, folder=str(tmp_path / "server")) as running,
        Client(running.address, collection="served") as client,
    ):
        replies["served"] = [call.client(client, file) for call in CALLS.values()]
        assert client.sessions() == ["work"]
        kept = client.session("work")
        assert [turn["role"] for turn in kept["messages"]] == ["user", "assistant"] * 2
        assert client.drop_session("work") == 1
        with pytest.raises(NotFound, match="no chat 'work'"):
            client.session("work")
    expected = [drop_own(drop_times(to_json(each))) for each in replies["local"]]
    for surface in ("typed", "served"):
        for name, given, wanted in zip(CALLS, replies[surface], expected, strict=True):
            shown = drop_own(drop_times(to_json(given)))
            assert {key: shown[key] for key in wanted} == wanted, (surface, name)


@pytest.mark.slow
def test_jobs_are_cancelled_and_collections_dropped_everywhere(empty_place: str, tmp_path: Path) -> None:
    source = "http://127.0.0.1:1/x"
    for name in ("local", "typed"):
        with Engine.open(empty_place, collection=name, embedder="hashed") as engine:
            engine.add_documents([PAGE])
            job = engine.enqueue_add(source)
            if name == "local":
                cancelled = [engine.cancel_job(job.id).state]
        if name == "typed":
            with typing(empty_place, name) as run:
                cancelled.append(run("jobs", "cancel", job.id)["state"])
    assert cancelled == ["cancelled"] * 2
    with (
        serving(empty_place, folder=str(tmp_path / "server")) as running,
        Client(running.address, collection="served") as client,
    ):
        client.add_documents([PAGE])
        client.feedback("where is tea?", good=True)
        (sent,) = client.enqueue_add(source)
        assert client.cancel_job(sent["id"])["state"] in ("cancelled", "cancelling", "done")
        added = asyncio.run(add_by_tool(running.address, "served"))
        assert client.read(added["id"])["text"] == "# Cake\n\nCake is sweet."
        client.drop(added["id"])
        dropped: list[Any] = [client.drop_collection("served")]
        with pytest.raises(NotFound):
            client.status()
        assert [each["name"] for each in client.collections()] == ["local", "typed"]
        assert not client.add_documents([PAGE])["failed"]  # and it can be made again
    with typing(empty_place, "default") as run:
        dropped.append(run("collections", "drop", "typed", "--yes"))
    gone = Engine.drop_collection(empty_place, "local")
    for each in (*dropped, {"dropped": to_json(gone.collection), "left": [*gone.left]}):
        assert {name: each["dropped"][name] for name in ("documents", "chunks", "embedder")} == {
            "documents": 1,
            "chunks": 1,
            "embedder": "hashed",
        }
        assert each["left"] == []


async def add_by_tool(address: str, collection: str) -> Any:
    async with connect_http(address, collection=collection) as client:
        return (await client.call_tool("add", {"title": "Cake", "text": "# Cake\n\nCake is sweet."})).structured_content
