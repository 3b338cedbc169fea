"""Every strategy through Engine.search, with settings that change what comes out."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from clew import EVERYTHING, Document, Engine, Filter, Message, Settings, SettingsError, record
from clew.core.protocols import Role
from clew.core.settings import ConversationConfig, IngestionConfig, RerankerConfig, SearchConfig, StoreConfig
from clew.core.types import Hit, Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.llm.scripted import ScriptedLLM
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.query.search.strategies import parse_grade, probability_to_grade

OVERLAP = RerankerConfig(name="overlap")
BARE = Settings(ingestion=IngestionConfig())  # so that a model is asked for nothing else


def with_search(**search: object) -> Settings:
    return Settings(search=SearchConfig(**search), reranker=OVERLAP)  # type: ignore[arg-type]


PAGES = {
    "vault": "# Vault\n\nSecrets live in the vault.\n\n"
    "## Rotation\n\nSigning keys are rotated every ninety days by Dan.\n",
    "oncall": "# On call\n\nThe pager rotation changes every Monday.\n\n"
    "## Escalation\n\nAfter ten minutes the lead is called.\n",
    "lunch": "# Lunch\n\nSoup is served at noon in the canteen. The error E-4417 means no soup.\n",
    "tides": "# Tides\n\nHigh water at Lowport harbour follows the moon. A gauge measures the tide at the pier.\n",
}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(reranker=OVERLAP)) as opened:
        opened.add_documents(Document(name, text, uri=name) for name, text in PAGES.items())
        yield opened


def documents(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.doc_id for hit in hits]


@pytest.mark.parametrize(
    "strategy",
    ["semantic", "lexical", "hybrid", "document_boost", "multi_query", "rerank", "self_reflective", "auto"],
)
def test_every_strategy_finds_what_was_asked(engine: Engine, strategy: str) -> None:
    with record() as trace:
        hits = engine.search("who rotates the signing keys?", k=3, strategy=strategy)
    assert documents(hits)[0] == "vault"
    assert len({hit.chunk.id for hit in hits}) == len(hits) <= 3
    assert trace.find("search")
    assert engine.search("who rotates the signing keys?", k=3, strategy=strategy) == hits


# -- several queries


def test_multi_query_asks_the_variations_in_one_batch() -> None:
    calls: list[int] = []

    class Counting(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            if role == "query":
                calls.append(len(texts))
            return super().embed(texts, role=role)

    model = ScriptedLLM(lambda _: "1. pager duty\n2. soup at noon\n3. harbour tides")
    with Engine.open(":memory:", embedder=Counting(), llm=model) as engine:
        engine.add_documents((Document(name, text) for name, text in PAGES.items()), settings=BARE)
        hits = engine.search("Tell me about Python", k=8, strategy="multi_query")
        assert {"oncall", "lunch", "tides"} <= set(documents(hits))
        assert calls == [4]
        none = engine.search("Tell me about Python", k=8, strategy="multi_query", settings=with_search(variations=0))
        assert documents(none) != documents(hits)


def test_multi_query_without_a_model_is_hybrid_and_says_so(engine: Engine) -> None:
    question = "when is soup served and who rotates the signing keys?"
    with record() as trace:
        hits = engine.search(question, k=4, strategy="multi_query")
    assert hits == engine.search(question, k=4)
    found = trace.find("multi_query")
    assert found
    assert "this is hybrid" in str(found.notes["reason"])


# -- re-ranking and reflection


def test_rerank_orders_by_the_reranker(engine: Engine) -> None:
    hits = engine.search("the tide at the pier", k=2, strategy="rerank")
    assert documents(hits)[0] == "tides"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert "rerank" in hits[0].scores
    with record() as trace:
        engine.search("rotation", k=1, strategy="rerank", settings=with_search(candidates=2, cache=0))
    step = trace.find("rerank")
    assert step
    assert step.out == 2


def test_a_missing_reranker_says_so_and_keeps_the_order(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(reranker=RerankerConfig(name=""))
    with caplog.at_level(logging.WARNING, logger="clew"), record() as trace:
        kept = engine.search("rotation", k=3, strategy="rerank", settings=settings)
    assert documents(kept) == documents(engine.search("rotation", k=3, strategy="hybrid"))
    assert "no reranker" in caplog.text
    step = trace.find("rerank")
    assert step
    assert "none" in str(step.notes["reranker"])


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        ("2", 2),
        ("Grade: 2", 2),
        ("2/5", 2),
        ("2.", 2),
        ("I give it a 4.", 4),
        ("5 - complete", 5),
        ("good", None),
        ("", None),
        ("0", 1),
        ("0/5", 1),
        ("2.5/5", 2),
        ("3.5/5", 3),
        ("On a scale of 1-5: 2", 2),
        ("-2", None),
        ("42", None),
    ],
)
def test_a_grade_is_read_from_what_a_model_says(answer: str, grade: int | None) -> None:
    assert parse_grade(answer) == grade


def test_a_chance_becomes_a_grade() -> None:
    assert [probability_to_grade(chance) for chance in (0.0, 0.19, 0.2, 0.5, 0.99, 1.0)] == [1, 1, 2, 3, 5, 5]


def reflecting(answers: Sequence[str]) -> tuple[ScriptedLLM, list[Hit], list[str]]:
    model = ScriptedLLM(answers)
    with Engine.open(":memory:", embedder="hashed", llm=model) as engine:
        engine.add_documents((Document(name, text) for name, text in PAGES.items()), settings=BARE)
        with record() as trace:
            hits = engine.search("AI ethics", k=1, strategy="self_reflective", settings=with_search(min_similarity=-1))
    search = trace.find("search")
    assert search
    return (
        model,
        hits,
        [f"{step.notes['query']}: {step.notes['grade']}" for step in search.steps if step.name == "reflect"],
    )


def test_a_good_grade_ends_the_search() -> None:
    model, _, rounds = reflecting(["4"])
    assert model.calls == 1
    assert rounds == ["AI ethics: 4"]


def test_a_poor_grade_searches_again_and_is_graded_again() -> None:
    model, hits, rounds = reflecting(["2/5", "soup at noon", "Grade: 4"])
    assert model.calls == 3
    assert rounds == ["AI ethics: 2", "soup at noon: 4"]
    assert documents(hits) == ["lunch"]


def test_the_first_hits_are_kept_when_the_second_are_worse() -> None:
    first = reflecting(["3"])[1]
    _, hits, rounds = reflecting(["2", "soup at noon", "1"])
    assert rounds == ["AI ethics: 2", "soup at noon: 1"]
    assert documents(hits) == documents(first)


def test_an_answer_that_is_no_grade_is_recorded_as_such() -> None:
    model, hits, rounds = reflecting(["who knows"])
    assert rounds == ["AI ethics: ungraded"]
    assert model.calls == 1
    assert hits


def test_rounds_bound_the_searches(engine: Engine) -> None:
    def rounds(most: int) -> int:
        with record() as trace:
            engine.search("zebra crossings of Patagonia", strategy="self_reflective", settings=with_search(rounds=most))
        search = trace.find("search")
        assert search
        return sum(step.name == "reflect" for step in search.steps)

    assert rounds(1) == 1
    assert rounds(2) >= 1


# -- auto, history, caching, many


def test_auto_says_where_it_went_and_why(engine: Engine) -> None:
    with record() as trace:
        engine.search("Search for the pager but use multi-query approach", strategy="auto")
    step = trace.find("auto")
    assert step
    assert step.notes["strategy"] == "multi_query"
    assert "multi-query" in str(step.notes["reason"])


def test_history_tells_what_a_short_question_means(engine: Engine) -> None:
    history = [Message("How do the tides at Lowport harbour work?")]
    assert documents(engine.search("Show me more", k=1, history=history)) == ["tides"]
    assert documents(engine.search("Show me more", k=1, history=[Message("When is the soup served?")])) == ["lunch"]


def test_history_changes_nothing_of_a_question_that_stands_alone(engine: Engine) -> None:
    history = [Message("When is the soup served?")]
    for question in (
        "At Lowport harbour, how do the tides work and what drives them?",
        "Which harbour has the same tides as Lowport?",
    ):
        with record() as trace:
            found = engine.search(question, history=history)
        assert not trace.find("expand")
        assert documents(found) == documents(engine.search(question))


def test_an_explanation_has_its_stages_although_the_result_is_cached(engine: Engine) -> None:
    hits = engine.search("soup", k=2)
    explained = engine.explain("soup", k=2)
    search = explained.trace.find("search")
    assert search
    assert "cached" not in search.notes
    assert search.steps
    assert [hit.chunk.id for hit in explained.hits] == [hit.chunk.id for hit in hits]


def test_results_are_kept_until_the_collection_changes(engine: Engine) -> None:
    def cached() -> bool:
        with record() as trace:
            engine.search("soup", k=2)
        search = trace.find("search")
        assert search
        return bool(search.notes.get("cached", False))

    assert [cached(), cached()] == [False, True]
    engine.add_documents([Document("more", "More soup for all.")])
    assert not cached()
    assert "more" in documents(engine.search("soup", k=2))
    with record() as trace:
        engine.search("soup", k=2, settings=with_search(cache=0))
        engine.search("soup", k=2, settings=with_search(cache=0))
    assert not any(step.notes.get("cached") for step in trace.steps)


def test_many_questions_are_embedded_in_one_call() -> None:
    calls: list[int] = []

    class Counting(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            calls.append(len(texts))
            return super().embed(texts, role=role)

    with Engine.open(":memory:", embedder=Counting()) as engine:
        engine.add_documents(Document(name, text) for name, text in PAGES.items())
        asked = ["signing keys", "soup at noon", "the pager on Monday", "tides of the moon"]
        calls.clear()
        many = engine.search_many(asked, k=1)
        assert calls == [4]
        assert [documents(hits) for hits in many] == [["vault"], ["lunch"], ["oncall"], ["tides"]]
        assert list(many) == [engine.search(text, k=1) for text in asked]
        engine.drop("lunch")
        uncached = Settings(search=SearchConfig(cache=0))
        few = Filter(documents=frozenset({"vault", "tides"}))
        for strategy, where in product(("semantic", "lexical", "hybrid"), (EVERYTHING, few)):
            asks = partial(engine.search, k=3, strategy=strategy, where=where, settings=uncached)
            calls.clear()
            found = engine.search_many(
                [f"{text}?" for text in asked], k=3, strategy=strategy, where=where, settings=uncached
            )
            assert calls in ([4], [])  # they are cached from the second strategy on
            found = engine.search_many(asked, k=3, strategy=strategy, where=where, settings=uncached)
            assert found == [asks(text) for text in asked]
            assert {hit.document.id for hits in found for hit in hits} <= PAGES.keys() - {"lunch"}
        assert list(engine.search_many([])) == []


def test_a_batch_finds_in_the_shard_what_each_search_finds_alone_and_each_reads_the_state_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(store=StoreConfig(exact_below=3), search=SearchConfig(cache=0))
    read, asked = list[int](), ["signing keys", "soup at noon", "signing keys", "the", "tides of the moon"] * 20
    few = Filter(documents=frozenset({"vault", "tides", "lunch"}))
    with Engine.open(tmp_path / "shard", embedder="hashed", settings=settings) as engine:
        engine.add_documents(Document(name, text) for name, text in PAGES.items())
        assert engine.status().index == "qdrant-edge shard"
        for strategy, where in product(("semantic", "lexical", "hybrid", "document_boost"), (EVERYTHING, few)):
            asks = partial(engine.search, k=3, strategy=strategy, where=where)
            assert engine.search_many(asked, k=3, strategy=strategy, where=where) == [asks(text) for text in asked]
        engine.drop("lunch")
        found = engine.search_many(asked, k=3)
        assert found == [engine.search(text, k=3) for text in asked]
        assert {hit.document.id for hits in found for hit in hits} <= PAGES.keys() - {"lunch"}
        engine.add_documents(Document(f"ship {n}", f"the signing keys of ship {n}") for n in range(60))
        engine.search("pager")  # the index catches up
        again = Database.read_state

        def count_reads(database: Database) -> CollectionState:
            read.append(1)
            return again(database)

        monkeypatch.setattr(Database, "read_state", count_reads)
        for strategy in ("semantic", "lexical", "hybrid"):
            engine.search("signing keys", strategy=strategy)
        assert len(read) == 3
        engine.search_many([f"signing keys of ship {n}" for n in range(65)])
        assert len(read) == 3 + 2  # two batches of at most 64


# -- a whole conversation as the query

TOPICS = {
    "paris": "Paris trip: the museum, the hotel by the river and the train to the city",
    "debug": "Debugging the crash: the stack trace, the null pointer and the failing test",
    "recipe": "Recipe ideas: simmer the onion soup, bake the bread, season with thyme",
}


def talk(each: int) -> list[dict[str, str]]:
    """Rows on three topics, one after the other."""
    return [
        {
            "timestamp": f"2025-01-15 {10 + place}:{number:02}",
            "author": f"u{place}",
            "message": f"{text}, part {number}",
        }
        for place, text in enumerate(TOPICS.values())
        for number in range(each)
    ]


@pytest.fixture
def posts() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as opened:
        opened.add_documents(Document(name, f"A post. {text}.") for name, text in TOPICS.items())
        opened.add_documents(Document(f"paris{n}", f"Paris trip {n}: museum, hotel, river, train.") for n in range(6))
        parts = "\n\n".join(f"## Day {n}\n\nParis trip, the museum, the hotel, the train {n}." for n in range(4))
        opened.add_documents([Document("paris9", parts)])
        yield opened


def conversing(**conversation: object) -> Settings:
    return Settings(conversation=ConversationConfig(**conversation))  # type: ignore[arg-type]


def count_queries(engine: Engine, rows: object) -> int:
    with record() as trace:
        engine.search(rows)  # type: ignore[arg-type]
    step = trace.find("chunked")
    assert step
    return int(step.notes["chunks"])


def test_topics_and_not_the_number_of_messages_decide_how_many_queries_there_are(posts: Engine) -> None:
    same = [{"timestamp": f"2025-01-15 10:{n:02}", "author": "u", "message": TOPICS["paris"]} for n in range(4)]
    assert count_queries(posts, same) == 1
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]
    long = [
        {
            "timestamp": 1_700_000_000 + n,
            "author": "21636369-3f1c-4e59",
            "message": f"{words[n % 12]} {words[n % 7]} {n}",
        }
        for n in range(500)
    ]
    assert count_queries(posts, long) <= 30


def test_turns_of_a_chat_with_a_model_are_a_conversation(posts: Engine) -> None:
    turns = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(TOPICS.values())]
    assert set(TOPICS) <= {name.rstrip("0123456789") for name in documents(posts.search(turns, k=5))}


@pytest.mark.parametrize("strategy", ["semantic", "lexical", "hybrid", "document_boost", "multi_query"])
def test_any_strategy_can_be_that_of_each_topic(posts: Engine, strategy: str) -> None:
    with record() as trace:
        hits = posts.search(talk(10), k=5, strategy=strategy)
    assert set(TOPICS) <= {name.rstrip("0123456789") for name in documents(hits)}
    assert trace.find("chunked")
    assert any("lexical" in hit.scores for hit in hits) == (strategy not in ("semantic", "document_boost"))
    assert posts.explain(talk(10), strategy=strategy).hits


def test_a_question_is_a_text(posts: Engine) -> None:
    with pytest.raises(SettingsError, match="give a text, and the conversation before it as history="):
        posts.ask(talk(3))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"conversation\.strategy is 'chunked'"):
        conversing(strategy="chunked")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"strategy": "lexical"}, {"strategy": "semantic"}),
        ({"dedup_strategy": "document"}, {"dedup_strategy": "none"}),
        ({"single_below": 5}, {"single_below": 1000}),
        ({"chunks_per_query": 1}, {"chunks_per_query": 5}),
        ({"max_tokens": 60}, {"max_tokens": 1800}),
        ({"max_tokens": 60, "overlap_tokens": 0}, {"max_tokens": 60, "overlap_tokens": 30}),
        ({"topics": True}, {"topics": False}),
        ({"global_query": False}, {"global_query": True}),
        (
            {"dedup_strategy": "semantic", "dedup_threshold": 0.3},
            {"dedup_strategy": "semantic", "dedup_threshold": 1.0},
        ),
        ({"order": "score"}, {"order": "score", "mmr": 0.1}),
    ],
)
def test_each_setting_of_a_conversation_changes_something(
    posts: Engine, one: dict[str, object], other: dict[str, object]
) -> None:
    def found(given: dict[str, object]) -> tuple[object, ...]:
        settings = conversing(**{"single_below": 10, "max_tokens": 60, "overlap_tokens": 0, **given})
        with record() as trace:
            hits = posts.search(talk(10), k=8, settings=settings)
        step = trace.find("chunked")
        assert step
        return documents(hits), *(step.notes[name] for name in ("chunks", "results", "rows"))

    assert found(one) != found(other)


def test_an_empty_conversation_finds_nothing(posts: Engine) -> None:
    assert posts.search([]) == []
    assert posts.search([{"timestamp": "1", "author": "a", "message": "  "}]) == []


def test_what_is_no_conversation_is_refused(posts: Engine) -> None:
    with pytest.raises(SettingsError, match="neither a text nor a conversation"):
        posts.search([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="timestamp/ts"):
        posts.search([{"some_col": "x"}])
