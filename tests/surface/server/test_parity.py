"""One verb, one answer: every surface that the table names gives what the engine gives."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clew import AsyncClient, Client, Engine, Message
from clew.core.requests import Search
from clew.core.trace import Trace
from clew.evaluation import JudgedQuestion, evaluate, list_runs, read_run, score_run
from clew.surface.cli.app import app
from clew.surface.to_json import answer_to_json, context_to_json, evaluation_to_json, hits_to_json, run_to_json, to_json
from clew.surface.verbs import search_with_reason
from tests.surface.server.conftest import Running, fill, serving
from tests.surface.server.test_mcp import connect_http
from tests.surface.server.test_search import drop_times
from tests.surface.verb_table import VERBS

QUESTION = "who rotates the vault key?"
NOW = "2026-03-03T00:00:00+00:00"


@dataclass(frozen=True)
class Reading:
    """A verb that reads: by the engine, the command line, HTTP, the client, and as a tool that gives a part of it."""

    engine: Callable[[Engine], Any]
    http: tuple[str, str, Any]
    client: Callable[[Client], Any]
    cli: tuple[str, ...] = ()
    tool: tuple[str, dict[str, Any], Callable[[Any], Any]] | None = None  # and the part of the verb's reply it gives


def cite(engine: Engine) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = to_json(answer_to_json(engine.ask(QUESTION), trace=Trace("ask")))["citations"]
    return shown


def check(engine: Engine) -> Any:
    checked = engine.check(engine.ask(QUESTION).citations)
    return {"stands": all(each.standing == "stands" for each in checked), "citations": checked}


CITATION: list[dict[str, Any]] = []  # of the collection, once it is filled
READING: dict[str, Reading] = {
    "search": Reading(
        lambda engine: search_with_reason(engine, Search(QUESTION, k=2, group_by="document")),
        ("POST", "/v1/search", {"query": QUESTION, "k": 2, "group_by": "document"}),
        lambda client: client.search(QUESTION, k=2, group_by="document"),
        ("search", QUESTION, "-k", "2", "--group-by", "document"),
        ("search", {"query": QUESTION}, lambda shown: [hit["document"]["id"] for hit in shown["hits"]]),
    ),
    "context": Reading(
        lambda engine: context_to_json(engine.context(QUESTION, tokens=300), trace=Trace("context")),
        ("POST", "/v1/context", {"query": QUESTION, "tokens": 300}),
        lambda client: client.context(QUESTION, tokens=300),
        ("context", QUESTION, "--tokens", "300"),
        ("context", {"query": QUESTION, "tokens": 300}, lambda shown: shown["text"]),
    ),
    "ask": Reading(
        lambda engine: answer_to_json(engine.ask(QUESTION), trace=Trace("ask")),
        ("POST", "/v1/ask", {"query": QUESTION}),
        lambda client: client.ask(QUESTION),
        ("ask", QUESTION),
        ("ask", {"query": QUESTION}, lambda shown: shown["text"]),
    ),
    "search_many": Reading(
        lambda engine: {
            "results": [{"hits": hits_to_json(hits)} for hits in engine.search_many([QUESTION, "soup"], k=2)]
        },
        ("POST", "/v1/search-many", {"queries": [QUESTION, "soup"], "k": 2}),
        lambda client: {"results": client.search_many([QUESTION, "soup"], k=2)},
    ),
    "explain": Reading(
        lambda engine: engine.explain(QUESTION, k=3),
        ("POST", "/v1/explain", {"query": QUESTION, "k": 3}),
        lambda client: client.explain(QUESTION, k=3),
        ("explain", QUESTION, "-k", "3"),
    ),
    "why_not": Reading(
        lambda engine: engine.why_not(QUESTION, "lunch", k=1),
        ("POST", "/v1/why-not", {"query": QUESTION, "target": "lunch", "k": 1}),
        lambda client: client.why_not(QUESTION, "lunch", k=1),
        ("why-not", QUESTION, "lunch", "-k", "1"),
    ),
    "check": Reading(check, ("POST", "/v1/check", {"citations": CITATION}), lambda client: client.check(CITATION)),
    "list": Reading(
        lambda engine: {"documents": list(engine.list())},
        ("GET", "/v1/documents", None),
        lambda client: {"documents": list(client.list())},
        ("list",),
        ("list_documents", {}, lambda shown: [each["id"] for each in shown["documents"]]),
    ),
    "read": Reading(
        lambda engine: engine.read("handbook/lunch.md"),
        ("GET", "/v1/documents/handbook/lunch.md", None),
        lambda client: client.read("handbook/lunch.md"),
        ("read", "handbook/lunch.md"),
        ("fetch", {"id": "lunch"}, lambda shown: shown["text"]),
    ),
    "links": Reading(
        lambda engine: engine.links("lunch"),
        ("GET", "/v1/documents/lunch/links", None),
        lambda client: client.links("lunch"),
        ("links", "lunch"),
    ),
    "message": Reading(
        lambda engine: engine.message("m2"),
        ("GET", "/v1/messages/m2", None),
        lambda client: client.message("m2"),
        ("read", "m2"),
    ),
    "channels": Reading(
        lambda engine: {"channels": engine.channels()},
        ("GET", "/v1/channels", None),
        lambda client: {"channels": client.channels()},
    ),
    "window": Reading(
        lambda engine: engine.window("ops", "build server", now=None),
        ("POST", "/v1/window", {"channel": "ops", "prompt": "build server"}),
        lambda client: client.window("ops", "build server"),
        ("window", "ops", "build server"),
    ),
    "profile": Reading(
        lambda engine: engine.profile("zoe"),
        ("GET", "/v1/profile/zoe", None),
        lambda client: client.profile("zoe"),
        ("profile", "zoe"),
    ),
    "style_prompt": Reading(
        lambda engine: {"person": "zoe", "message": "hi", "prompt": engine.style_prompt("zoe", "hi")},
        ("POST", "/v1/style-prompt", {"person": "zoe", "message": "hi"}),
        lambda client: {"person": "zoe", "message": "hi", "prompt": client.style_prompt("zoe", "hi")},
        ("style-prompt", "zoe", "hi"),
    ),
    "status": Reading(
        lambda engine: {"documents": engine.status().documents, "chunks": engine.status().chunks},
        ("GET", "/v1/status", None),
        lambda client: client.status(),
        ("status",),
        ("status", {}, lambda shown: shown["documents"]),
    ),
    "doctor": Reading(
        lambda engine: engine.doctor(),
        ("GET", "/v1/doctor", None),
        lambda client: client.doctor(),
        ("doctor",),
    ),
    "list_runs": Reading(
        lambda engine: {"runs": [run_to_json(run) for run in list_runs(engine)]},
        ("GET", "/v1/evaluations", None),
        lambda client: {"runs": client.list_runs()},
        ("evaluate", "list"),
    ),
    "read_run": Reading(
        lambda engine: {
            name: value
            for name, value in evaluation_to_json(score_run(read_run(engine, "last"))).items()
            if name != "file"
        },
        ("GET", "/v1/evaluations/last", None),
        lambda client: client.read_run("last"),
        ("evaluate", "show", "last"),
    ),
    "list_feedback": Reading(
        lambda engine: {"feedback": [{**each, "collection": "default"} for each in engine.list_feedback()]},
        ("GET", "/v1/feedback", None),
        lambda client: {"feedback": client.list_feedback()},
    ),
    "jobs": Reading(
        lambda engine: {"jobs": engine.jobs()},
        ("GET", "/v1/jobs", None),
        lambda client: {"jobs": client.jobs()},
        ("jobs",),
    ),
    "job": Reading(
        lambda engine: engine.jobs()[0],
        ("GET", "/v1/jobs/JOB", None),
        lambda client: client.job(client.jobs()[0]["id"]),
        ("jobs", "show", "JOB"),
    ),
    "collections": Reading(
        lambda engine: {"collections": Engine.collections(engine.opened.folder.parent)},  # type: ignore[union-attr]
        ("GET", "/v1/collections", None),
        lambda client: {"collections": client.collections()},
        ("collections",),
    ),
    "plan": Reading(
        lambda engine: engine.plan("http://127.0.0.1:1/x"),
        ("POST", "/v1/plan", {"sources": ["http://127.0.0.1:1/x"]}),
        lambda client: client.plan("http://127.0.0.1:1/x"),
        ("plan", "http://127.0.0.1:1/x"),
    ),
}
WRITING = {  # in test_parity_writing
    *("add_documents", "add_messages", "drop", "drop_messages", "enqueue_add", "add", "cancel_job"),
    *("erase", "chat", "drop_collection", "enqueue_evaluation", "feedback"),
}
ELSEWHERE = {  # in test_ask: the events, and a language model; in test_evaluations: the questions
    *("ask_stream", "agent", "agent_stream", "make_questions"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Engine, Path]]:
    path = tmp_path_factory.mktemp("parity") / "store"
    fill(path)
    with serving(path) as running, Engine.open(path, embedder="hashed") as engine:
        engine.add_messages([Message(f"hello number {n}!", author="zoe", channel="hall") for n in range(6)])
        note = path.parent / "note.md"
        note.write_text("# Note\n\nTea is at four.")
        with Client(running.address) as client:
            assert not client.add(note)["failed"]
        CITATION.extend(cite(engine))
        evaluate(
            engine, [JudgedQuestion(QUESTION, {next(iter(engine.list())).id: 1})], strategies=["hybrid", "lexical"]
        )
        yield running, engine, path


def test_every_verb_of_the_table_is_here() -> None:
    named = {verb for verb, surfaces in VERBS.items() if surfaces & {"http", "mcp"}}
    assert named == {*READING, *WRITING, *ELSEWHERE}
    assert {verb for verb, each in READING.items() if each.tool} | {"add"} == {
        verb for verb, surfaces in VERBS.items() if "mcp" in surfaces
    }
    for verb in named:
        assert callable(getattr(Client, verb))
        assert getattr(Client, verb) is getattr(AsyncClient, verb)  # written once


def hide_places(expected: Any) -> Any:
    """What a server tells of it: not where it keeps its uploads."""
    shown = json.loads(re.sub(r'"/[^"]*/uploads/default/[0-9a-f]{32}/', '"', json.dumps(expected)))
    if isinstance(shown, dict):
        for job in (shown, *shown.get("jobs", ())):
            for name in ("root", "is_upload"):
                job.get("request", {}).pop(name, None)
    return shown


def keep_common(shown: Any, expected: Any) -> Any:
    """What the reply of a surface has of what the engine gives: pages of a list have a cursor besides."""
    return {name: shown[name] for name in expected} if isinstance(expected, dict) else shown


@pytest.mark.parametrize("verb", READING)
@pytest.mark.slow
def test_reading_is_the_same_everywhere(verb: str, filled: tuple[Running, Engine, Path]) -> None:
    running, engine, path = filled
    call = READING[verb]
    job = engine.jobs()[0].id
    expected = drop_times(to_json(call.engine(engine)))
    method, place, body = call.http
    reply = running.http.request(method, place.replace("JOB", job), json=body)
    assert reply.status_code == 200, reply.text
    served = hide_places(expected)
    assert drop_times(keep_common(reply.json(), served)) == served
    with Client(running.address) as client:
        assert drop_times(keep_common(call.client(client), served)) == served
    if call.cli:
        words = [job if word == "JOB" else word for word in call.cli]
        done = CliRunner().invoke(app, [*words, "--path", str(path), "--embedder", "hashed", "--json"])
        assert done.exit_code == 0, done.output
        assert drop_times(keep_common(json.loads(done.stdout), expected)) == expected
    if call.tool:
        name, arguments, pick = call.tool
        shown = asyncio.run(use_tool(running.address, name, arguments))
        assert pick_from_tool(verb, shown) == pick(expected)


def pick_from_tool(verb: str, shown: Any) -> Any:
    """The part of a tool's reply that its verb has too."""
    if verb == "search":
        return [each["id"] for each in shown["results"]][:2]
    if verb == "list":
        return [each["id"] for each in shown["documents"]]
    return shown["documents" if verb == "status" else "text"]


async def use_tool(address: str, name: str, arguments: dict[str, Any]) -> Any:
    async with connect_http(address) as client:
        return (await client.call_tool(name, arguments)).structured_content
