"""MCP by the SDK's own client, over both transports: the same tools with the same answers."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent
from typer.testing import CliRunner

from clew import Document, Engine, Filter
from clew.core.text import estimate_tokens
from clew.surface.cli.app import app
from clew.surface.mcp.server import make_local_server
from tests.surface.server.conftest import Running, fill, serving

READING = {
    *("search", "fetch", "context", "ask", "list_documents", "search_conversations", "status"),
}
CONDITIONS = ("kinds", "authors", "since", "until", "documents", "channels")
Work = Callable[[Client], Awaitable[Any]]


@asynccontextmanager
async def connect_http(address: str, *, key: str = "", collection: str = "") -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    place = f"{address}/mcp?collection={collection}" if collection else f"{address}/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(place, http_client=http)) as client,
    ):
        yield client


def over_http(address: str, work: Work, **options: str) -> Any:
    async def main() -> Any:
        async with connect_http(address, **options) as client:
            return await work(client)

    return asyncio.run(main())


def over_stdio(path: Path, work: Work, *options: str) -> Any:
    command = ["-m", "clew", "mcp", "--path", str(path), "--embedder", "hashed", *options]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ), cwd=str(path))

    async def main() -> Any:
        async with Client(parameters) as client:
            return await work(client)

    return asyncio.run(main())


def read_text(result: CallToolResult) -> str:
    """The text of a reply."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def use_every_tool(client: Client) -> dict[str, Any]:
    """What every tool replies, by its name."""
    arguments: dict[str, dict[str, Any]] = {
        "search": {"query": "who rotates the vault key?"},
        "fetch": {"id": "keys"},
        "context": {"query": "who rotates the vault key?", "tokens": 300},
        "ask": {"query": "who rotates the vault key?"},
        "list_documents": {"limit": 2},
        "search_conversations": {"query": "build server", "channel": "ops"},
        "status": {},
    }
    found = {}
    for name, given in arguments.items():
        result = await client.call_tool(name, given)
        assert not result.is_error, result.content
        if name in ("search", "fetch"):
            assert json.loads(read_text(result)) == result.structured_content
        else:
            assert "{" not in read_text(result)
        found[name] = result.structured_content
    return found


@pytest.mark.slow
def test_both_transports_give_the_same(folder: Path) -> None:
    piped = over_stdio(folder, use_every_tool)
    with serving(folder) as running:
        served = over_http(running.address, use_every_tool)
    assert piped == served
    assert served["search"]["results"][0] == {
        "id": "keys",
        "title": "Vault",
        "url": "handbook/vault.md",
        "text": "# Keys\n\nDan rotates the vault key on Monday.",
        "relevance": served["search"]["results"][0]["relevance"],
    }
    assert set(served["fetch"]) == {"id", "title", "text", "url", "metadata"}
    assert "Dan rotates the vault key" in served["fetch"]["text"]
    assert served["ask"]["text"] == "Dan rotates the vault key on Monday. [1]"
    assert served["ask"]["citations"][0]["id"] == "keys"
    assert served["ask"]["citations"][0]["quote"] == "Dan rotates the vault key on Monday."
    assert served["context"]["sources"][0] == {"number": 1, "id": "keys", "url": "handbook/vault.md"}
    assert served["search_conversations"]["messages"][0]["id"] == "m1"
    assert served["status"] == {
        "collection": "default", "documents": 6, "chunks": 6, "embedder": "hashed", "channels": ["board", "ops"]
    }  # fmt: skip
    assert served["list_documents"]["next"] == 2


async def describe_tools(client: Client) -> dict[str, Any]:
    return {each.name: each for each in (await client.list_tools()).tools}


