"""Chat sessions: the conversation so far, the numbers of its documents, and keeping both with the collection."""

import gc
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import Document, Engine, Extensions, Filter, NotFound, SettingsError
from clew.core.errors import DriverFailed, ReadOnlyStore
from clew.core.settings import AnswerConfig, IngestionConfig, RerankerConfig, SessionConfig, Settings
from clew.drivers.llm.scripted import ScriptedLLM
from clew.query.context.format.renderers import number_documents
from clew.query.context.session import MAX_MESSAGES
from tests.engine.chosen import OpenEngine

PAGES = {"keys": "Signing keys are rotated every ninety days by Dan.", "soup": "Soup is served at noon in the hall."}
PLAIN = Settings(reranker=RerankerConfig(name="overlap"), ingestion=IngestionConfig())
OpenFilled = Callable[..., Engine]


@pytest.fixture
def open_filled(open_engine: OpenEngine) -> OpenFilled:
    """Opens one and the same collection, on each kind of store, with the pages in it."""

    def open_(*, llm: ScriptedLLM | None = None, settings: Settings = PLAIN, **options: Any) -> Engine:
        given = {"collection": "team", "embedder": "hashed", **options}
        engine = open_engine(llm=llm, settings=settings, **given)
        engine.add_documents(Document(name, text, title=name, uri=name) for name, text in PAGES.items())
        return engine

    return open_


def test_a_session_remembers_the_conversation(open_filled: OpenFilled) -> None:
    llm = ScriptedLLM([f"{PAGES['soup']} [1]", "where is soup served?", "NOT FOUND"])
    session = open_filled(llm=llm).chat()
    first = session.ask("when is soup served?", k=1)
    session.ask("and where?")
    assert "user: when is soup served?" in llm.requests[-1].prompt
    assert [message.role for message in session.messages] == ["user", "assistant"] * 2
    assert session.messages[1].text == first.text
    assert session.numbers["soup"] == 1


def test_a_follow_up_is_read_with_the_conversation(open_engine: OpenEngine) -> None:
    pages = {
        "aiosqlite": "aiosqlite gives async access to SQLite. Get it with pip install aiosqlite.",
        "tablib": "tablib reads and writes tables. How to install it: pip install tablib.",
        "parso": "parso parses Python. To install it, run pip install parso.",
    }
    engine = open_engine(embedder="hashed", settings=replace(PLAIN, answer=AnswerConfig(min_confidence=0.0)))
    engine.add_documents(Document(name, text, title=name, uri=name) for name, text in pages.items())
    chat = engine.chat()
    chat.ask("what does aiosqlite give access to?")
    answer = chat.ask("how do I install it?")
    assert (answer.question, answer.citations[0].uri) == ("how do I install it?", "aiosqlite")


def test_sessions_without_a_name_share_nothing_and_are_not_kept(open_filled: OpenFilled) -> None:
    engine = open_filled()
    one, other = engine.chat(), engine.chat()
    one.ask("when is soup served?")
    assert one.numbers
    assert not other.numbers
    assert engine.sessions.list_sessions() == []
    name = one.name
    del one
    gc.collect()
    assert engine.sessions.get_messages(name) == ()


def test_a_named_session_continues_in_another_engine(open_filled: OpenFilled) -> None:
    with closing(open_filled()) as engine:
        session = engine.chat("work")
        session.ask("when is soup served?", k=1)
        numbers, messages = session.numbers, session.messages
    again = open_filled().chat("work")
    assert again.numbers == numbers == {"soup": 1}
    assert again.messages == messages
    assert len(messages) == 2


def test_two_programs_continue_the_same_session(open_filled: OpenFilled) -> None:
    one, other = open_filled().chat("work"), open_filled().chat("work")
    one.ask("when is soup served?", k=1)
    other.ask("who rotates the signing keys?", k=1)
    assert [message.text for message in one.messages[::2]] == ["when is soup served?", "who rotates the signing keys?"]
    assert one.numbers == other.numbers == {"soup": 1, "keys": 2}


def test_numbers_survive_a_reopen(open_filled: OpenFilled) -> None:
    with closing(open_filled()) as engine:
        engine.context("signing keys rotated", k=1, session="support")
        shown = engine.context("soup at noon", k=1, session="support", render="knowledge_base")
        assert "### [2] soup" in shown.text
    engine = open_filled()
    assert engine.sessions.get_document_numbers("support") == {"keys": 1, "soup": 2}
    tools = engine.tools(session="support")
    assert "Soup is served at noon" in tools.read_document(2, "when is soup served?").text
    engine.add_documents([Document("tea", "Tea is served at five in the garden.", title="tea", uri="tea")])
    assert engine.context("tea at five", k=1, session="support").numbers == {"tea": 3}


def test_a_dropped_document_keeps_its_number_and_is_not_found(open_filled: OpenFilled) -> None:
    with closing(open_filled()) as engine:
        engine.context("signing keys rotated", k=1, session="support")
        engine.context("soup at noon", k=1, session="support")
        engine.drop("keys")
        tools = engine.tools(session="support")
        with pytest.raises(NotFound, match=r"^Document 1 not found$"):
            tools.read_document(1, "who rotates keys?")
        assert tools.read_document(2, "soup?").count
        assert engine.sessions.get_document_numbers("support") == {"keys": 1, "soup": 2}


