"""The adapters against the real packages: the same hits, with relevance, spans and citations, sync and async."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import AsyncClient, Client, Document, Engine, Filter, Message, SettingsError
from tests.surface.server.conftest import fill, serving

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # before it is imported
QUESTION = "who rotates the vault key?"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as made:
        made.add_documents(
            [
                Document("keys", "# Keys\n\nDan rotates the vault key on Monday.", title="Vault", uri="vault.md"),
                Document("lunch", "# Lunch\n\nSoup is served at noon.", title="Lunch", uri="lunch.md"),
            ]
        )
        made.add_messages([Message("The vault key is late.", author="ada", channel="ops", id="m1")])
        yield made


def check_metadata(engine: Engine, text: str, metadata: dict[str, Any], where: Filter | None = None) -> None:
    hit = engine.search(QUESTION, k=1, where=where or Filter())[0]
    assert text == hit.chunk.text
    assert metadata["relevance"] == hit.relevance
    assert engine.read(metadata["document"]).text[metadata["start"] : metadata["end"]] == text
    assert metadata["citation"] == f"{hit.document.uri}#{hit.chunk.start}-{hit.chunk.end}"


@pytest.mark.slow
def test_langchain(engine: Engine) -> None:
    pytest.importorskip("langchain_core")
    from clew.integrations.langchain import ClewRetriever

    retriever = ClewRetriever(engine=engine, k=1)
    (found,) = retriever.invoke(QUESTION)
    check_metadata(engine, found.page_content, found.metadata)
    assert [each.id for each in asyncio.run(retriever.ainvoke(QUESTION))] == [found.id]
    (said,) = retriever.invoke(QUESTION, where=Filter(channels={"ops"}))
    assert (said.metadata["author"], said.metadata["message"]) == ("ada", "m1")
    assert len(ClewRetriever(engine=engine, where=Filter(kinds={"page"})).invoke(QUESTION)) == 2


@pytest.mark.slow
def test_llama_index(engine: Engine) -> None:
    pytest.importorskip("llama_index.core")
    from clew.integrations.llama_index import ClewRetriever

    retriever = ClewRetriever(engine, k=1)
    (found,) = retriever.retrieve(QUESTION)
    check_metadata(engine, found.node.get_content(), found.node.metadata)
    assert found.score == found.node.metadata["relevance"]
    assert [each.node_id for each in asyncio.run(retriever.aretrieve(QUESTION))] == [found.node_id]
    (said,) = retriever.within(Filter(channels={"ops"})).retrieve(QUESTION)
    assert said.node.metadata["author"] == "ada"


@pytest.mark.slow
def test_haystack(engine: Engine) -> None:
    pytest.importorskip("haystack")
    from haystack import Pipeline

    from clew.integrations.haystack import ClewRetriever

    pipeline = Pipeline()
    pipeline.add_component("retriever", ClewRetriever(engine, k=1))
    (found,) = pipeline.run({"retriever": {"query": QUESTION}})["retriever"]["documents"]
    check_metadata(engine, found.content, found.meta)
    assert found.score == found.meta["relevance"]
    component = ClewRetriever(engine, where=Filter(kinds={"page"}))
    both = asyncio.run(component.run_async(QUESTION, top_k=5))["documents"]
    assert [each.meta["document"] for each in both] == ["keys", "lunch"]
    assert component.run(QUESTION, where=Filter(channels={"ops"})) == {"documents": []}


def test_pydantic_ai(engine: Engine) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ToolReturnPart
    from pydantic_ai.models.test import TestModel

    from clew.integrations.pydantic_ai import make_toolset

    agent = Agent(TestModel(call_tools=["search"], seed=0), toolsets=[make_toolset(engine, k=1)])
    done = asyncio.run(agent.run(QUESTION))
    returned = [part for message in done.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    assert returned[0].tool_name == "search"
    toolset = make_toolset(engine, k=1)
    (found,) = use_tool(toolset, "search")
    check_metadata(engine, found["text"], found)
    closed = make_toolset(engine, where=Filter(channels={"ops"}))
    (said,) = use_tool(closed, "search")
    assert said["author"] == "ada"
    assert "Dan" not in use_tool(closed, "context")


def test_an_agent_is_told_what_it_can_put_right(engine: Engine) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from clew.integrations.pydantic_ai import make_toolset

    def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        told = [str(getattr(part, "content", "")) for part in messages[-1].parts]
        if "there is no document" in told[0]:
            return ModelResponse(parts=[TextPart(told[0])])
        return ModelResponse(parts=[ToolCallPart("read_document", {"document": "nowhere"})])

    done = asyncio.run(Agent(FunctionModel(reply), toolsets=[make_toolset(engine)]).run(QUESTION))
    assert "there is no document 'nowhere'" in done.output


@pytest.mark.slow
def test_adapters_take_a_client(tmp_path: Path) -> None:
    for name in ("langchain_core", "llama_index.core", "haystack", "pydantic_ai"):
        pytest.importorskip(name)
    from pydantic_ai import ModelRetry

    from clew.integrations.haystack import ClewRetriever as HaystackRetriever
    from clew.integrations.langchain import ClewRetriever as LangChainRetriever
    from clew.integrations.llama_index import ClewRetriever as LlamaIndexRetriever
    from clew.integrations.pydantic_ai import make_toolset

    fill(tmp_path / "store")
    with Engine.open(tmp_path / "store", embedder="hashed") as local, serving(tmp_path / "store") as running:
        client = Client(running.address)
        ops = Filter(channels={"ops"})
        for source in (local, client):
            (found,) = LangChainRetriever(engine=source, k=1).invoke(QUESTION)
            check_metadata(local, found.page_content, found.metadata)
            (said,) = LangChainRetriever(engine=source, k=1, where=ops).invoke("who restarts the build server?")
            assert said.metadata["channel"] == "ops"
            (node,) = LlamaIndexRetriever(source, k=1).retrieve(QUESTION)
            assert (node.node.metadata, node.score) == (found.metadata, found.metadata["relevance"])
            (document,) = HaystackRetriever(source, k=1).run(QUESTION)["documents"]
            assert document.meta == found.metadata
            tools = make_toolset(source, k=1)
            assert use_tool(tools, "search") == [{"text": found.page_content, **found.metadata}]
            assert "Dan rotates" in use_tool(tools, "context")
            with pytest.raises(ModelRetry, match="there is no document"):
                use_tool(tools, "read_document")
        with pytest.raises(SettingsError, match="takes no filter"):
            make_toolset(client, where=ops)
        with pytest.raises(SettingsError, match="not in a AsyncClient"):
            HaystackRetriever(AsyncClient(running.address)).run(QUESTION)
        client.close()


def use_tool(toolset: Any, name: str) -> Any:
    return asyncio.run(toolset.tools[name].function(QUESTION))
