"""Two keys over one collection: whatever each asks, over every path and tool, nothing of the other comes back."""

import asyncio
import json
import logging
import random
import re
from pathlib import Path
from typing import Any

import pytest

from clew import Client, Document, Engine, Filter, Message
from tests.soak import choose_runs
from tests.surface.server.conftest import Running, serving
from tests.surface.server.test_guard import bearer
from tests.surface.server.test_mcp import connect_http

log = logging.getLogger(__name__)
SUBJECTS = ("vault", "ferry", "soup", "budget", "garden", "bridge", "radio", "lamp")
SIDES = ("ada", "ben")
UNASKED = {  # nothing of a collection is in their replies, or they need the right to write before anything else
    *(("GET", path) for path in ("/health", "/ready", "/v1/jobs/{job}", "/v1/sessions/{session}")),
    *(("DELETE", path) for path in ("/v1/jobs/{job}", "/v1/sessions/{session}")),
    *(("POST", path) for path in ("/v1/documents", "/v1/add", "/v1/plan", "/v1/embeddings")),
}


def canary(side: str, number: int) -> str:
    return f"canary{side}{number}"


def fill_for_two(path: Path | str, chance: random.Random) -> None:
    """Pages by label and messages by channel, of two people who talk of the same things."""
    pages, messages = [], []
    for side in SIDES:
        for number in range(4):
            subject = chance.choice(SUBJECTS)
            word = canary(side, number)
            text = f"# The {subject} {word}\n\nThe {subject} is opened by {word} on day {number}."
            pages.append(
                Document(f"{side}-page-{number}", text, title=f"{subject} {word}", uri=f"{word}.md", access={side})
            )
            messages.append(
                Message(
                    f"About the {subject}: {word} asked who opens it.",
                    author=f"author{word}",
                    channel=f"room-{side}",
                    id=f"{side}-message-{number}",
                    access=frozenset({side}),
                )
            )
    chance.shuffle(messages)
    with Engine.open(path, embedder="hashed") as engine:
        engine.add_documents(pages)
        for each in messages:
            engine.add_messages([each])


def make_requests(chance: random.Random, foreign: str) -> list[tuple[str, str, Any]]:
    """A request for every path, about what the other has."""
    subject, number = chance.choice(SUBJECTS), chance.randrange(4)
    word = canary(foreign, number)
    query = chance.choice([f"who opens the {subject}?", f"{subject} {number}", word])
    page, message = f"{foreign}-page-{number}", f"{foreign}-message-{number}"
    room, author = f"room-{foreign}", f"author{word}"
    strategy = chance.choice(["hybrid", "semantic", "lexical", "multi_query", "document_boost", "auto"])
    asked = {"query": query, "k": 20, "strategy": strategy}
    wide = {**asked, "where": chance.choice([{"channels": [room]}, {"access": [foreign]}, {"authors": [author]}])}
    citation = {"document": page, "version": "", "start": 0, "end": 5, "hash": ""}
    return [
        *(
            ("POST", path, body)
            for path in ("/v1/search", "/v1/context", "/v1/explain", "/v1/ask")
            for body in (asked, wide)
        ),
        ("POST", "/v1/ask", {"query": query, "stream": True}),
        ("POST", "/v1/search-many", {"queries": [query, subject], "k": 20}),
        ("POST", "/v1/sessions/work", {"query": query}),
        ("POST", "/v1/erase", {"author": author, "dry_run": True}),
        ("POST", "/v1/why-not", {"query": subject, "target": page}),
        ("POST", "/v1/window", {"channel": room, "prompt": subject, "include_related_channels": True}),
        ("POST", "/v1/window", {"channel": "room-none", "prompt": subject, "include_related_channels": True}),
        ("POST", "/v1/style-prompt", {"person": "nobody", "message": subject}),
        ("POST", "/v1/check", {"citations": [citation]}),
        ("POST", "/v1/chat/completions", {"model": "clew", "messages": [{"role": "user", "content": query}]}),
        ("POST", "/v1/feedback", {"question": subject, "good": True}),
        ("POST", "/v1/feedback", {"question": subject, "opened": page, "rank": 1}),
        ("POST", "/v1/messages", {"messages": [{"text": "x", "channel": room}]}),
        ("POST", "/v1/add-documents", {"documents": [{"id": page, "text": "x"}]}),
        *(
            ("GET", f"/v1/documents/{name}{end}", None)
            for name in (page, f"{word}.md")
            for end in ("", "/chunks", "/links")
        ),
        *(("GET", f"/v1/document{end}?id={page}", None) for end in ("", "/chunks", "/links")),
        ("DELETE", f"/v1/document?id={page}", None),
        ("GET", "/v1/models/clew:default", None),
        ("GET", "/v1/documents", None),
        ("GET", f"/v1/documents?channel={room}", None),
        ("GET", f"/v1/messages/{message}", None),
        ("GET", f"/v1/messages/{room}/{message}", None),
        ("GET", f"/v1/profile/{author[:-1]}", None),
        *(
            ("GET", f"/v1/{name}", None)
            for name in ("channels", "status", "collections", "models", "jobs", "feedback", "sessions", "doctor")
        ),
        ("GET", "/v1/evaluations", None),
        ("GET", "/v1/evaluations/last", None),
        ("POST", "/v1/evaluations", {"questions": [{"question": query, "relevant": [page]}]}),
        ("POST", "/v1/evaluations/questions", {"sources": ["titles", "feedback"]}),
        ("DELETE", f"/v1/documents/{page}", None),
        ("DELETE", f"/v1/messages/{message}", None),
        ("DELETE", "/v1/collections/default", None),
        ("GET", "/metrics", None),
    ]


