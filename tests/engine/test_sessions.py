"""Chat sessions: the conversation so far, the numbers of its documents, and saving both under a name."""

import json
from pathlib import Path

import pytest

from clew import Document, Engine, SettingsError, SourceError
from clew.core.errors import DriverFailed
from clew.core.settings import IngestionConfig, RerankerConfig, Settings
from clew.drivers.llm.scripted import ScriptedLLM
from clew.engine.sessions import MAX_MESSAGES

PAGES = {"keys": "Signing keys are rotated every ninety days by Dan.", "soup": "Soup is served at noon in the hall."}


def open_filled(folder: Path, llm: ScriptedLLM | None = None) -> Engine:
    settings = Settings(reranker=RerankerConfig(name="overlap"), ingestion=IngestionConfig(summaries=False))
    engine = Engine.open(folder, embedder="hashed", llm=llm, settings=settings)
    engine.add_documents(Document(name, text, title=name, uri=name) for name, text in PAGES.items())
    return engine


def test_a_session_remembers_the_conversation(tmp_path: Path) -> None:
    llm = ScriptedLLM([f"{PAGES['soup']} [1]", "NOT FOUND"])
    with open_filled(tmp_path, llm) as engine:
        session = engine.chat()
        first = session.ask("when is soup served?", k=1)
        session.ask("and where?")
    assert "user: when is soup served?" in llm.requests[-1].prompt
    assert [message.role for message in session.messages] == ["user", "assistant"] * 2
    assert session.messages[1].text == first.text
    assert session.numbers["soup"] == 1


def test_sessions_without_a_name_share_nothing(tmp_path: Path) -> None:
    with open_filled(tmp_path) as engine:
        one, other = engine.chat(), engine.chat()
        one.ask("when is soup served?")
        assert one.numbers
        assert not other.numbers
        assert not (tmp_path / "sessions").exists()


def test_a_named_session_continues_in_another_engine(tmp_path: Path) -> None:
    folder = tmp_path / "default"
    with open_filled(tmp_path) as engine:
        session = engine.chat("work")
        session.ask("when is soup served?", k=1)
        numbers, messages = session.numbers, session.messages
    with open_filled(tmp_path) as engine:
        again = engine.chat("work")
        assert again.numbers == numbers
        assert [(message.role, message.text) for message in again.messages] == [
            (message.role, message.text) for message in messages
        ]
    saved = json.loads((folder / "sessions" / "work.json").read_text(encoding="utf-8"))
    assert list(saved) == ["documents", "turns"]


def test_a_failed_answer_is_not_remembered(tmp_path: Path) -> None:
    llm = ScriptedLLM([DriverFailed("the model is asleep")])
    with open_filled(tmp_path, llm) as engine:
        session = engine.chat("work")
        with pytest.raises(DriverFailed, match="asleep"):
            session.ask("when is soup served?")
        assert session.messages == ()
        assert json.loads((tmp_path / "default/sessions/work.json").read_text(encoding="utf-8"))["turns"] == []


def test_the_oldest_messages_are_dropped(tmp_path: Path) -> None:
    with open_filled(tmp_path) as engine:
        session = engine.chat()
        for number in range(MAX_MESSAGES // 2 + 1):
            session.ask(f"soup {number}?")
    assert len(session.messages) == MAX_MESSAGES
    assert session.messages[0].text == "soup 1?"


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 200])
def test_a_name_is_a_plain_one(tmp_path: Path, name: str) -> None:
    with open_filled(tmp_path) as engine, pytest.raises(SettingsError, match="plain name"):
        engine.chat(name)


def test_a_named_session_needs_a_folder() -> None:
    with (
        Engine.open(":memory:", embedder="hashed") as engine,
        pytest.raises(SettingsError, match="PostgreSQL and in-memory collections are not supported"),
    ):
        engine.chat("work")


@pytest.mark.parametrize("text", ["", "[1]", '{"documents": [1], "turns": []}', '{"documents": [], "turns": [{}]}'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    with open_filled(tmp_path) as engine:
        file = tmp_path / "default" / "sessions" / "work.json"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SourceError, match="delete it to start a new one"):
            engine.chat("work")
