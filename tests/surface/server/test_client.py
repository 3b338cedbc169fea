"""The clients: what the async one does differently, and that both are told apart from a server that is not there."""

import asyncio
import inspect
import pydoc
import socket
from pathlib import Path

import pytest

from clew import AsyncClient, Client, NotFound, ServerError
from clew.client.client import Verbs
from tests.surface.server.conftest import Running
from tests.surface.server.test_search import drop_times

QUESTION = "who rotates the vault key?"


@pytest.mark.slow
def test_the_async_client_gives_the_same(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "menu.md"
    file.write_text("# Menu\n\nSoup.")

    async def ask() -> None:
        async with AsyncClient(running.address) as client:
            found = await asyncio.gather(*(client.search(QUESTION, k=place) for place in (1, 2)))
            assert [len(each["hits"]) for each in found] == [1, 2]
            events = [event async for event in client.ask_stream(QUESTION)]
            records = [record async for record in client.list(kinds=["page"])]
            chunks = [chunk async for chunk in client.chunks("keys")]
            with Client(running.address) as other:
                assert drop_times(found[1]) == drop_times(other.search(QUESTION, k=2))
                assert drop_times([*events]) == drop_times([*other.ask_stream(QUESTION)])
                assert records == list(other.list(kinds=["page"]))
                assert chunks == list(other.chunks("keys"))
            assert (await client.add(file))["added"] == ["menu.md"]
            assert (await client.read("menu.md"))["text"] == "# Menu\n\nSoup."
            assert await client.drop("menu.md") == 1
            with pytest.raises(NotFound, match="there is no strategy 'nope'"):
                await client.search(QUESTION, strategy="nope")
            with pytest.raises(NotFound, match="there is no strategy 'nope'"):
                [event async for event in client.ask_stream(QUESTION, strategy="nope")]

    asyncio.run(ask())


def test_a_long_list_is_fetched_in_parts(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(running.address) as client:
        whole = list(client.list())
        monkeypatch.setattr("clew.client.transport.PAGE_ROWS", 2)
        assert len(whole) > 4
        assert list(client.list()) == whole


def test_a_server_that_is_not_there_is_said_to_be() -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(address) as client, pytest.raises(ServerError, match="clew serve"):
            client.status()

        async def ask() -> None:
            async with AsyncClient(address) as client:
                with pytest.raises(ServerError, match="clew serve"):
                    await client.status()
                with pytest.raises(ServerError, match="broke off"):
                    await anext(client.ask_stream("x"))

        asyncio.run(ask())


def test_methods_have_the_signatures_and_texts_of_their_verbs() -> None:
    client = Client("http://localhost")
    for name, _ in inspect.getmembers(Verbs, callable):
        if not name.startswith("_"):
            method = getattr(client, name)
            assert method.__doc__
            assert inspect.signature(method) == inspect.signature(getattr(Client, name))
            shown = str(inspect.signature(method))
            assert "Request" not in shown
            assert "Generator" not in shown
            assert "Pages" not in shown
    assert pydoc.render_doc(Client.add).count("-> clew.core.replies.ReportReply") == 1


def test_a_client_takes_an_address_without_a_scheme(shared: Running) -> None:
    with Client(shared.address.removeprefix("http://")) as client:
        assert client.status()["documents"] == 6