def make_tool_calls(chance: random.Random, foreign: str) -> list[tuple[str, dict[str, Any]]]:
    subject, number = chance.choice(SUBJECTS), chance.randrange(4)
    page, room = f"{foreign}-page-{number}", f"room-{foreign}"
    return [
        ("search", {"query": f"who opens the {subject}?"}),
        ("fetch", {"id": page}),
        ("context", {"query": subject}),
        ("ask", {"query": f"who opens the {subject}?"}),
        ("fetch", {"id": page, "start": 0}),
        ("list_documents", {}),
        ("search_conversations", {"query": subject}),
        ("search_conversations", {"query": subject, "channel": room}),
        ("status", {}),
        ("add", {"title": "x", "text": "y"}),
    ]


def count_foreign(reply: str, sent: Any, foreign: str) -> int:
    """How often a reply has what the other has, other than the words that were sent."""
    own = json.dumps(sent)
    words = [canary(foreign, number) for number in range(4)] + [
        f"room-{foreign}",
        f"{foreign}-page",
        f"{foreign}-message",
    ]
    return sum(reply.count(word) for word in words if word not in own)


async def call_tools(address: str, token: str, calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[Any, str]]:
    async with connect_http(address, key=token) as client:
        return [(call, (await client.call_tool(*call)).model_dump_json()) for call in calls]


@pytest.mark.slow
def test_every_path_is_asked(shared: Running) -> None:
    asked = {(method, path.partition("?")[0]) for method, path, _ in make_requests(random.Random(0), "ben")}
    described = shared.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        pattern = re.compile(re.sub(r"\{\w+\}", ".+", path))
        for method in methods:
            name = (method.upper(), path)
            assert name in UNASKED or any(verb == name[0] and pattern.fullmatch(place) for verb, place in asked), name


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_no_row_of_another_key_comes_back(place_for_two: str, tmp_path: Path) -> None:
    requests = foreign_rows = own_rows = 0
    with serving(place_for_two, folder=str(tmp_path / "server")) as running:
        tokens = {}
        for side in SIDES:
            chosen = (
                Filter(access={side})
                if side == "ada"
                else Filter(channels={"room-ben"}) | Filter(kinds={"page"}, access={"ben"})
            )
            tokens[side] = running.server.keys.add(side, where=chosen)[1]
        for seed in range(choose_runs(1, 20)):
            chance = random.Random(seed)
            for side, foreign in (SIDES, SIDES[::-1]):
                for method, path, body in make_requests(chance, foreign):
                    reply = running.http.request(method, path, json=body, headers=bearer(tokens[side]))
                    assert reply.status_code < 500, (path, reply.text)
                    requests += 1
                    foreign_rows += count_foreign(reply.text, [path, body], foreign)
                    own_rows += reply.text.count(f"canary{side}")
                for call, text in asyncio.run(
                    call_tools(running.address, tokens[side], make_tool_calls(chance, foreign))
                ):
                    requests += 1
                    foreign_rows += count_foreign(text, call, foreign)
                    own_rows += text.count(f"canary{side}")
    log.info(f"{requests} requests, {own_rows} own rows, {foreign_rows} foreign rows")
    assert foreign_rows == 0
    assert own_rows > requests
    with Engine.open(place_for_two, embedder="hashed") as engine:
        assert len([record for record in engine.list() if record.kind == "page"]) == 8  # and nothing was removed


@pytest.fixture(params=["folder", "postgres"])
def place_for_two(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "store") if request.param == "folder" else request.getfixturevalue("postgres_database")()
    fill_for_two(path, random.Random(7))
    return path


