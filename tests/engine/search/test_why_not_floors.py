"""Why something is not shown when a floor left it out: the stage is the threshold, and the floor is what to change."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from clew import Document, Engine, Settings
from clew.core.settings import SearchConfig
from tests.engine.chosen import ChosenEmbedder

ASKED = "who rotates the signing keys?"
PAGES = {"answer": ("Signing keys are rotated by Dan.", 0.9), "soup": ("Soup is served at noon.", 0.2)}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    plan = {text: {"q": cosine} for text, cosine in PAGES.values()}
    with Engine.open(":memory:", embedder=ChosenEmbedder({**plan, ASKED: {"q": 1.0}})) as opened:
        opened.add_documents(Document(name, text, uri=name) for name, (text, _) in PAGES.items())
        yield opened


@pytest.mark.parametrize("strategy", ["hybrid", "lexical", "semantic"])
def test_a_minimum_of_similarity_is_named_and_lowered(engine: Engine, strategy: str) -> None:
    settings = Settings(search=SearchConfig(min_similarity=0.95))
    lost = engine.why_not(ASKED, "answer", strategy=strategy, settings=settings)
    assert lost.stage == "threshold"
    assert "0.9" in lost.reason
    assert lost.fix is not None
    assert lost.fix.setting == "search.min_similarity"
    assert isinstance(lost.fix.value, float)
    lower = replace(settings, search=replace(settings.search, min_similarity=lost.fix.value))
    assert [hit.chunk.doc_id for hit in engine.search(ASKED, strategy=strategy, settings=lower)] == ["answer"]


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_a_minimum_of_relevance_is_named_and_lowered(engine: Engine, strategy: str) -> None:
    settings = Settings(search=SearchConfig(min_relevance=0.5))
    lost = engine.why_not(ASKED, "soup", strategy=strategy, settings=settings)
    assert lost.stage == "threshold"
    assert lost.fix is not None
    assert lost.fix.setting == "search.min_relevance"
    assert isinstance(lost.fix.value, float)
    lower = replace(settings, search=replace(settings.search, min_relevance=lost.fix.value))
    assert "soup" in {hit.chunk.doc_id for hit in engine.search(ASKED, strategy=strategy, settings=lower)}


def test_the_floor_of_a_context_is_named(engine: Engine) -> None:
    lost = engine.why_not(ASKED, "soup", tokens=500)
    assert lost.stage == "threshold"
    assert "relevance" in lost.reason
    assert lost.fix is not None
    assert lost.fix.setting == "context.min_relevance"


def test_what_small_talk_does_not_show_is_left_out_by_the_chance_of_an_answer(engine: Engine) -> None:
    lost = engine.why_not("thanks!", "soup", tokens=500)
    assert lost.stage == "threshold"
    assert "relevance" in lost.reason
