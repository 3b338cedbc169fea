"""Conversations through the front door: windows, similar messages, styles and links; every setting counts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Document, DriverFailed, Engine, Filter, Message, NotFound, Settings, SettingsError
from clew.compat import find_similar_messages
from clew.core.protocols import Role
from clew.core.settings import ContextConfig, IngestionConfig, ScoringConfig, SearchConfig, ThreadConfig
from clew.core.types import Hit, Matrix
from clew.core.window import ContextWindow
from clew.drivers.llm.scripted import ScriptedLLM
from clew.drivers.store.store import Store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PROMPT = "what about the key?"
ROOT = Path(__file__).parents[3]
EXACT = ScoringConfig(base="similarity", authors=False)
SEMANTIC = SearchConfig(strategy="semantic")


@dataclass(frozen=True)
class Planned:
    """An embedder for which every message is as similar to any query as the plan says; what is not in it is not."""

    plan: Mapping[str, float]
    name: str = "planned"
    dim: int = 512
    max_tokens: int = 512
    min_similarity: float = 0.1

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        rows = np.zeros((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            body = text.rsplit("\n\n", 1)[-1]
            own = 1 + list(self.plan).index(body) if body in self.plan else self.dim - 1
            cosine = 1.0 if role == "query" else self.plan.get(body, 0.0)
            rows[at, 0], rows[at, own] = cosine, sqrt(1 - cosine**2)
        return rows

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


@dataclass
class Chat:
    """An engine over planned messages, and what was said so far."""

    engine: Engine
    plan: dict[str, float]

    def say(
        self,
        text: str,
        similarity: float,
        *,
        ago: float | None = 0.0,
        name: str = "",
        reply: str | None = None,
        at: str = "ops",
    ) -> None:
        self.plan[text] = similarity
        when = None if ago is None else NOW - timedelta(hours=ago)
        self.engine.add_messages(
            [Message(text, author="ada", at=when, id=name or text, channel=at, reply_to=reply)], settings=settings()
        )

    def window(
        self, scoring: ScoringConfig = EXACT, *, search: SearchConfig = SEMANTIC, **options: Any
    ) -> ContextWindow:
        given = settings(scoring, search=search)
        return self.engine.window("ops", PROMPT, now=NOW, settings=given, **options)


def settings(scoring: ScoringConfig = EXACT, *, search: SearchConfig = SEMANTIC) -> Settings:
    """The settings with this scoring and no floor of relevance: what is said here has no word of the prompt."""
    return Settings(
        threads=ThreadConfig(untangle=False),
        scoring=scoring,
        search=search,
        ingestion=IngestionConfig(),
        context=ContextConfig(min_chance=0.0, min_relevance=0.0),
    )


@pytest.fixture
def chat() -> Iterator[Chat]:
    plan: dict[str, float] = {}
    with Engine.open(":memory:", embedder=Planned(plan)) as engine:
        yield Chat(engine, plan)


def ids(window: ContextWindow) -> list[str]:
    return [each.id for each in window.messages]


# -- scores


def test_nearly_equal_scores_are_newest_first(chat: Chat) -> None:
    flat = replace(EXACT, time_decay=0.0)
    chat.say("oldest", 0.900, ago=3)
    chat.say("middle", 0.893, ago=2)
    chat.say("newest", 0.886, ago=1)
    scoring = replace(flat, channel_boost=1.0)
    assert ids(chat.window(scoring)) == ["middle", "oldest", "newest"]
    assert ids(chat.window(replace(scoring, score_equality=0.0))) == ["oldest", "middle", "newest"]
    assert ids(chat.window(replace(scoring, score_equality=0.05))) == ["newest", "middle", "oldest"]


def test_an_old_message_is_not_hidden_by_its_age(chat: Chat) -> None:
    chat.say("old", 0.95, ago=24)
    (only,) = chat.window(replace(EXACT, time_floor=0.0), min_similarity=0.7).messages
    assert only.time_score == pytest.approx(0.008230, abs=1e-6)
    assert only.score < 0.7
    assert chat.window(min_similarity=0.7).messages[0].time_score == 0.5  # the floor


def test_age_does_not_drown_similarity(chat: Chat) -> None:
    chat.say("near", 0.9, ago=500)
    chat.say("far", 0.3, ago=400)
    assert ids(chat.window()) == ["near", "far"]
    assert ids(chat.window(replace(EXACT, time_floor=0.0))) == ["far", "near"]  # all but 0, so newer first


@pytest.mark.parametrize(
    ("change", "order"),
    [
        ({}, ["reply", "alone"]),  # in a thread
        ({"thread_boost": 1.0}, ["alone", "reply"]),
        ({"thread_boost": 1.0, "flow_boost": 2.0}, ["reply", "alone"]),
        ({"thread_boost": 1.0, "time_decay": 5.0, "time_floor": 0.0}, ["alone", "reply"]),
    ],
)
def test_threads_and_flow(chat: Chat, change: dict[str, float], order: list[str]) -> None:
    chat.say("root", 0.6, ago=1.1)
    chat.say("reply", 0.7, ago=1, reply="root")
    chat.say("alone", 0.8, ago=1)
    found = find_similar_messages(chat.engine, PROMPT, now=NOW, settings=settings(replace(EXACT, **change)))  # type: ignore[arg-type]
    assert [each.id for each in found if each.id != "root"] == order


def test_completeness_prefers_what_stands_on_what_was_found(chat: Chat) -> None:
    chat.say("root", 0.6)
    chat.say("grounded", 0.70, reply="root")
    chat.say("unfound", -0.5)
    chat.say("loose", 0.75, reply="unfound")
    plain = [each.id for each in find_similar_messages(chat.engine, PROMPT, now=NOW, settings=settings())]
    assert plain[:2] == ["loose", "grounded"]
    given = settings(replace(EXACT, completeness_boost=2.0), search=replace(SEMANTIC, depth=3))
    whole = find_similar_messages(chat.engine, PROMPT, k=3, now=NOW, settings=given)
    assert [each.id for each in whole][:2] == ["grounded", "root"]
    assert {each.id: each.completeness_score for each in whole} == {"grounded": 2.0, "root": 2.0, "loose": 1.5}


def test_channel_boost(chat: Chat) -> None:
    chat.say("here", 0.8)
    chat.say("there", 0.9, at="dev")
    assert ids(chat.window(include_related_channels=True)) == ["here", "there"]
    assert ids(chat.window(replace(EXACT, channel_boost=1.0), include_related_channels=True)) == ["there", "here"]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, 0.8 * 0.5 + 0.1 * 0.818731 + 0.05 + 0.05),
        ({"semantic_weight": 0.4}, 0.4 * 0.5 + 0.1 * 0.818731 + 0.05 + 0.05),
        ({"time_weight": 0.0}, 0.8 * 0.5 + 0.05 + 0.05),
        ({"channel_weight": 0.5}, 0.8 * 0.5 + 0.1 * 0.818731 + 0.5 + 0.05),
        ({"thread_weight": 0.5}, 0.8 * 0.5 + 0.1 * 0.818731 + 0.05 + 0.5),
        ({"flow_weight": 0.1}, 0.8 * 0.5 + 0.1 * 0.818731 + 0.1 + 0.1 * 0.904837),
        ({"completeness_weight": 0.1}, 0.8 * 0.5 + 0.1 * 0.818731 + 0.1 + 0.1),
    ],
)
def test_the_weighted_sum(chat: Chat, weights: dict[str, float], expected: float) -> None:
    chat.say("root", 0.5, ago=1.5)
    chat.say("reply", 0.5, ago=1, reply="root")
    scoring = replace(EXACT, scoring="weighted_sum", **weights)  # type: ignore[arg-type]
    scores = {each.id: each.score for each in chat.window(scoring).messages}
    assert scores["reply"] == pytest.approx(expected, abs=1e-5)


def test_relevance_counts_words_too(chat: Chat) -> None:
    chat.say("the key, about the key", 0.3)
    chat.say("somebody else may have it by now, or else it is lost", 0.4)
    assert ids(chat.window())[0].startswith("somebody else")
    assert ids(chat.window(replace(EXACT, base="relevance")))[0] == "the key, about the key"
    assert ids(chat.window(ScoringConfig()))[0] == "the key, about the key"
    for each in chat.window(ScoringConfig()).messages:
        assert 0 <= each.original_score <= 1


# -- what is kept


def test_a_thread_keeps_what_alone_would_not_reach_the_mark(chat: Chat) -> None:
    chat.say("msg1", 0.7001)
    chat.say("msg2", 0.6, reply="msg1")
    chat.say("msg3", 0.3)
    window = chat.window(min_similarity=0.7)
    assert ids(window) == ["msg1", "msg2"]
    assert window.messages[0].score > 0.7
    assert [(each.message.id, each.reason) for each in window.dropped] == [("msg3", "below the minimum")]
    assert ids(chat.window(replace(EXACT, min_similarity=0.7))) == ["msg1", "msg2"]


def test_min_similarity_0_is_0_and_none_is_no_minimum(chat: Chat) -> None:
    chat.say("some", 0.3)
    chat.say("little", 0.05)
    chat.say("against", -0.2)
    assert ids(chat.window()) == ["some", "little", "against"]
    assert ids(chat.window(min_similarity=0.0)) == ["some", "little"]
    assert ids(chat.window(min_similarity=0.7)) == []
    assert "no message is relevant enough" in chat.window(min_similarity=0.7).reason
    with pytest.raises(SettingsError, match=r"scoring\.min_similarity is 7"):
        chat.window(min_similarity=7)


def test_what_words_find_needs_no_similarity_unless_it_is_asked_for(chat: Chat) -> None:
    chat.say("the key", 0.05)
    hybrid = SearchConfig(strategy="lexical")
    assert ids(chat.window(search=hybrid)) == ["the key"]
    assert chat.window(search=hybrid).messages[0].similarity == pytest.approx(0.05, abs=1e-4)
    assert ids(chat.window(search=hybrid, min_similarity=0.06)) == []


def test_parts_of_a_message_are_one(chat: Chat) -> None:
    long = " ".join(f"word{n}" for n in range(300))
    short = Settings(ingestion=IngestionConfig(chunk_size=100, chunk_overlap=20), threads=ThreadConfig(untangle=False))
    with Engine.open(":memory:", embedder="hashed", settings=short) as engine:
        engine.add_messages([Message(long, author="ada", id="test123", channel="ops", at=NOW)])
        assert engine.status().chunks > 2
        hits = engine.search("word7 word8", k=9)
        assert {hit.chunk.id for hit in hits} >= {"test123_chunk_0", "test123_chunk_1"}
        assert hits[0].chunk.meta["total_chunks"] == engine.status().chunks
        (found,) = find_similar_messages(engine, "word7 word8", now=NOW)
        assert found.text == long
        assert found.similarity == pytest.approx(max(hit.scores.get("semantic", 0) for hit in hits), abs=1e-5)
        assert ids(engine.window("ops", "word7 word8", now=NOW)) == ["test123"]


# -- the budget


def test_one_hit_of_two_hundred_characters_is_fifty_tokens(chat: Chat) -> None:
    chat.say("x" * 200, 0.9, name="m")
    window = chat.window(tokens=60)
    assert (ids(window), window.total_tokens) == (["m"], 50)
    assert chat.window(tokens=50).total_tokens == 50
    assert chat.window(tokens=49).messages == ()
    assert chat.window(tokens=49).reason == "no message fits 49 tokens"
    assert chat.window(replace(EXACT, tokens=49)).messages == ()


def test_a_hit_that_is_too_large_is_passed_over(chat: Chat) -> None:
    chat.say("y" * 400, 0.95, name="large")
    chat.say("small", 0.5)
    window = chat.window(tokens=60)
    assert ids(window) == ["small"]
    assert [(each.message.id, each.reason, each.tokens) for each in window.dropped] == [("large", "budget", 100)]


def test_what_is_answered_is_counted(chat: Chat) -> None:
    chat.say("q" * 200, 0.0, name="question")
    chat.say("a" * 100, 0.9, name="answer", reply="question")
    tight = chat.window(tokens=70)
    assert [(each.id, each.cut) for each in tight.messages] == [("question", True), ("answer", False)]
    assert tight.total_tokens <= 70  # the question is counted, and does not fit whole
    assert ids(chat.window(tokens=30)) == ["answer"]
    window = chat.window(tokens=80)
    assert ids(window) == ["question", "answer"]
    assert [each.found for each in window.messages] == [True, True]
    assert window.messages[1].parent == window.messages[0].message


def test_the_chain_comes_in_order_and_the_thread_where_there_is_room(chat: Chat) -> None:
    exchange = [
        "How do I set up my API key?",
        "Go to settings",
        "I don't see it there",
        "It's under Developer Settings",
    ]
    for place, text in enumerate(exchange):
        chat.say(
            text, 0.9 if place == 3 else -0.1, ago=4 - place, name=str(place), reply=str(place - 1) if place else None
        )
    chat.say("thanks", -0.1, ago=0.1, name="4", reply="3")
    window = chat.window(min_similarity=0.5, tokens=200)
    assert ids(window) == ["0", "1", "2", "3", "4"]
    assert window.text == "\n  ↪ ".join([*exchange, "thanks"])
    assert window.threads[0].whole
    assert len({each.thread for each in window.messages}) == 1  # a reply to a reply is in the root's thread
    tight = chat.window(min_similarity=0.5, tokens=window.total_tokens - 1)
    assert ids(tight) == ["0", "1", "2", "3"]
    assert not tight.threads[0].whole
    assert ids(chat.window(min_similarity=0.5, tokens=16)) == ["2", "3"]  # and what is nearest where there is little


def test_best_threads_come_first(chat: Chat) -> None:
    chat.say("Thread 2 message", 0.5, ago=0.5)
    chat.say("Thread 1 first message", 0.9, ago=3, name="a")
    chat.say("Thread 1 reply", 0.8, ago=2, reply="a")
    assert chat.window().text == "Thread 1 first message\n  ↪ Thread 1 reply\n\nThread 2 message"
    named = chat.window(replace(EXACT, authors=True))
    first, reply = "ada, 2026-05-01 09:00: Thread 1 first message", "ada, 2026-05-01 10:00: Thread 1 reply"
    assert named.text.startswith(f"{first}\n  ↪ {reply}\n\nada, 2026-05-01 11:30: ")
    assert named.total_tokens > chat.window().total_tokens


# -- channels, nothing, failure


def test_related_channels_are_found_however_much_the_own_channel_says(chat: Chat) -> None:
    for _ in range(60):  # more than a search looks at
        chat.say("in ops", 0.9)
    chat.say("in dev", 0.6, at="dev")
    assert "dev" in chat.window(include_related_channels=True).channels


def test_nothing_found_is_an_empty_window_with_a_reason(chat: Chat) -> None:
    empty = chat.window()
    assert (ids(empty), empty.total_tokens, set(empty.channels), empty.text) == ([], 0, {"ops"}, "")
    assert empty.reason == "channel 'ops' has no messages; the collection has no messages yet; add a chat export"
    chat.say("elsewhere", 0.9, at="dev-ops")
    assert chat.window().messages == ()
    assert chat.window().reason == "channel 'ops' has no messages; did you mean dev-ops?"


def test_a_channel_may_be_named_as_in_a_message(chat: Chat) -> None:
    chat.say("here", 0.9)
    chat.say("there", 0.9, at="#odd")
    found = [chat.engine.window(name, PROMPT, now=NOW, settings=settings()) for name in ("#ops", "#odd", "#")]
    assert [(ids(each), set(each.channels)) for each in found] == [
        (["here"], {"ops"}),
        (["there"], {"#odd"}),
        ([], {"#"}),
    ]
    for name, text in (("#ops", "here"), ("#odd", "there")):
        similar = find_similar_messages(chat.engine, PROMPT, channel=name, now=NOW, settings=settings())
        assert [(each.id, each.channel_score) for each in similar] == [(text, 1.2)]


def test_pages_are_no_messages(chat: Chat) -> None:
    chat.plan["A page."] = 0.9
    chat.engine.add_documents([Document("p", "A page.", meta={"channel": "ops"})])
    assert chat.window().messages == ()


def test_a_failure_is_never_nothing_found(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.say("here", 0.9)

    def broken(*args: object, **options: object) -> list[Hit]:
        raise DriverFailed("Index file not found")

    monkeypatch.setattr(Store, "find_candidates", broken)
    with pytest.raises(DriverFailed, match="Index file not found"):
        chat.engine.window("ops", "something else", settings=settings())


def test_what_cannot_be_asked(chat: Chat) -> None:
    with pytest.raises(SettingsError, match="tokens is 0"):
        chat.window(tokens=0)
    with pytest.raises(SettingsError, match="the query is empty"):
        chat.engine.window("ops", " ")
    with pytest.raises(SettingsError, match="the channel is empty"):
        chat.engine.window("", "x")
    with pytest.raises(SettingsError, match="k is 0"):
        find_similar_messages(chat.engine, "x", k=0)


def test_similar_messages_are_of_the_channel_and_best_first(chat: Chat) -> None:
    for n in range(9):
        chat.say(f"m{n}", 0.2 + n / 20)
    chat.say("other", 0.99, at="dev")
    found = find_similar_messages(chat.engine, PROMPT, channel="ops", now=NOW, settings=settings())
    assert [each.id for each in found] == ["m8", "m7", "m6", "m5", "m4"]
    assert found[0].score > found[1].score
    assert found[0].channel_score == 1.2
    anywhere = find_similar_messages(chat.engine, PROMPT, k=2, min_score=0.5, now=NOW, settings=settings())
    assert [each.id for each in anywhere] == ["other", "m8"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": "taste"},
        {"scoring": "sum"},
        {"time_decay": -1},
        {"time_floor": 1.5},
        {"tokens": 0},
        {"thread_boost": float("nan")},
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"scoring.{next(iter(wrong))} is"):
        ScoringConfig(**wrong)


def test_a_context_of_threads_says_each_message_after_an_arrow(chat: Chat) -> None:
    chat.say("first", 0.9, ago=3)
    chat.say("second", 0.8, ago=2, reply="first")
    chat.say("third", 0.7, ago=1, reply="second")
    chat.say("other", 0.5)
    context = chat.engine.context(PROMPT, render="threads", settings=settings())
    lines = ["ada, 2026-05-01 09:00: first", "↪ ada, 2026-05-01 10:00: second", "↪ ada, 2026-05-01 11:00: third"]
    assert context.text == "\n  ".join(lines) + "\n\nada, 2026-05-01 12:00: other"


# -- a person's style


def test_a_profile_needs_enough_messages_of_a_known_person(chat: Chat) -> None:
    with pytest.raises(NotFound, match="the collection has no messages yet"):
        chat.engine.profile("ada")
    for n in range(4):
        chat.say(f"sure thing, no worries {n}", 0.5)
    with pytest.raises(SettingsError, match="ada has 4 messages here; a style needs at least 5"):
        chat.engine.profile("ada")
    for n in range(4, 10):
        chat.say(f"sure thing, no worries {n}", 0.5)
    found = chat.engine.profile("ada")
    assert (found.messages, found.confidence, found.made_by) == (10, 0.5, "measured")
    assert any("no worries" in phrase for phrase in found.common_phrases)
    with pytest.raises(NotFound, match=r"no message by 'adda'; did you mean ada\?"):
        chat.engine.profile("adda")


def test_a_reply_prompt_shows_the_two_best_threads(chat: Chat) -> None:
    chat.say("Thread 1 first message", 0.9, ago=3, name="msg1")
    chat.say("Thread 1 reply", 0.8, ago=2, reply="msg1")
    chat.say("Thread 2 message", 0.7, ago=None)
    chat.say("Thread 3 message", 0.4, ago=2)
    chat.say("Thread 4 message", 0.3, ago=2)
    given = settings(replace(EXACT, time_decay=0.0))
    prompt = chat.engine.style_prompt("ada", PROMPT, now=NOW, settings=given)
    for words in ("Tone: ", "Vocabulary Level: ", "Message Length: short", "Common Phrases: "):
        assert words in prompt
    first, reply = "ada, 2026-05-01 09:00: Thread 1 first message", "ada, 2026-05-01 10:00: Thread 1 reply"
    assert f"{first}\n  ↪ {reply}\n\nada, undated: Thread 2 message" in prompt
    assert "Thread 3" not in prompt
    with pytest.raises(SettingsError, match="the message is empty"):
        chat.engine.style_prompt("ada", "  ")
    with pytest.raises(NotFound, match="no message by 'bob'"):
        chat.engine.style_prompt("bob", PROMPT)


def test_a_model_is_shown_how_a_person_writes_now() -> None:
    judged = {"tone": "dry", "vocabularyLevel": "advanced", "messageLength": "long", "commonPhrases": []}
    llm = ScriptedLLM([json.dumps(judged)])
    with Engine.open(":memory:", embedder="hashed", llm=llm) as engine:
        talk = [
            Message(f"message {n} of them", author="ada", id=str(n), channel="ops", at=NOW + timedelta(days=n))
            for n in range(60)
        ]
        engine.add_messages(talk, settings=settings())
        engine.profile("ada")
    asked = str(llm.requests[-1])
    assert "message 59 of them" in asked
    assert "message 9 of them" not in asked


# -- links


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The sample handbook and the sample chat in one collection."""
    with Engine.open(tmp_path_factory.mktemp("sample") / "s.clew", embedder="hashed") as engine:
        engine.add(ROOT / "examples" / "handbook", ROOT / "examples" / "chat")
        yield engine


