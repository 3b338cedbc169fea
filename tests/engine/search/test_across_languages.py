"""A collection in several languages: a text in another language than the question is judged by its meaning."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from clew import Document, Engine, Extensions, Message, Settings, record
from clew.core.settings import IngestionConfig
from tests.engine.chosen import ChosenEmbedder, OpenEngine

QUESTION = "Wer wechselt die Schlüssel der Server, und wann ist das?"
MEANT = "The operations team rotates the keys of all servers and that is done every ninety days."
CHANCE = "Das Museum zeigt die Schlüssel der alten Burg, und das ist auch für Kinder schön."
PAGES = {
    "meant": MEANT,
    "chance": CHANCE,
    "bread": "Das Brot ist frisch, und die Bäckerei der Stadt ist auch am Sonntag für alle offen.",
    "boats": "The boats are moored at the quay and that is the end of the season for them.",
    "cat": "屋顶上有一只猫，它在那里睡觉，太阳很好，天气也很好。",
}


def plan(**shares: float) -> ChosenEmbedder:
    """An embedder in which the pages have these cosines with the question."""
    return ChosenEmbedder({QUESTION: {"q": 1.0}, **{PAGES[id_]: {"q": share} for id_, share in shares.items()}})


def fill(engine: Engine) -> Engine:
    engine.add_documents([Document(id_, text) for id_, text in PAGES.items()])
    return engine


def find(engine: Engine, strategy: str = "hybrid", question: str = QUESTION) -> list[str]:
    return [hit.document.id for hit in engine.search(question, strategy=strategy)]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder=plan(meant=0.6, chance=0.1), extensions=Extensions(reranker="")) as engine:
        yield fill(engine)


def test_chance_words_do_not_go_before_the_answer_in_another_language(open_engine: OpenEngine) -> None:
    engine = fill(open_engine(embedder=plan(meant=0.6, chance=0.1)))
    assert engine.status().languages == {"de": 2, "en": 2, "zh": 1}
    assert find(engine, "lexical")[0] == "chance"
    assert find(engine)[:2] == ["meant", "chance"]
    hits = {hit.document.id: hit for hit in engine.search(QUESTION)}
    assert hits["meant"].relevance > hits["chance"].relevance


@pytest.mark.parametrize("strategy", ["auto", "multi_query", "document_boost"])
def test_strategies_over_hybrid_find_it_too(engine: Engine, strategy: str) -> None:
    settings = replace(engine.settings, search=replace(engine.settings.search, document_strategy="hybrid"))
    assert engine.search(QUESTION, strategy=strategy, settings=settings)[0].document.id == "meant"


def test_a_conversation_finds_it_too(engine: Engine) -> None:
    assert engine.search([Message(QUESTION, "Ida")])[0].document.id == "meant"


def test_the_words_of_a_text_in_the_language_of_the_question_count() -> None:
    says = "Wer die Schlüssel der Server wechselt, ist das Team der Technik, und wann das ist, sagt der Plan."
    embedder = plan(meant=0.42, chance=0.1)
    embedder.plan[says] = {"q": 0.38}
    with Engine.open(":memory:", embedder=embedder) as engine:
        fill(engine).add_documents([Document("says", says)])
        assert find(engine, "semantic")[0] == "meant"
        assert find(engine)[:2] == ["says", "meant"]


@pytest.mark.parametrize(("languages", "first"), [({"de", "en"}, "meant"), ({"en"}, "chance")])
def test_few_words_count_little_where_the_embedder_knows_the_language(languages: set[str], first: str) -> None:
    embedder = plan(meant=0.35, chance=0.35)
    embedder.languages = languages
    with Engine.open(":memory:", embedder=embedder) as engine:
        assert find(fill(engine))[0] == first


def test_the_explanation_says_which_hits_were_judged_by_meaning(engine: Engine) -> None:
    with record() as trace:
        hits = engine.search(QUESTION)
    foreign = {hit.document.id for hit in hits if "expected_words" in hit.scores}
    assert foreign == {"meant", "boats", "cat"}
    step = trace.find("rank")
    assert step
    assert step.notes["in_other_languages"] == 3
    lines = str(engine.explain(QUESTION)).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("  1. "))
    assert "another language than the question" in lines[first + 1]
    assert sum("another language" in line for line in lines) == 3


def test_a_question_that_may_be_in_several_languages_is_in_none_of_another_script(engine: Engine) -> None:
    hits = engine.search("Schlüssel Museum")
    assert {hit.document.id for hit in hits if "expected_words" in hit.scores} == {"cat"}


def test_few_texts_in_other_languages_change_nothing() -> None:
    with Engine.open(":memory:", embedder=plan(meant=0.6, chance=0.1)) as engine:
        engine.add_documents([Document(f"de{at}", f"{CHANCE} Und das ist die Nummer {at}.") for at in range(40)])
        engine.add_documents([Document("meant", MEANT)])
        hits = engine.search(QUESTION, k=41)
        assert len(hits) == 41
        assert not any("expected_words" in hit.scores for hit in hits)
        engine.add_documents([Document(f"en{at}", f"{MEANT} And that is all of part {at}.") for at in range(2)])
        hits = engine.search(QUESTION, k=43)
        assert {hit.document.id for hit in hits if "expected_words" in hit.scores} <= {"meant", "en0", "en1"}
        assert any("expected_words" in hit.scores for hit in hits)


def test_a_collection_in_one_language_by_its_settings_knows_no_other() -> None:
    settings = Settings(ingestion=IngestionConfig(language="de"))
    with Engine.open(":memory:", embedder=plan(meant=0.6, chance=0.1), settings=settings) as engine:
        assert not any("expected_words" in hit.scores for hit in fill(engine).search(QUESTION))


def test_texts_in_a_language_that_the_embedder_does_not_know_change_nothing() -> None:
    question, strange = "Which team rotates the server keys?", "屋顶上有一只猫，它在那里睡觉，太阳很好。"
    embedder = ChosenEmbedder({question: {"q": 1.0}, MEANT: {"q": 0.5}, strange: {"q": 0.6}}, languages={"en"})
    with Engine.open(":memory:", embedder=embedder, extensions=Extensions(reranker="")) as engine:
        pages = [Document("meant", MEANT), *(Document(f"en{at}", f"{PAGES['boats']} {at}") for at in range(4))]
        engine.add_documents(pages)
        before = engine.search(question)[0]
        engine.add_documents([Document("strange", strange)])
        hits = engine.search(question)
        assert hits[0].document.id == before.document.id == "meant"
        assert not any("expected_words" in hit.scores for hit in hits)


def test_a_question_of_some_words_is_taken_for_its_likely_language() -> None:
    question = "kahve makinesini kim temizliyor?"  # no stop word of a list
    pages = {
        "meant": "The espresso machine on the third floor is descaled by Priya and that is on Fridays.",
        "zh": PAGES["cat"],
        "tr": "Öğle yemeği saat on iki ile iki arasında verilir ve menü için bir gün önceden haber vermek gerekir.",
    }
    embedder = ChosenEmbedder({question: {"q": 1.0}, pages["meant"]: {"q": 0.4}, pages["zh"]: {"q": 0.1}})
    embedder.languages = {"en", "tr", "zh"}
    with Engine.open(":memory:", embedder=embedder, extensions=Extensions(reranker="")) as engine:
        engine.add_documents([Document(id_, text) for id_, text in pages.items()])
        assert find(engine, question=question)[0] == "meant"
        with record() as trace:
            engine.search(question)
        step = trace.find("search")
        assert step
        assert step.notes["language"] == "tr"
