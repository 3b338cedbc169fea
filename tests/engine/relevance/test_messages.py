"""Age, channel and thread as factors of relevance: cases 10.2 and 10.3, in order with defaults, and by their values."""

from datetime import UTC, datetime, timedelta

import pytest

from clew import Document, Engine, Filter, Message, Settings
from clew.compat import find_similar_messages
from clew.core.settings import ScoringConfig, SearchConfig
from clew.core.window import ContextWindow
from tests.engine.chosen import ChosenEmbedder, OpenEngine

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PROMPT = "what of it?"
DEFAULTS = Settings()
BY_COSINE = Settings(scoring=ScoringConfig(base="similarity"), search=SearchConfig(strategy="semantic"))


def fill(open_engine: OpenEngine, *said: tuple[str, float, float, str, str | None]) -> Engine:
    """An engine over messages, each given by its text, cosine, age in hours, channel and what it replies to."""
    plan = {text: {"q": cosine} for text, cosine, *_ in said}
    engine = open_engine(embedder=ChosenEmbedder({**plan, PROMPT: {"q": 1.0}}))
    engine.add_messages(
        Message(text, author="ada", id=text, at=NOW - timedelta(hours=ago), channel=channel, reply_to=reply)
        for text, _, ago, channel, reply in said
    )
    return engine


def ask_window(engine: Engine, settings: Settings = DEFAULTS, prompt: str = PROMPT) -> ContextWindow:
    return engine.window("ops", prompt, now=NOW, include_related_channels=True, settings=settings)


def scores(window: ContextWindow) -> dict[str, float]:
    return {each.id: each.score for each in window.messages}


def best_first(window: ContextWindow) -> list[str]:
    return [each.id for each in sorted(window.messages, key=lambda each: -each.score)]


def test_10_2_a_real_conversation(open_engine: OpenEngine) -> None:
    engine = fill(
        open_engine,
        ("msg1", 0.85, 1 / 6, "ops", None),
        ("msg2", 0.75, 1 / 12, "ops", "msg1"),
        ("msg3", 0.95, 0, "dev", None),
    )
    values = {"msg1": 1.479841, "msg2": 1.327686, "msg3": 0.95}
    assert scores(ask_window(engine, BY_COSINE)) == pytest.approx(values, abs=1e-6)
    assert best_first(ask_window(engine, BY_COSINE)) == ["msg1", "msg2", "msg3"]
    assert best_first(ask_window(engine)) == ["msg1", "msg2", "msg3"]
    found = find_similar_messages(engine, PROMPT, now=NOW)
    assert [each.id for each in found] == ["msg1", "msg2", "msg3"]


def test_10_3_new_and_here_before_old_and_elsewhere(open_engine: OpenEngine) -> None:
    engine = fill(open_engine, ("n", 0.95, 0, "ops", None), ("o", 0.98, 1, "dev", None))
    exact = ask_window(engine, BY_COSINE)
    assert scores(exact) == pytest.approx({"n": 1.14, "o": 0.802356}, abs=1e-6)
    assert [each.original_score for each in exact.messages] == pytest.approx([0.95, 0.98], abs=1e-6)
    default = ask_window(engine)
    assert best_first(default) == ["n", "o"]
    assert {each.id: each.similarity for each in default.messages} == pytest.approx({"n": 0.95, "o": 0.98}, abs=1e-6)
    assert all(each.score > 0 for each in default.messages)


QUESTION = "What's the status of the API integration?"


@pytest.fixture
def status(open_engine: OpenEngine) -> Engine:
    """Six weekly reports of the status in the same words, the last one five minutes old, and other talk."""
    plan = {f"Status of the API integration: {name}": {"q": 0.8} for name in ("a", "b", "c", "d", "e", "f")}
    plan |= {"Lunch is soup today": {}, "The printer is broken again": {}}
    engine = open_engine(embedder=ChosenEmbedder({**plan, QUESTION: {"q": 1.0}}))
    ages = [5 * 7 * 24.0, 4 * 7 * 24.0, 3 * 7 * 24.0, 2 * 7 * 24.0, 7 * 24.0, 1 / 12, 1.0, 2.0]
    engine.add_messages(
        Message(text, author="ada", id=text.split()[-1], at=NOW - timedelta(hours=ago), channel="ops")
        for text, ago in zip(plan, ages, strict=True)
    )
    return engine


def test_a_new_status_beats_an_old_one_of_the_same_words(status: Engine) -> None:
    hits = status.search(QUESTION, now=NOW)
    assert hits[0].chunk.meta["message"] == "f"
    assert hits[0].score > hits[-1].score > 0
    relevance = {hit.chunk.id: hit.relevance for hit in status.search(QUESTION, k=8)}
    assert {hit.chunk.id: hit.relevance for hit in hits} == pytest.approx(
        {hit.chunk.id: relevance[hit.chunk.id] for hit in hits}
    )
    window = ask_window(status, prompt=QUESTION)
    assert best_first(window)[0] == "f"
    assert min(each.score for each in window.messages) > 0


def test_in_another_time_another_status_is_new(status: Engine) -> None:
    then = NOW - timedelta(hours=5 * 7 * 24)
    assert status.search(QUESTION, now=then)[0].chunk.meta["message"] == "a"


def test_a_message_of_the_channel_comes_before_the_same_words_elsewhere(open_engine: OpenEngine) -> None:
    engine = fill(open_engine, ("in dev", 0.8, 1, "dev", None), ("in ops", 0.8, 1, "ops", None))
    for channel in ("ops", "dev"):
        assert engine.search(PROMPT, channel=channel)[0].chunk.meta["channel"] == channel


def test_pages_and_messages_are_one_list(open_engine: OpenEngine) -> None:
    """By relevance, whatever the factors of a message that does not answer."""
    engine = fill(open_engine, ("weak", 0.3, 0, "ops", None))
    engine.opened.embedder.plan["A page of it."] = {"q": 0.9}  # type: ignore[attr-defined]
    engine.add_documents([Document("page", "A page of it.")])
    hits = engine.search(PROMPT, now=NOW, channel="ops")
    assert [hit.document.kind for hit in hits] == ["page", "thread"]
    assert "page" not in {hit.document.kind for hit in engine.search(PROMPT, where=Filter(kinds={"thread"}))}
