"""Similarity is the cosine whichever leg found a hit, floors bind every hit, and nothing relevant means nothing."""

from typing import Any

import pytest

from clew import Document, Engine, Hit, Message, Settings
from clew.compat import get_context_window, message_with_context, query_rag_for_context
from clew.core.settings import ContextConfig, RerankerConfig, SearchConfig
from clew.core.window import Failure, RagErrorReason, Success
from tests.engine.chosen import ChosenEmbedder, OpenEngine, conversation, documents

STRATEGIES = ("semantic", "lexical", "hybrid", "rerank", "multi_query", "document_boost", "chunked", "auto")
ASKED = "when is the board meeting of the quarter?"
PAGES = {"paris": "hotels that meet every quarter on board", "tax": "file the tax", "recipes": "leek soup with cream"}
COSINES = {"paris": 0.43, "tax": 0.58, "recipes": 0.55}


def fill(open_engine: OpenEngine, cosines: dict[str, float] | None = None) -> Engine:
    plan = {PAGES[name]: {"q": cosine} for name, cosine in (cosines or COSINES).items()}
    engine = open_engine(embedder=ChosenEmbedder({**plan, ASKED: {"q": 1.0}}))
    engine.add_documents(Document(name, text, title=name) for name, text in PAGES.items())
    return engine


def with_search(**search: Any) -> Settings:
    return Settings(search=SearchConfig(**search), reranker=RerankerConfig(name="overlap"))


def cosines(hits: list[Hit]) -> dict[str, float]:
    return {hit.chunk.doc_id: hit.similarity for hit in hits}