@pytest.mark.slow
def test_tools_are_typed_and_refuse_unknown_arguments(running: Running) -> None:
    async def work(client: Client) -> None:
        tools = await describe_tools(client)
        assert set(tools) == {*READING, "add"}
        for each in tools.values():
            assert each.input_schema["additionalProperties"] is False
            assert each.output_schema["properties"]
            assert each.annotations.read_only_hint == (each.name != "add")
        assert len(tools) <= 8
        options = list(tools["search"].input_schema["properties"])
        assert {"query", "k", "strategy", "min_relevance", *CONDITIONS} <= {*options}
        assert all(each.get("description") for each in tools["search"].input_schema["properties"].values())
        assert list(tools["fetch"].input_schema["properties"]) == ["id", "start"]
        result = await client.call_tool("search", {"query": "vault", "kk": 3})
        assert result.is_error
        assert read_text(result) == f"search: kk is not known here; its arguments are {', '.join(options)}"
        result = await client.call_tool("ask", {"question": "vault"})
        assert read_text(result).startswith(
            "ask: query is missing, question is not known here; its arguments are query"
        )
        result = await client.call_tool("search", {"query": "build", "k": 1, "channels": ["ops"]})
        (hit,) = result.structured_content["results"]
        assert (hit["author"], hit["channel"], hit["at"][:4], 0 <= hit["relevance"] <= 1) == (
            "ada",
            "ops",
            "2026",
            True,
        )
        result = await client.call_tool("search", {"query": "build", "authors": ["adda"]})
        assert "there is no author 'adda'; did you mean ada?" in result.structured_content["reason"]
        part = (await client.call_tool("fetch", {"id": "keys", "start": 2})).structured_content
        assert (part["text"][:4], part["next"]) == ("Keys", None)
        result = await client.call_tool("list_documents", {"limit": 1000})
        assert "limit should be less than or equal to 100" in read_text(result)
        result = await client.call_tool("search_conversations", {"query": "build", "channel": "opps"})
        assert result.is_error
        assert "there is no channel 'opps'; did you mean ops?" in read_text(result)
        result = await client.call_tool("fetch", {"id": "nowhere"})
        assert result.is_error
        assert "there is no document 'nowhere'; the tool `list_documents` shows the documents" in read_text(result)

    over_http(running.address, work)


@pytest.mark.slow
def test_a_context_as_it_is_sent_keeps_to_its_budget(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a", embedder="hashed") as engine:
        engine.add_documents(
            Document(
                f"keys-{day}", f"Dan rotates vault key {day} on the day {day} of a month.\n" * 3, uri=f"vault/{day}.md"
            )
            for day in range(40)
        )
        local = make_local_server(engine, collection="default", read_only=True)
        for tokens in (30, 120, 400, 2000):
            asked = {"query": "who rotates the vault key?", "tokens": tokens, "k": 40}
            made: Any = asyncio.run(local.call_tool("context", asked))
            assert estimate_tokens(json.dumps(made.structured_content)) <= tokens
            assert estimate_tokens(read_text(made)) <= tokens
            assert bool(made.structured_content["sources"]) == (tokens > 30), made.structured_content


@pytest.mark.slow
def test_add_is_found_and_read_only_has_none(running: Running, folder: Path) -> None:
    async def add(client: Client) -> Any:
        result = await client.call_tool("add", {"title": "Ferry", "text": "The ferry leaves at six."})
        found = await client.call_tool("ask", {"query": "when does the ferry leave?"})
        return result.structured_content, found.structured_content

    added, answer = over_http(running.address, add)
    assert added["added"] is True
    assert answer["citations"][0]["id"] == added["id"]

    async def name_tools(client: Client) -> set[str]:
        return set(await describe_tools(client))

    with Engine.open(folder, embedder="hashed") as engine:
        local = make_local_server(engine, collection="default", read_only=True)
        assert {each.name for each in asyncio.run(local.list_tools())} == READING
    with serving(folder, read_only=True) as reading:
        assert over_http(reading.address, name_tools) == READING


@pytest.mark.slow
def test_a_key_holds_for_tools_too(folder: Path) -> None:
    fill(folder, "other")
    with serving(folder) as running:
        _, token = running.server.keys.add(
            "ops", where=Filter(channels={"ops"}), collections=frozenset({"default", "other"})
        )

        async def work(client: Client) -> Any:
            found = await client.call_tool("list_documents", {})
            added = await client.call_tool("add", {"title": "x", "text": "y"})
            status = await client.call_tool("status", {})
            assert added.is_error
            assert set(await describe_tools(client)) == READING  # a key that only reads is offered no `add`
            return [each["kind"] for each in found.structured_content["documents"]], status.structured_content

        kinds, status = over_http(running.address, work, key=token)
        assert set(kinds) == {"thread"}
        assert status["channels"] == ["ops"]
        _, status = over_http(running.address, work, key=token, collection="other")
        assert status["collection"] == "other"
        reply = running.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert reply.status_code == 401
        assert reply.json()["error"]["type"] == "KeyInvalid"
        with pytest.raises(BaseExceptionGroup):
            over_http(running.address, work, key="clew_wrong_wrong")


def test_there_is_no_stream_to_be_opened(shared: Running) -> None:
    reply = shared.get("/mcp", headers={"accept": "text/event-stream"})
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


def test_a_wrong_path_is_told_and_not_made(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["mcp", "--path", str(tmp_path / "typo"), "--embedder", "hashed"])
    assert done.exit_code == 3
    assert "no collection" in done.stderr
    assert not (tmp_path / "typo").exists()