def test_the_feedback_of_one_is_not_read_by_another(running: Running) -> None:
    _, token = running.server.keys.add("reader")
    with Client(running.address, key=token) as client:
        kept = client.feedback("where is the soup?", good=False, comment="cold")
        assert kept["good"] is False
    assert running.get("/v1/feedback", headers=bearer(token)).status_code == 403
    _, writing = running.server.keys.add("writer", rights="write")
    assert running.get("/v1/feedback", headers=bearer(writing)).json() == {"feedback": [kept]}


def fill_another(path: Path) -> None:
    text, said, seen_by = (
        f"The vault is opened by {canary('cyd', 0)}.",
        f"{canary('cyd', 1)} asked.",
        frozenset({"cyd"}),
    )
    with Engine.open(path, collection="other", embedder="hashed") as engine:
        engine.add_documents([Document("cyd-page-0", text, title="vault", access=seen_by)])
        engine.add_messages([Message(said, author="cyd", channel="room-cyd", id="cyd-message-1", access=seen_by)])


UNASKED_CALLS: list[tuple[str, str, Any]] = [  # what is left out above: it changes something, or tells of no row
    ("POST", "/v1/add", {"sources": ["http://127.0.0.1:1/x"]}),
    ("POST", "/v1/plan", {"sources": ["http://127.0.0.1:1/x"]}),
    ("POST", "/v1/embeddings", {"model": "clew", "input": "x"}),
    ("GET", "/v1/jobs/nosuch", None),
    ("DELETE", "/v1/jobs/nosuch", None),
    ("GET", "/v1/sessions/work", None),
    ("DELETE", "/v1/sessions/work", None),
]


CHANGES = {
    *(("POST", f"/v1/{name}") for name in ("add", "plan", "messages", "add-documents", "sessions/work", "erase")),
    *(("POST", f"/v1/evaluations{end}") for end in ("", "/questions")),
    ("DELETE", "/v1/collections/default"),
}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_three_kinds_of_key_stay_within_their_rights(tmp_path: Path) -> None:
    """A key that reads one collection, one that reads a part of it, one that writes it; a second collection is there.

    None gets a row beyond its rights from any path or tool, for its own collection or the other, and only the last
    changes anything.
    """
    place, requests, foreign, own = tmp_path / "store", 0, 0, 0
    fill_for_two(place, random.Random(7))
    fill_another(place)
    only = frozenset({"default"})
    with serving(place, folder=str(tmp_path / "server")) as running:
        keys = running.server.keys
        tokens = {
            "whole": keys.add("whole", collections=only)[1],
            "part": keys.add("part", where=Filter(access={"ada"}))[1],  # of every collection
            "write": keys.add("write", rights="write", collections=only)[1],
        }
        before = [(each.name, each.documents, each.chunks) for each in Engine.collections(place)]
        for seed in range(choose_runs(1, 20)):
            chance = random.Random(seed)
            for kind, token in tokens.items():
                hidden = ("cyd",) if kind != "part" else ("ben", "cyd")
                for collection in ("", "other"):
                    target = "cyd" if collection else "ben"
                    for method, path, body in [*make_requests(chance, target), *UNASKED_CALLS]:
                        if kind == "write" and method == "DELETE" and "cyd" not in path:
                            continue  # it may, and later requests need the rows
                        sign = "&" if "?" in path else "?"
                        asked = f"{path}{sign}collection={collection}" if collection and "/v1/" in path else path
                        reply = running.http.request(method, asked, json=body, headers=bearer(token))
                        assert reply.status_code < 500, (path, reply.text)
                        is_change = reply.status_code < 300 and kind != "write" and (method, path) in CHANGES
                        assert not is_change, (kind, method, path, reply.text)
                        requests += 1
                        foreign += sum(count_foreign(reply.text, [path, body], each) for each in hidden)
                        own += reply.text.count("canaryada")
                calls = make_tool_calls(chance, "cyd")
                for call, text in asyncio.run(call_tools(running.address, token, calls)):
                    requests += 1
                    foreign += sum(count_foreign(text, call, each) for each in hidden)
                    assert kind == "write" or call[0] != "add" or "true" in text.partition('"is_error":')[2][:6], text
            if seed == 0:
                after = [(each.name, each.documents, each.chunks) for each in Engine.collections(place)]
                assert after[-1] == before[-1]  # nobody has changed the other collection
    log.info(f"{requests} requests, {own} own rows, {foreign} foreign rows")
    assert foreign == 0
    assert own > requests / 4