# -- B2: similarities are cosines, and a minimum binds


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_b2_the_similarity_of_every_hit_is_its_cosine(open_engine: OpenEngine, strategy: str) -> None:
    found = cosines(fill(open_engine).search(ASKED, strategy=strategy, settings=with_search()))
    assert found == pytest.approx({name: COSINES[name] for name in found}, abs=1e-6)
    assert "paris" in found  # the page with words of the question
    assert len(found) == (1 if strategy == "lexical" else 3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_b2_a_minimum_of_similarity_binds_what_words_found(open_engine: OpenEngine, strategy: str) -> None:
    engine = fill(open_engine)
    for minimum in (0.7, 0.99):
        assert engine.search(ASKED, strategy=strategy, settings=with_search(min_similarity=minimum)) == []
        for given in (with_search(min_similarity=minimum), with_search(min_similarity=minimum, semantic_weight=1.0)):
            assert engine.search(conversation(ASKED), settings=given) == []
    some = engine.search(ASKED, strategy=strategy, settings=with_search(min_similarity=0.5))
    assert set(documents(some)) == ({"tax", "recipes"} if strategy != "lexical" else set())


def test_b2_related_posts_report_cosines_and_keep_to_the_minimum(open_engine: OpenEngine) -> None:
    engine = fill(open_engine)
    outcome = query_rag_for_context(engine, conversation(ASKED), settings=with_search(min_similarity=0.4))
    assert isinstance(outcome, Success)
    reported = {record["document_id"]: record["similarity"] for record in outcome.value.records}
    assert reported == pytest.approx(COSINES, abs=1e-6)
    assert list(reported) == ["tax", "recipes", "paris"]
    assert "- Similarity: 0.43" in outcome.value.text
    for minimum in (0.7, 0.99):
        strict = with_search(min_similarity=minimum)
        assert query_rag_for_context(engine, conversation(ASKED), settings=strict) == Failure(RagErrorReason.NO_HITS)


def test_a_window_with_a_minimum_has_no_second_floor(engine: Engine) -> None:
    told = ["The deploy is done", "Lunch at noon?"]
    engine.add_messages(Message(text, author="ada", id=f"m{n}", channel="a") for n, text in enumerate(told))
    asked = "API integration status"
    assert engine.window("a", asked).messages == get_context_window(engine, "a", asked).messages == ()
    shown = get_context_window(engine, "a", asked, min_score=-1)
    assert {each.message.text for each in shown.messages} == set(told)
    for minimum in (0.0, 0.99):
        shown = get_context_window(engine, "a", asked, min_score=minimum)
        assert [each for each in shown.messages if each.similarity < minimum] == []
        kept = {each.message.text for each in (*shown.messages, *(dropped.message for dropped in shown.dropped))}
        assert kept == set(told)


def test_what_only_words_find_is_returned_by_default(open_engine: OpenEngine) -> None:
    """Case 8.4."""
    engine = fill(open_engine, {"paris": -0.2, "tax": 0.1, "recipes": 0.1})
    assert cosines(engine.search(ASKED))["paris"] == pytest.approx(-0.2, abs=1e-6)


# -- the floor of relevance


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_minimum_of_relevance_binds_every_hit(open_engine: OpenEngine, strategy: str) -> None:
    engine = fill(open_engine)
    every = engine.search(ASKED, strategy=strategy, settings=with_search())
    assert all(0 <= hit.relevance <= 1 for hit in every)
    for minimum in {hit.relevance for hit in every}:
        found = engine.search(ASKED, strategy=strategy, settings=with_search(min_relevance=minimum))
        assert documents(found) == [hit.chunk.doc_id for hit in every if hit.relevance >= minimum]


@pytest.mark.parametrize("strategy", ["hybrid", "semantic", "rerank"])
def test_the_same_chunk_has_the_same_relevance_whoever_found_it(open_engine: OpenEngine, strategy: str) -> None:
    """But for the reranker, which refines it."""
    engine = fill(open_engine)
    found = {hit.chunk.doc_id: hit.relevance for hit in engine.search(ASKED, strategy=strategy, settings=with_search())}
    hybrid = {hit.chunk.doc_id: hit.relevance for hit in engine.search(ASKED)}
    assert (found == pytest.approx(hybrid, abs=1e-9)) == (strategy != "rerank")


# -- nothing relevant means nothing


def open_answering(open_engine: OpenEngine) -> Engine:
    plan = {"Signing keys are rotated by Dan.": {"q": 0.9}, "Lunch is soup at noon, thanks to the cook.": {"t": 0.5}}
    asked = {"who rotates the signing keys?": {"q": 1.0}, "thanks!": {"t": 1.0}}
    engine = open_engine(embedder=ChosenEmbedder({**plan, **asked}))
    engine.add_documents(Document(f"p{place}", text) for place, text in enumerate(plan))
    return engine


def test_a_context_leaves_out_what_is_irrelevant_and_says_so(open_engine: OpenEngine) -> None:
    context = open_answering(open_engine).context("who rotates the signing keys?")
    assert [passage.text for passage in context.passages] == ["Signing keys are rotated by Dan."]
    assert [(each.reason, each.passage.text) for each in context.dropped] == [
        ("relevance", "Lunch is soup at noon, thanks to the cook.")
    ]
    assert context.reason == ""


def test_an_answer_is_shown_though_many_texts_are_about_as_near(open_engine: OpenEngine) -> None:
    """They lower its relevance, and not the chance that there is an answer."""
    plan = {f"The keys of station {n} are kept by Dan.": {"q": 0.7} for n in range(30)}
    asked = "who keeps the keys?"
    engine = open_engine(embedder=ChosenEmbedder({**plan, asked: {"q": 1.0}}))
    engine.add_documents(Document(f"p{place}", text) for place, text in enumerate(plan))
    hits = engine.search(asked)
    assert max(hit.relevance for hit in hits) < engine.settings.context.min_chance < hits[0].scores["answer"]
    assert engine.context(asked).passages


def test_of_a_conversation_what_asks_nothing_is_shown_only_what_stands_out(open_engine: OpenEngine) -> None:
    plan = {f"The keys of station {n} are kept by Dan.": {"q": 0.7} for n in range(30)}
    asked, told = "who keeps the keys?", "somebody keeps the keys"
    engine = open_engine(embedder=ChosenEmbedder({**plan, asked: {"q": 1.0}, told: {"q": 1.0}, "blimtar": {"b": 1.0}}))
    engine.add_documents(Document(f"p{place}", text) for place, text in enumerate(plan))
    for said, is_shown in ((asked, True), (told, False)):
        assert bool(engine.context(conversation(said, "blimtar")).passages) == is_shown


@pytest.mark.parametrize("said", ["thanks!", "ok", "good morning everyone", "zorvex blimtar snorvik"])
def test_small_talk_and_nonsense_find_nothing(open_engine: OpenEngine, said: str) -> None:
    engine = open_answering(open_engine)
    context = engine.context(said)
    assert (context.passages, context.text, context.tokens) == ((), "", 0)
    assert context.reason.startswith("nothing relevant was found: the chance that any of 2 hits answers is 0.")
    assert {each.reason for each in context.dropped} == {"relevance"}
    assert message_with_context(engine, said) == said
    asked = message_with_context(engine, "who rotates the signing keys?")
    assert "Signing keys are rotated by Dan." in asked
    assert "Lunch" not in asked


def test_the_floors_of_a_context_are_settings(open_engine: OpenEngine) -> None:
    engine = open_answering(open_engine)

    def shown(min_chance: float, min_relevance: float, said: str = "thanks!") -> int:
        given = ContextConfig(min_chance=min_chance, min_relevance=min_relevance)
        return len(engine.context(said, settings=Settings(context=given)).passages)

    assert shown(0.0, 0.0) == 2
    assert shown(0.0, 1.0) == 0
    assert shown(1.0, 0.0) == 0
    assert shown(0.3, 0.0, "who rotates the signing keys?") == 2
    assert shown(0.3, 0.01, "who rotates the signing keys?") == 1


def test_a_window_is_empty_where_nothing_relevant_was_said(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder=ChosenEmbedder())
    assert engine.context("thanks!").reason == "the collection is empty"
    engine.add_messages([Message("The deploy of Friday went well", author="ada", channel="ops")])
    assert engine.window("ops", "how went the deploy of Friday?").messages
    for said in ("thanks!", "where is the harbour?"):
        window = engine.window("ops", said)
        assert (window.messages, window.text, window.total_tokens) == ((), "", 0)
        assert window.reason.startswith("no message is relevant enough: the best of 1 has a relevance of 0.")
        assert [each.reason for each in window.dropped] == ["below the minimum"]
