"""The entry of the read path, through Engine: results are the caller's own, overrides, rewriting, channel and time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clew import Document, Engine, Extensions, Message, Settings
from clew.core.errors import DriverFailed, SettingsError
from clew.core.filter import EVERYTHING
from clew.core.protocols import Strategy
from clew.core.settings import (
    HistoryConfig,
    QueryTransformerConfig,
    RerankerConfig,
    ScoringConfig,
    SearchConfig,
)
from clew.core.trace import Trace, record
from clew.core.types import Hit, Query
from clew.drivers.llm.scripted import ScriptedLLM
from clew.query.search.find import build_query
from clew.query.search.strategies import Drivers, hybrid, rerank

PAGES = {
    "vault": "The signing keys in the vault are rotated by Dan.",
    "lunch": "Soup is served at noon in the canteen.",
    "tides": "High water at Lowport harbour follows the moon.",
}
TRANSFORM = QueryTransformerConfig(enabled=True)
NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)


def open_engine(
    settings: Settings | None = None,
    *,
    llm: ScriptedLLM | None = None,
    extensions: Extensions | None = None,
) -> Engine:
    settings = replace(settings or Settings(), reranker=RerankerConfig(name="overlap"))
    engine = Engine.open(":memory:", embedder="hashed", llm=llm, settings=settings, extensions=extensions)
    engine.add_documents(Document(name, text, uri=name, meta={"tags": ["a"]}) for name, text in PAGES.items())
    return engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    with open_engine() as opened:
        yield opened


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.doc_id for hit in hits]


def step_names(trace: Trace) -> list[str]:
    """The names of the steps of a trace, depth first."""
    return [trace.name, *(name for step in trace.steps for name in step_names(step))]


# -- what a search returns is the caller's


@pytest.mark.parametrize("cache", [256, 0])
@pytest.mark.parametrize("strategy", ["hybrid", "semantic", "lexical"])
def test_changing_a_hit_changes_no_later_search(engine: Engine, strategy: str, cache: int) -> None:
    settings = Settings(search=SearchConfig(cache=cache))

    def search() -> list[Hit]:
        return engine.search("who rotates the signing keys?", strategy=strategy, settings=settings)

    for _ in range(2):  # the first result, and one from the cache
        hit: Any = search()[0]
        hit.chunk.meta["x"] = 1
        hit.scores["y"] = 9
        hit.document.meta["tags"].append("x")
        for value in hit.chunk.meta.values():
            if isinstance(value, list):
                value.append("x")
    again = search()[0]
    assert "x" not in again.chunk.meta
    assert "y" not in again.scores
    assert again.document.meta["tags"] == ["a"]
    assert all("x" not in value for value in again.chunk.meta.values() if isinstance(value, list))


def test_a_list_of_hits_is_the_callers(engine: Engine) -> None:
    engine.search("soup").clear()
    assert engine.search("soup")


# -- a strategy overridden by name


def only_tides(drivers: Drivers) -> Strategy:
    def search(query: Query) -> list[Hit]:
        found = hybrid(drivers)(replace(query, text=PAGES["tides"], vector=None))
        return [hit for hit in found if hit.chunk.doc_id == "tides"]

    return search


@pytest.mark.parametrize("strategy", ["hybrid", "auto", "rerank", "multi_query", "self_reflective", "chunked"])
def test_an_override_is_what_other_strategies_are_built_on(strategy: str) -> None:
    question = "at what time of the day is the hot soup of the week served?"
    with open_engine() as plain, open_engine(extensions=Extensions(strategies={"hybrid": only_tides})) as engine:
        assert ids(plain.search(question, k=1, strategy=strategy)) == ["lunch"]
        assert ids(engine.search(question, k=1, strategy=strategy)) == ["tides"]


def test_auto_uses_every_override() -> None:
    with open_engine(extensions=Extensions(strategies={"rerank": only_tides})) as engine:
        assert ids(engine.search("soup at noon (use rerank)", k=1, strategy="auto")) == ["tides"]


def test_an_override_may_be_built_on_strategies_that_use_its_name() -> None:
    def reranked(drivers: Drivers) -> Strategy:
        return rerank(drivers)

    def by_name(drivers: Drivers) -> Strategy:
        return drivers.build_strategy("hybrid")

    for override in (reranked, by_name):
        with open_engine(extensions=Extensions(strategies={"hybrid": override, "rerank": reranked})) as engine:
            for strategy in ("hybrid", "rerank", "auto"):
                assert ids(engine.search("when is soup served?", k=1, strategy=strategy)) == ["lunch"]


def test_results_of_an_override_are_not_cached() -> None:
    calls: list[str] = []

    def counted(drivers: Drivers) -> Strategy:
        def search(query: Query) -> list[Hit]:
            calls.append(query.text)
            return hybrid(drivers)(query)

        return search

    with open_engine(extensions=Extensions(strategies={"hybrid": counted})) as engine:
        for _ in range(2):
            engine.search("soup", strategy="rerank")
    assert len(calls) == 2


# -- query rewriting


def count_queries(trace: Trace) -> int:
    """How many queries multi_query searched for."""
    return step_names(trace).count("query")


def search_with_transformer(llm: ScriptedLLM, **settings: Any) -> tuple[list[str], int]:
    """What multi_query finds with the query transformer, and how many queries it searched for."""
    config = QueryTransformerConfig(**{"enabled": True, **settings})
    with open_engine(Settings(query_transformer=config), llm=llm) as engine, record() as trace:
        return ids(engine.search("where do I eat?", k=3, strategy="multi_query")), count_queries(trace)


def test_multi_query_uses_the_queries_of_the_transformer() -> None:
    llm = ScriptedLLM("1. soup served canteen\n2. harbour high water\n3. vault keys")
    found, queries = search_with_transformer(llm, domain_context="a small company")
    assert set(found) == {"vault", "lunch", "tides"}
    assert queries == 4  # the question too
    assert "2 to 6 words" in llm.requests[-1].prompt
    assert "a small company" in llm.requests[-1].prompt


def test_the_transformer_is_off_by_default() -> None:
    llm = ScriptedLLM("soup served canteen")
    search_with_transformer(llm, enabled=False)
    assert QueryTransformerConfig().enabled is False
    assert "2 to 6 words" not in llm.requests[-1].prompt


def test_num_queries_bounds_the_queries() -> None:
    llm = ScriptedLLM("soup served canteen\nharbour high water\nvault keys")
    assert search_with_transformer(llm, num_queries=1)[1] == 2
    assert "Write 1 different" in llm.requests[-1].prompt
    with pytest.raises(SettingsError, match=r"query_transformer\.num_queries is 0"):
        QueryTransformerConfig(num_queries=0)


def test_suppress_thinking_drops_the_reasoning() -> None:
    answer = "<think>\nsoup served canteen\nharbour high water\n</think>\nvault keys"
    asked = ScriptedLLM(answer)
    assert search_with_transformer(asked, suppress_thinking=True)[1] == 2
    assert "without reasoning" in asked.requests[-1].system
    assert search_with_transformer(ScriptedLLM(answer), suppress_thinking=False)[1] > 2


def test_the_transformer_is_shown_the_conversation() -> None:
    llm = ScriptedLLM("soup served canteen")
    settings = Settings(query_transformer=TRANSFORM, history=HistoryConfig(max_context_turns=1))
    history = [Message("Hello there"), Message("Lunch?"), Message("It is soup today", role="assistant")]
    with open_engine(settings, llm=llm) as engine:
        engine.search("And when is that served?", strategy="multi_query", history=history)
    assert "user: Lunch?\nassistant: It is soup today" in llm.requests[-1].prompt
    assert "Hello there" not in llm.requests[-1].prompt


def test_where_the_transformer_fails_the_question_is_searched() -> None:
    def fail(_: str) -> str:
        raise DriverFailed("the model is gone")

    settings = Settings(query_transformer=TRANSFORM)
    with open_engine(settings, llm=ScriptedLLM(fail)) as engine, record() as trace:
        assert ids(engine.search("when is soup served?", k=1, strategy="multi_query")) == ["lunch"]
    fanned = trace.find("fanned")
    assert fanned
    assert "the model is gone" in str(fanned.notes["transform_failed"])


def test_without_a_model_there_are_no_variations() -> None:
    with open_engine(Settings(query_transformer=TRANSFORM)) as engine, record() as trace:
        engine.search("when is soup served and who rotates the keys?", strategy="multi_query")
    assert "variations" not in step_names(trace)


@pytest.mark.parametrize(
    ("settings", "expanded"),
    [
        ({}, "Soup bread Harbour: More"),
        ({"max_context_turns": 1}, "Harbour pier: More"),
        ({"max_context_turns": 0}, "More"),
        ({"include_assistant": False}, "Soup canteen Harbour: More"),
        ({"max_keywords": 1}, "Harbour: More"),
        ({"keyword_weight": 9.0}, "bread Harbour pier: More"),
    ],
)
def test_the_expansion_of_an_ambiguous_question(engine: Engine, settings: dict[str, Any], expanded: str) -> None:
    history = [
        Message("Soup in the canteen with bread"),
        Message("Fresh bread", role="assistant"),
        Message("Harbour"),
        Message("The pier of the harbour", role="assistant"),
    ]
    with record() as trace:
        engine.search("More", history=history, settings=Settings(history=HistoryConfig(**settings)))
    step = trace.find("expand")
    assert step
    assert step.notes.get("query", "More") == expanded


@pytest.mark.parametrize(("name", "value"), [("max_context_turns", -1), ("keyword_weight", 0.5), ("max_keywords", 0)])
def test_history_settings_out_of_range(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=rf"history\.{name} is"):
        HistoryConfig(**{name: value})  # type: ignore[arg-type]


# -- the channel and the time in which a question is asked


def find_in_chat(
    *, channel: str | None = None, now: datetime | None = None, scoring: ScoringConfig | None = None
) -> list[Hit]:
    settings = Settings(scoring=scoring or ScoringConfig())
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_messages(
            [
                Message("The deploy broke again today", author="ann", channel="ops", at=NOW - timedelta(days=9)),
                Message("The deploy broke again today", author="bob", channel="dev", at=NOW - timedelta(hours=1)),
                Message("Lunch is late", author="bob", channel="dev", at=NOW),
            ]
        )
        query = build_query("deploy broke", 3, EVERYTHING, (), settings, channel=channel, now=now)
        return engine.opened.finder.find(query, "hybrid", settings)


def first_channel(hits: Sequence[Hit]) -> str:
    return str(hits[0].chunk.meta["channel"])


def test_messages_of_the_channel_of_the_query_come_first() -> None:
    assert [first_channel(find_in_chat(channel=channel)) for channel in ("ops", "dev")] == ["ops", "dev"]
    level = ScoringConfig(channel_boost=1.0)
    assert first_channel(find_in_chat(channel="ops", scoring=level)) == first_channel(
        find_in_chat(channel="dev", scoring=level)
    )


def test_ages_are_counted_from_the_time_of_the_query() -> None:
    assert first_channel(find_in_chat(now=NOW)) == "dev"
    assert first_channel(find_in_chat(now=NOW - timedelta(days=9))) == "ops"


def test_without_channel_and_time_nothing_is_boosted() -> None:
    assert not any("message_boost" in hit.scores for hit in find_in_chat())
    assert any("message_boost" in hit.scores for hit in find_in_chat(now=NOW))
