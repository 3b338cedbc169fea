"""The async facade: the same verbs with the same answers, none of which blocks the event loop."""

import asyncio
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import clew
from clew import Document, Engine, FinalEvent, NotFound, aio, record
from clew.drivers.embed.hashed import HashedEmbedder
from clew.query.agent.tools import TOOL_NAMES

PAGES = [
    Document("keys", "Dan rotates the vault key on Monday.", title="Vault"),
    Document("lunch", "Soup is served at noon.", title="Lunch"),
]


async def filled() -> aio.Engine:
    engine = await aio.Engine.open(":memory:", embedder="hashed")
    await engine.add_documents(PAGES)
    return engine


def test_it_has_every_verb_of_the_engine() -> None:
    kinds = (types.FunctionType, staticmethod)
    verbs = {name for name, each in vars(Engine).items() if isinstance(each, kinds) and name[0] != "_"}
    assert verbs <= set(vars(aio.Engine))
    assert {*TOOL_NAMES, "call", "schemas"} <= set(vars(aio.Toolbox))
    assert {"ask", "agent"} <= set(vars(aio.ChatSession))


def test_verbs_answer_as_the_engine_does() -> None:
    async def main() -> None:
        async with await filled() as engine:
            hits = await engine.search("who rotates the vault key?", k=1)
            assert hits == engine.sync.search("who rotates the vault key?", k=1)
            assert hits[0].chunk.doc_id == "keys"
            assert [each.id async for each in engine.list()] == [each.id for each in engine.sync.list()]
            assert (await engine.ask("who rotates the vault key?")).found
            assert (await engine.status()).documents == 2

    asyncio.run(main())


def test_a_chat_and_the_tools_are_async_too() -> None:
    async def main() -> None:
        async with await filled() as engine:
            chat = await engine.chat("work")
            answer = await chat.ask("who rotates the vault key?", k=1)
            assert answer.found
            assert engine.sync.chat("work").messages == chat.sync.messages
            assert len(chat.sync.messages) == 2
            assert await chat.messages() == chat.sync.messages
            assert await chat.numbers() == chat.sync.numbers
            tools = await engine.tools(session=chat.name)
            read = await tools.read_document(1, "who rotates the vault key?")
            assert read.data["documentName"] == "Vault"
            called = await tools.call("read_document", {"documentIndex": 1, "query": "who rotates the vault key?"})
            assert called["relevantContent"] == read.data["relevantContent"]
            assert tools.schemas("openai") == clew.Toolbox.schemas("openai")

    asyncio.run(asyncio.wait_for(main(), 60))


def test_jobs_and_collections_have_their_verbs_too(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Keys\n\nDan rotates the vault key.\n")

    async def main() -> None:
        async with await aio.Engine.open(tmp_path / "team", embedder="hashed") as engine:
            job = await engine.enqueue_add(page)
            assert (await engine.jobs())[0].id == job.id
            assert [each.state for each in await engine.run_jobs()] == ["done"]
            assert (await engine.job(job.id)).done == 1
            assert (await engine.cancel_job(job.id)).state == "done"
        assert [each.name for each in await aio.Engine.collections(tmp_path / "team")] == ["default"]
        assert (await aio.Engine.drop_collection(tmp_path / "team", "default")).collection.documents == 1

    asyncio.run(main())


def test_a_cancelled_verb_runs_to_its_end() -> None:
    started, may_end = threading.Event(), threading.Event()

    class Waiting(HashedEmbedder):
        def embed(self, texts: Any, *, role: Any) -> Any:
            if "slow" in texts[0]:
                started.set()
                may_end.wait(30)
            return super().embed(texts, role=role)

    async def main() -> None:
        async with await aio.Engine.open(":memory:", embedder=Waiting()) as engine:
            adding = asyncio.ensure_future(engine.add_documents([Document("slow", "A slow page.")]))
            await asyncio.to_thread(started.wait, 30)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            may_end.set()
            while not (await engine.status()).documents:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_searches_run_at_the_same_time_and_traces_stay_apart() -> None:
    async def traced(engine: aio.Engine, text: str) -> clew.Trace:
        with record(text) as trace:
            await engine.search(text)
        return trace

    async def main() -> None:
        async with await filled() as engine:
            traces = await asyncio.gather(*(traced(engine, text) for text in ("vault key", "soup at noon")))
            assert [trace.name for trace in traces] == ["vault key", "soup at noon"]
            assert all(len(trace.steps) == 1 for trace in traces)

    asyncio.run(main())


def test_a_stream_is_an_async_iterator() -> None:
    async def main() -> None:
        async with await filled() as engine:
            events = [event async for event in engine.ask_stream("who rotates the vault key?")]
            assert isinstance(events[-1], FinalEvent)
            assert events[-1].answer.found

    asyncio.run(main())


def test_errors_are_the_same() -> None:
    async def main() -> None:
        async with await filled() as engine:
            with pytest.raises(NotFound, match="did you mean lunch"):
                await engine.read("lunsh")

    asyncio.run(main())


def test_the_event_loop_goes_on_while_a_verb_works() -> None:
    async def main() -> None:
        async with await filled() as engine:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            await engine.search("who rotates the vault key?")
            ticking.cancel()
            assert ticks > 1

    asyncio.run(main())


class Endless(clew.ScriptedLLM):
    """Streams a sentence again and again."""

    pieces = 0

    def stream(self, prompt: str, **_: Any) -> Iterator[str]:
        while True:
            type(self).pieces += 1
            sleep(0.01)
            yield "Dan rotates the vault key on Monday [1]. "


def test_a_cancelled_stream_ends_the_work() -> None:
    async def main() -> None:
        async with await aio.Engine.open(":memory:", embedder="hashed", llm=Endless(lambda _: "-")) as engine:
            await engine.add_documents(PAGES)

            async def consume() -> None:
                async for _ in engine.ask_stream("who rotates the vault key?"):
                    pass

            reader = asyncio.create_task(consume())
            while not Endless.pieces:
                await asyncio.sleep(0.01)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await asyncio.sleep(0.4)
            before = Endless.pieces
            await asyncio.sleep(0.3)
            assert Endless.pieces == before

    asyncio.run(main())
