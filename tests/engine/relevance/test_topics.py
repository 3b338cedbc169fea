"""Which documents a conversation chooses: by how well each answers, through Engine, on both stores.

The names B1 to B11 are those of the audit of the first design document.
"""

import math
from collections.abc import Sequence
from typing import Literal

import pytest

from clew import Document, Extensions, Settings
from clew.core.protocols import Role
from clew.core.settings import ConversationConfig
from clew.core.types import Matrix
from tests.engine.chosen import ChosenEmbedder, OpenEngine, conversation, documents, split_paragraphs

FILLERS = ("blimtar", "quozzle", "snorvik", "drembul", "yaffolk", "plinthor")


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_b1_of_more_topics_than_wanted_those_with_the_best_documents_are_chosen(
    open_engine: OpenEngine, strategy: str
) -> None:
    cosines = {"weak-a": 0.40, "weak-b": 0.41, "strong-c": 0.99, "strong-d": 0.98, "strong-e": 0.97}
    embedder = ChosenEmbedder({name: {name: cosine} for name, cosine in cosines.items()})
    engine = open_engine(embedder=embedder)
    engine.add_documents(Document(name, name) for name in cosines)
    for filler in FILLERS:
        asked = [f"topic{place} {filler}{place}" for place in range(5)]
        embedder.plan.update({text: {name: 1.0} for text, name in zip(asked, cosines, strict=True)})
        found = engine.search(conversation(*asked), k=3, strategy=strategy)
        assert documents(found) == ["strong-c", "strong-d", "strong-e"], filler
        assert [hit.similarity for hit in found] == pytest.approx([0.99, 0.98, 0.97], abs=1e-6)


def test_b3_of_a_document_the_chunk_that_answers_best_is_kept(open_engine: OpenEngine) -> None:
    plan = {"first part": {"uno": 0.40}, "second part": {"dos": 0.95}, "other page": {"dos": 0.97}}
    embedder = ChosenEmbedder({**plan, "grumvel uno": {"uno": 1.0}, "sproket dos": {"dos": 1.0}})
    engine = open_engine(embedder=embedder, extensions=Extensions(chunker=split_paragraphs))
    engine.add_documents([Document("two", "first part\n\nsecond part"), Document("other", "other page")])
    for order in (("grumvel uno", "sproket dos"), ("sproket dos", "grumvel uno")):
        found = {hit.chunk.doc_id: hit for hit in engine.search(conversation(*order))}
        assert found["two"].chunk.text == "second part"
        assert found["two"].similarity == pytest.approx(0.95, abs=1e-6)
        assert found["other"].similarity == pytest.approx(0.97, abs=1e-6)


@pytest.mark.parametrize("strategy", ["lexical", "semantic"])
def test_of_a_document_the_chunk_that_answers_best_is_kept_by_one_ranking_too(
    open_engine: OpenEngine, strategy: str
) -> None:
    """The worse chunk stands behind so many others that its relevance may be unknown: its score is no relevance."""
    pages = {f"page{place:02}": 0.80 - place / 100 for place in range(22)}
    plan = {f"winch {name}": {"q": cosine} for name, cosine in pages.items()}
    plan |= {"winch winch winch good": {"q": 0.95}, "winch with many more words of another kind": {"q": 0.05}}
    embedder = ChosenEmbedder({**plan, "winch " * 9 + "winch": {"q": 1.0}, "blimtar": {"other": 1.0}})
    engine = open_engine(embedder=embedder, extensions=Extensions(chunker=split_paragraphs))
    engine.add_documents(Document(name, f"winch {name}") for name in pages)
    engine.add_documents(Document(f"far{place}", f"unrelated text {place}") for place in range(50))
    engine.add_documents([Document("two", "winch winch winch good\n\nwinch with many more words of another kind")])
    found = engine.search(conversation("winch " * 9 + "winch", "blimtar"), strategy=strategy)
    assert {hit.chunk.doc_id: hit.chunk.text for hit in found}["two"] == "winch winch winch good"


def test_chances_of_several_topics_do_not_add_up(open_engine: OpenEngine) -> None:
    pages = {f"page {name}": {name: 1.0} for name in FILLERS}
    asked = {f"ask{place}": {name: 0.8} for place, name in enumerate(FILLERS)}
    engine = open_engine(embedder=ChosenEmbedder({**pages, **asked}))
    engine.add_documents(Document(text, text) for text in pages)
    engine.add_documents(Document(f"far{place}", f"unrelated text {place}") for place in range(50))
    chances = [engine.search(text, k=1, strategy="semantic")[0].relevance for text in asked]
    assert max(chances) < engine.settings.context.min_chance < 1 - math.prod(1 - chance for chance in chances)
    found = engine.context(conversation(*asked), strategy="semantic")
    assert not found.passages
    assert found.reason.startswith("nothing relevant was found")


