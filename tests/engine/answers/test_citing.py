"""Citations, session numbers and the bot's hook through the engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import Engine, Message, Settings
from clew.compat import message_with_context
from clew.core.settings import ContextConfig, SessionConfig

VAULT = "# Vault\n\nKeys are rotated by the platform team every Monday.\n"
SOUP = "# Galley\n\nPea soup is on Thursdays, and the spoons are counted after.\n"
BOATS = "# Boats\n\nThe tender is moored at the inner quay by the crane.\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    for name, text in (("vault", VAULT), ("galley", SOUP), ("boats", BOATS)):
        (tmp_path / f"{name}.md").write_text(text)
    with Engine.open("kept.clew", embedder="hashed") as engine:
        engine.add("vault.md", "galley.md", "boats.md")
        yield engine


def test_every_passage_is_cited_and_the_quote_is_the_documents(engine: Engine) -> None:
    context = engine.context("who rotates the keys?")
    assert context.citations
    for citation in context.citations:
        document = engine.read(citation.document)
        assert document.text[citation.start : citation.end] == citation.quote
        assert (citation.version, citation.uri, citation.title) == (document.hash, document.uri, document.title)
    assert {check.standing for check in engine.check(context.citations)} == {"stands"}


def test_after_a_change_it_is_known_what_no_longer_stands(engine: Engine) -> None:
    anything = Settings(context=ContextConfig(min_chance=0.0, min_relevance=0.0))
    context = engine.context("who rotates the keys? pea soup, tender", k=3, settings=anything)
    assert len(context.citations) == 3
    Path("vault.md").write_text(VAULT.replace("platform", "security"))
    Path("galley.md").write_text("Put on top: a note.\n\n" + SOUP)
    engine.add("vault.md", "galley.md")
    engine.drop("boats.md")
    standing = {check.citation.uri: check for check in engine.check(context.citations)}
    assert {uri: check.standing for uri, check in standing.items()} == {
        "vault.md": "changed",
        "galley.md": "moved",
        "boats.md": "gone",
    }
    moved = standing["galley.md"]
    assert moved.start is not None
    assert engine.read("galley.md").text[moved.start :].startswith(moved.citation.quote)


def test_a_message_is_cited_with_who_said_it(engine: Engine) -> None:
    engine.add_messages([Message("the anchor winch squeaks again", id="m1", channel="yard", author="Ann")])
    (citation,) = engine.context("anchor winch squeaks", k=1).citations
    assert (citation.message, citation.author, citation.quote) == ("m1", "Ann", "the anchor winch squeaks again")


def test_a_document_keeps_its_number_in_a_session(engine: Engine) -> None:
    first = engine.context("keys rotated", k=1, session="chat", render="knowledge_base")
    assert "### [1] vault.md" in first.text
    second = engine.context("pea soup spoons", k=1, session="chat", render="knowledge_base")
    assert "### [2] galley.md" in second.text
    again = engine.context("keys rotated", k=1, session="chat", render="knowledge_base")
    assert "### [1] vault.md" in again.text
    other = engine.context("pea soup spoons", k=1, session="other", render="knowledge_base")
    assert "### [1] galley.md" in other.text
    assert "### [1] galley.md" in engine.context("pea soup spoons", k=1, render="knowledge_base").text
    assert second.numbers == {engine.read("galley.md").id: 2}
    sessions = engine.sessions
    assert sessions.get_knowledge_source_id_by_index("chat", 2) == engine.read("galley.md").id
    assert [sessions.get_knowledge_source_id_by_index("chat", n) for n in (0, -1, 3)] == [None, None, None]


@pytest.mark.parametrize(
    ("config", "left"),
    [
        (SessionConfig(max_sessions=1), [{}, {"x": 1}]),
        (SessionConfig(), [{"a": 1, "b": 2}, {"x": 1}]),
    ],
)
def test_sessions_are_bounded_by_the_settings(config: SessionConfig, left: list[dict[str, int]]) -> None:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(session=config)) as engine:
        engine.sessions.set_document_index("one", ["a", "b"])
        engine.sessions.set_document_index("two", ["x"])
        assert [engine.sessions.get_document_numbers(name) for name in ("one", "two")] == left


def test_an_idle_session_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(session=SessionConfig(idle=5))) as engine:
        engine.sessions.set_document_index("one", ["a"])
        later = engine.sessions._clock() + 6
        monkeypatch.setattr(engine.sessions, "_clock", lambda: later)
        assert engine.sessions.get_document_numbers("one") == {}


def test_a_message_with_what_is_known_before_it(engine: Engine) -> None:
    said = message_with_context(engine, "who rotates the keys?")
    assert said.startswith("<knowledge_base>\n")
    assert said.endswith("\n</knowledge_base>\n\nUser: who rotates the keys?")
    assert "platform team" in said
    other = message_with_context(engine, "thanks", rag_query="pea soup")
    assert "Thursdays" in other.split("[2]")[0]
    assert other.endswith("\n\nUser: thanks")
    markdown = Settings(context=ContextConfig(wrap="markdown"))
    assert message_with_context(engine, "keys", settings=markdown).startswith("## Knowledge base\n\n")
    for tokens in range(10, 80):
        small = Settings(context=ContextConfig(tokens=tokens))
        said = message_with_context(engine, "keys", settings=small).removesuffix("keys").removesuffix("\n\nUser: ")
        assert len(said) <= 4 * tokens  # the wrapper too


def test_without_a_knowledge_base_the_message_is_alone() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        assert message_with_context(engine, "thanks") == "thanks"


def test_the_context_of_a_whole_conversation(engine: Engine) -> None:
    talk = [Message("where is the tender moored?"), Message("and when is pea soup?")]
    context = engine.context(talk, k=3)
    assert {"boats.md", "galley.md"} <= {record.uri for record in context.documents}


def test_a_message_without_words_comes_back_alone(engine: Engine) -> None:
    assert message_with_context(engine, "  ") == "  "
    assert message_with_context(engine, "how are buoys moored?", rag_query="  ") == message_with_context(
        engine, "how are buoys moored?"
    )