def test_a_context_is_numbered_again_if_another_program_came_first(open_filled: OpenFilled) -> None:
    other, calls = open_filled(), 0

    def render(passages: Any, sheet: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:  # between the reading of the numbers and the writing of new ones
            other.context("signing keys rotated", k=1, session="support")
        return str(number_documents(passages, sheet.numbers))

    engine = open_filled(extensions=Extensions(renderers={"mine": render}))
    made = engine.context("soup at noon", k=1, session="support", render="mine")
    assert engine.sessions.get_document_numbers("support") == {"keys": 1, "soup": 2}
    assert made.numbers == {"soup": 2}
    assert made.text == "{'soup': 2}"


def test_a_failed_answer_is_not_remembered(open_filled: OpenFilled) -> None:
    session = open_filled(llm=ScriptedLLM([DriverFailed("the model is asleep")])).chat("work")
    with pytest.raises(DriverFailed, match="asleep"):
        session.ask("when is soup served?")
    assert session.messages == ()
    assert session.numbers


def test_the_oldest_messages_are_dropped(tmp_path: Path) -> None:
    with Engine.open(tmp_path, embedder="hashed", settings=PLAIN) as engine:
        session = engine.chat("work")
        for number in range(MAX_MESSAGES // 2 + 1):
            session.ask(f"soup {number}?")
        assert len(session.messages) == MAX_MESSAGES
        assert session.messages[0].text == "soup 1?"


@pytest.mark.parametrize("name", [None, "work"])
def test_a_running_chat_keeps_its_numbers_however_many_sessions_come(open_filled: OpenFilled, name: str | None) -> None:
    settings = Settings(
        reranker=PLAIN.reranker, ingestion=PLAIN.ingestion, session=SessionConfig(max_sessions=1, idle=1)
    )
    engine = open_filled(settings=settings)
    chat = engine.chat(name)
    chat.ask("when is soup served?", k=1)
    for other in ("a", "b", "c"):
        engine.context("signing keys rotated", k=1, session=other)
    engine.sessions._clock = lambda start=engine.sessions._clock: start() + 1000  # type: ignore[misc]
    engine.context("signing keys rotated", k=1, session="later")
    assert chat.numbers == {"soup": 1}
    assert len(chat.messages) == 2
    assert engine.sessions.list_sessions() == sorted(filter(None, ("later", name)))


def test_sessions_are_dropped_by_name(open_filled: OpenFilled) -> None:
    engine = open_filled()
    engine.chat("work").ask("when is soup served?", k=1)
    engine.context("soup", session="support")
    assert engine.sessions.list_sessions() == ["support", "work"]
    assert engine.sessions.drop("work", "nobody") == 1
    assert engine.sessions.list_sessions() == ["support"]
    assert engine.chat("work").messages == ()


def test_an_engine_within_a_boundary_has_sessions_of_its_own(open_filled: OpenFilled) -> None:
    engine = open_filled()
    chat = engine.chat("work")
    chat.ask("when is soup served?", k=1, where=Filter(documents={"soup"}))
    assert engine.sessions.get_document_numbers("work") == chat.numbers == {"soup": 1}
    bounded = engine.within(Filter(documents={"keys"}))
    assert bounded.sessions.list_sessions() == []
    assert bounded.sessions.get_messages("work") == ()
    assert bounded.context("signing keys rotated", k=1, session="work").numbers == {"keys": 1}
    assert bounded.tools(session="work").read_document(1, "who rotates keys?").count
    assert bounded.chat().ask("who rotates the signing keys?").found
    assert chat.numbers == {"soup": 1}
    with pytest.raises(SettingsError, match="named chats are kept with the whole"):
        bounded.chat("work")
    with pytest.raises(SettingsError, match="only reads"):
        _ = bounded.opened.store.sessions


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 200])
def test_a_name_is_a_plain_one(name: str) -> None:
    with (
        Engine.open(":memory:", embedder="hashed") as engine,
        pytest.raises(SettingsError, match="plain name"),
    ):
        engine.chat(name)


def test_sessions_follow_a_new_embedder(open_filled: OpenFilled) -> None:
    engine = open_filled()
    chat = engine.chat("work")
    chat.ask("when is soup served?", k=1)
    engine.reembed("hashed:64")
    chat.ask("who rotates the signing keys?", k=1)
    assert chat.numbers == {"soup": 1, "keys": 2}


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Path]:
    """A collection in a folder that cannot be written, with a session in it."""
    with Engine.open(tmp_path / "team", embedder="hashed", settings=PLAIN) as engine:
        engine.add_documents(Document(name, text, title=name, uri=name) for name, text in PAGES.items())
        engine.context("soup at noon", k=1, session="support")
    folder = tmp_path / "team" / "default"
    shutil.rmtree(folder / "index", ignore_errors=True)
    folder.chmod(0o500)
    yield tmp_path / "team"
    folder.chmod(0o700)


def test_a_collection_that_is_only_read_numbers_in_memory(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.drivers.store.sqlite.schema.is_writable", lambda _: False)  # for a test run as root
    with Engine.open(snapshot, settings=PLAIN) as engine:
        assert engine.context("signing keys rotated", k=1, session="support").numbers == {"keys": 2}
        assert engine.sessions.get_document_numbers("support") == {"soup": 1, "keys": 2}
        assert engine.context("soup", k=1, session="new").numbers == {"soup": 1}
        with pytest.raises(ReadOnlyStore, match="cannot be opened for writing"):
            engine.chat("work")