def test_a_question_that_needs_the_messages_around_it_is_no_query_of_its_own(open_engine: OpenEngine) -> None:
    asked = ("The winch has a brake.", "Is it hard?", "Who repairs the winch brake at sea?")
    queries: list[str] = []

    class Listening(ChosenEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            queries.extend(texts if role == "query" else ())
            return super().embed(texts, role=role)

    engine = open_engine(embedder=Listening({text: {"winch": 0.99} for text in asked}))
    engine.add_documents([Document("page", "page")])
    engine.search(conversation(*asked), strategy="semantic")
    assert "Who repairs the winch brake at sea?" in queries
    assert "Is it hard?" not in queries


def test_b7_mmr_is_its_formula(open_engine: OpenEngine) -> None:
    """λ = .7: c has .7·.70 - .3·.35 = .385, b .7·.88 - .3·.95 = .331; an irrelevant fourth changes nothing."""
    x = math.sqrt(1 - 0.9**2)
    plan = {
        "page a": {"q": 0.90, "x": x},
        "page b": {"q": 0.88, "x": (0.95 - 0.9 * 0.88) / x},
        "page c": {"q": 0.70, "x": (0.35 - 0.9 * 0.70) / x},
    }
    embedder = ChosenEmbedder({**plan, "quozzle": {"q": 1.0}})
    engine = open_engine(embedder=embedder)
    engine.add_documents(Document(text[-1], text) for text in plan)
    settings = Settings(conversation=ConversationConfig(order="score", mmr=0.7))
    for _ in range(2):
        found = engine.search(conversation("quozzle"), k=3, settings=settings)
        assert documents(found) == ["a", "c", "b"]
        assert [hit.scores["mmr"] for hit in found] == pytest.approx([0.63, 0.385, 0.331], abs=1e-6)
        engine.add_documents([Document("irrelevant", "nothing of it")])


def test_b8_one_for_each_topic_and_then_the_most_relevant(open_engine: OpenEngine) -> None:
    cosines = {f"A{place}": ("a", 0.99 - place / 100) for place in range(5)}
    cosines |= {"B1": ("b", 0.90), "Bnoise": ("b", 0.35), "C1": ("c", 0.90), "Cnoise": ("c", 0.34)}
    plan = {f"text {name}": {topic: cosine} for name, (topic, cosine) in cosines.items()}
    asked = {"blimtar": {"a": 1.0}, "quozzle": {"b": 1.0}, "snorvik": {"c": 1.0}}
    engine = open_engine(embedder=ChosenEmbedder({**plan, **asked}))
    engine.add_documents(Document(name, f"text {name}") for name in cosines)
    found = documents(engine.search(conversation(*asked), k=5))
    assert set(found[:3]) == {"A0", "B1", "C1"}
    assert found[3:] == ["A1", "A2"]


@pytest.mark.parametrize(("order", "chosen"), [("coverage", {"A0", "A1", "B"}), ("score", {"A0", "A1", "A2"})])
def test_the_order_decides_whether_a_poor_topic_is_covered(
    open_engine: OpenEngine, order: Literal["coverage", "score"], chosen: set[str]
) -> None:
    plan = {"text A0": {"a": 0.99}, "text A1": {"a": 0.98}, "text A2": {"a": 0.97}, "text B": {"b": 0.05}}
    engine = open_engine(embedder=ChosenEmbedder({**plan, "blimtar": {"a": 1.0}, "quozzle": {"b": 1.0}}))
    engine.add_documents(Document(text.removeprefix("text "), text) for text in plan)
    settings = Settings(conversation=ConversationConfig(order=order))
    assert set(documents(engine.search(conversation("quozzle", "blimtar"), k=3, settings=settings))) == chosen


@pytest.mark.parametrize("names", [("page", "stray"), ("stray", "page")])
def test_a_topic_is_served_by_its_most_relevant_document(open_engine: OpenEngine, names: tuple[str, str]) -> None:
    """One page is near, a stray one has a rare word and is far: their fused scores tie, their relevances do not."""
    near, stray = names
    plan = {"nothing of that kind": {"b": 0.73}, "text A0": {"a": 0.99}, "text A1": {"a": 0.9}}
    asked = {"blimtar": {"a": 1.0}, "where is the anchor of the quozzle and the snorvik": {"b": 1.0}}
    engine = open_engine(embedder=ChosenEmbedder({**plan, **asked}), extensions=Extensions(chunker=split_paragraphs))
    engine.add_documents([Document(near, "nothing of that kind"), Document(stray, "snorvik plinthor drembul")])
    engine.add_documents([Document("A0", "text A0"), Document("A1", "text A1")])
    found = engine.search(conversation(*asked), k=2)
    assert set(documents(found)) == {"A0", near}


def test_b11_a_document_with_many_matching_chunks_leaves_room_for_others(open_engine: OpenEngine) -> None:
    embedder = ChosenEmbedder({"winch repair": {"q": 1.0}}, dim=1024)
    big = [f"winch repair {place}" for place in range(900)]
    embedder.plan.update({text: {"q": 0.9} for text in big})
    embedder.plan.update({f"winch other{place}": {"q": 0.7} for place in range(6)})
    engine = open_engine(embedder=embedder, extensions=Extensions(chunker=split_paragraphs))
    engine.add_documents([Document("big", "\n\n".join(big))])
    engine.add_documents(Document(f"other{place}", f"winch other{place}") for place in range(6))
    found = documents(engine.search(conversation("winch repair"), k=5))
    assert len(set(found)) == 5
    assert found[0] == "big"