def named(engine: Engine, name: str) -> str:
    return next(record.id for record in engine.list() if Path(record.uri).name == name)


@pytest.mark.parametrize(
    "name", ["key-rotation.md", "deploy-production.md", "travel.md", "deprecations.md", "refunds-limpet.md"]
)
def test_a_page_knows_the_threads_that_name_it_and_they_the_page(sample: Engine, name: str) -> None:
    page = named(sample, name)  # by address with and without the ending, and by file name
    threads = sample.links(page).cited_by
    assert threads
    stem = name.removesuffix(".md")
    for thread in threads:
        assert thread.kind == "thread"
        assert stem in sample.read(thread.id).text
        assert page in [record.id for record in sample.links(thread.id).cites]


def test_links_find_every_thread_that_has_the_address(sample: Engine) -> None:
    address = "handbook.skerrymark.example/product/tidewire-api"
    having = {record.id for record in sample.list(Filter(kinds={"thread"})) if address in sample.read(record.id).text}
    assert {record.id for record in sample.links(named(sample, "tidewire-api.md")).cited_by} == having
    assert len(having) == 2


def test_a_live_message_links_too(chat: Chat) -> None:
    chat.engine.add_documents([Document("p", "Pages.", uri="docs/a/x.md"), Document("q", "Other.", uri="docs/b/x.md")])
    chat.say("as in https://host.example/a/x, clearly", 0.5, name="url")
    chat.say("look at b/x.md please", 0.5, name="path")
    chat.say("nothing of x or a/x here", 0.5, name="none")
    assert [each.uri for each in chat.engine.links("p").cited_by] == ["ops/url"]
    assert [each.uri for each in chat.engine.links("docs/b/x.md").cited_by] == ["ops/path"]
    assert [each.id for each in chat.engine.links("ops/url").cites] == ["p"]
    chat.say("both are called x.md", 0.5, name="name")
    assert [each.id for each in chat.engine.links("ops/name").cites] == ["p", "q"]
    with pytest.raises(NotFound):
        chat.engine.links("nowhere.md")


def test_the_sample_chat_gives_a_window(sample: Engine) -> None:
    window = sample.window("platform", "who stands in for the key rotation?", tokens=500)
    assert 0 < window.total_tokens <= 500
    assert {each.message.channel for each in window.messages} == {"platform"}
    related = sample.window("platform", "key rotation in #field", tokens=500, include_related_channels=True)
    assert "field" in related.channels
    assert len(related.channels) <= 4
